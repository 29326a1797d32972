#!/bin/sh
# clients.sh [CACHE_DIR]: install the client libraries of integration_test/clients into
# a cache outside the repository, and print the folder that holds them: python has the
# Python packages, node_modules the JavaScript ones, and tools the Python programs of tools.txt.
#
# pip and npm install exactly the versions of requirements.txt, tools.txt and package-lock.json.
# Each set of versions has a folder of its own. Running this again costs nothing.
set -eu
cd "$(dirname "$0")/../integration_test/clients"

cache=${1:-${SDNPU_CLIENTS:-${XDG_CACHE_HOME:-$HOME/.cache}/sdnpu/clients}}

fail() {
	echo "clients: $*" >&2
	exit 1
}

python3 -m pip --version >/dev/null 2>&1 || fail "pip is missing: apt-get install python3 python3-pip"
command -v npm >/dev/null || fail "npm is missing: apt-get install nodejs npm"
version=$(python3 -c 'import sys; print(sys.version_info[:2])')
set=$({ echo "$version" && cat python/requirements.txt python/tools.txt javascript/package-lock.json; } | sha256sum | cut -c 1-16)
if [ -d "$cache/$set" ]; then
	echo "$cache/$set"
	exit
fi
echo "clients: installing client libraries into $cache/$set" >&2
mkdir -p "$cache"
work=$(mktemp -d "$cache/install.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
pip_install() { # pip_install FOLDER FILE
	python3 -m pip install --quiet --disable-pip-version-check --no-deps --only-binary=:all: --target "$work/$1" \
		-r "python/$2" >&2 || fail "pip could not install $2; see its message above"
}
pip_install python requirements.txt
pip_install tools tools.txt
cp javascript/package.json javascript/package-lock.json "$work"
npm ci --prefix "$work" --ignore-scripts --no-audit --no-fund >&2 || fail "npm could not install package-lock.json; see its message above"
mv "$work" "$cache/$set" 2>/dev/null || [ -d "$cache/$set" ] || fail "$cache/$set cannot be written"
echo "$cache/$set"
