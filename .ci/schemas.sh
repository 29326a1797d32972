#!/bin/sh
# schemas.sh [CACHE_DIR]: fetch the JSON-Schema-Test-Suite into a cache outside the
# repository, where tests find it through SDNPU_SCHEMAS.
#
# The source package of Python's jsonschema (MIT) carries the suite (MIT).
# Running this again costs nothing.
set -eu

cache=${1:-${SDNPU_SCHEMAS:-${XDG_CACHE_HOME:-$HOME/.cache}/sdnpu/schemas}}
me=schemas
. "$(dirname "$0")/source.sh"

if [ -f "$cache/draft2020-12/type.json" ]; then
	echo "schemas: the suite is in $cache"
	exit
fi
source_package "$cache" jsonschema 4.26.0 0c26707e2efad8aa1bfc5b7ce170f3fccc2e4918ff85989ba9ffa9facb2be326
mv "$source/json/tests/draft2020-12" "$cache/draft2020-12"
echo "schemas: export SDNPU_SCHEMAS=$cache"
