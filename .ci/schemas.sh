#!/bin/sh
# schemas.sh [CACHE_DIR]: fetch the JSON-Schema-Test-Suite into a cache outside the
# repository, where tests find it through SDNPU_SCHEMAS.
#
# The source package of Python's jsonschema (MIT) carries the suite (MIT). pip reads the
# package's metadata with its build tool; nothing is installed.
# Running this again costs nothing.
set -eu

package=jsonschema
version=4.26.0
sum=0c26707e2efad8aa1bfc5b7ce170f3fccc2e4918ff85989ba9ffa9facb2be326
cache=${1:-${SDNPU_SCHEMAS:-${XDG_CACHE_HOME:-$HOME/.cache}/sdnpu/schemas}}

fail() {
	echo "schemas: $*" >&2
	exit 1
}

if [ -f "$cache/draft2020-12/type.json" ]; then
	echo "schemas: the suite is in $cache"
	exit
fi
python3 -m pip --version >/dev/null 2>&1 || fail "pip is missing: apt-get install python3 python3-pip"
mkdir -p "$cache"
work=$(mktemp -d "$cache/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-binary=:all: --dest "$work" \
	"$package==$version" || fail "pip could not fetch $package==$version; see its message above"
[ "$(sha256sum "$work/$package-$version.tar.gz" | cut -d ' ' -f 1)" = "$sum" ] ||
	fail "$package $version is another file than before: its SHA-256 is not $sum"
tar -xzf "$work/$package-$version.tar.gz" -C "$work"
mv "$work/$package-$version/json/tests/draft2020-12" "$cache/draft2020-12"
echo "schemas: export SDNPU_SCHEMAS=$cache"
