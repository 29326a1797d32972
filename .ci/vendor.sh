#!/bin/sh
# vendor.sh [CACHE_DIR [SYSTEM...]]: fetch the vendor's x86-64 libraries, which
# execute NPU graphs on the CPU, into a cache outside the repository, and those of
# other systems, such as linux/arm64, into a folder linux-arm64 of it. Tests find
# them there through SDNPU_VENDOR. They are Qualcomm's, under Qualcomm's own
# licence: never commit them, never ship them.
#
# The libraries come in Python wheels, which pip fetches and our own command
# unpacks, as it does for users: only what is loaded, each file compared with the
# sum that the wheel's RECORD gives for it. An older wheel has the plain float
# library, libQnnCpu.so. Running it again costs nothing.
set -eu

package=onnxruntime-qnn
version=2.7.0
older=2.3.0 # the last with libQnnCpu.so
# The wheels' SHA-256. The first is also in adapters/qnnruntime/pins.go.
version_sum=c56c01562b8534fe8980cfea4601408d950c065f8251fb862ce82101c52c9849
older_sum=087bb672ca0cabd3c7fed07084478fe78658cfa09fae1cb013099d7b2289dc72
cache=${1:-${SDNPU_VENDOR:-${XDG_CACHE_HOME:-$HOME/.cache}/sdnpu/vendor}}
[ $# -eq 0 ] || shift

me=vendor
. "$(dirname "$0")/wheel.sh"

if [ "$(uname -s)-$(uname -m)" != Linux-x86_64 ]; then
	fail "the library exists for Linux on x86-64 only; this is $(uname -s) on $(uname -m)"
fi

# installed VERSION DIR: whether a folder has been filled with that wheel.
installed() {
	grep -qs "\"version\": \"$1\"" "$2/runtime.json" && grep -qs QnnSaver "$2/runtime.json"
}

# fetch VERSION DIR SHA256
fetch() {
	if installed "$1" "$2"; then
		echo "vendor: $package $1 is in $2"
		return
	fi
	# The names of the platform and the Python are the wheel's, not this
	# machine's: nothing is installed or run by Python. Some 99 MB.
	wheel "$2" "$package" "$1" --python-version 3.11 --implementation cp --abi cp311 \
		--platform manylinux_2_35_x86_64 --platform manylinux_2_34_x86_64
	(cd "$(dirname "$0")/.." && go run ./adapters/sdnpu runtime install --from "$work"/*.whl --sha256 "$3" --to "$2" --all --accept-license)
	rm -rf "$work"
}

fetch "$version" "$cache" "$version_sum"
fetch "$older" "$cache/$older" "$older_sum"
for system in "$@"; do
	folder=$cache/$(echo "$system" | tr / -)
	installed "$version" "$folder" || (cd "$(dirname "$0")/.." &&
		go run ./adapters/sdnpu runtime install --system "$system" --to "$folder" --all --accept-license)
done
echo "vendor: licence: $cache/onnxruntime_qnn/Qualcomm_LICENSE.pdf (Qualcomm's proprietary licence)"
echo "vendor: read it before you use the libraries, which are never part of this repository"
echo "vendor: export SDNPU_VENDOR=$cache"
