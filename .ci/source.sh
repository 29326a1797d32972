# source.sh is read by the scripts that take files from Python source packages; $me is the
# name of the script. Nothing is built or installed: pip only reads the metadata.

fail() {
	echo "$me: $*" >&2
	exit 1
}

# source_package DIR PACKAGE VERSION SHA256: pip fetches the package, which is unpacked to
# the folder $source in DIR. The folder is removed when the script ends, however it does.
source_package() {
	python3 -m pip --version >/dev/null 2>&1 || fail "pip is missing: apt-get install python3 python3-pip"
	mkdir -p "$1"
	work=$(mktemp -d "$1/fetch.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	trap 'exit 1' HUP INT TERM
	python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-binary=:all: --dest "$work" \
		"$2==$3" || fail "pip could not fetch $2==$3; see its message above"
	[ "$(sha256sum "$work/$2-$3.tar.gz" | cut -d ' ' -f 1)" = "$4" ] ||
		fail "$2 $3 is another file than before: its SHA-256 is not $4"
	tar -xzf "$work/$2-$3.tar.gz" -C "$work"
	source=$work/$2-$3
}
