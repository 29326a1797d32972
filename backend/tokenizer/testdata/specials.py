"""Writes specials.json: how llama.cpp encodes texts with special tokens, with a
vocabulary made of the one of stories260K and four tokens more.

    python3 -m venv v && v/bin/pip install gguf==0.19.0 llama-cpp-python==0.3.36
    v/bin/python specials.py ../../../integration_test/models/stories260K-f16.gguf > specials.json

Of the four, <|end|> is of a type that llama.cpp mends, as some files have it.
The name "Phi-3" makes it drop white space after most special tokens.
"""
import json
import random
import sys
import tempfile
import gguf
from llama_cpp import Llama

MORE = [("<|user|>", 3), ("<|end|>", 4), ("<tool>", 4), ("<|endoftext|>", 3)]
PARTS = ["Once", " upon", " ", "  ", "\n", "\n\n", "\t \v", "\r\n", "\u00a0", "a", "é", "<s>", "</s>", "<unk>", "<", *(t for t, _ in MORE)]
reader = gguf.GGUFReader(sys.argv[1])


def write(path, name, prefix):
    w = gguf.GGUFWriter(path, "llama")
    for f in reader.fields.values():
        key = f.name
        if key.startswith("GGUF.") or key in ("general.architecture", "general.name", "tokenizer.ggml.add_space_prefix"):
            continue
        value = f.contents()
        if key == "tokenizer.ggml.tokens":
            value = value + [t for t, _ in MORE]
        elif key == "tokenizer.ggml.token_type":
            value = value + [n for _, n in MORE]
        elif key == "tokenizer.ggml.scores":
            value = value + [-1000.0] * len(MORE)
        if f.types[0] == gguf.GGUFValueType.ARRAY:
            w.add_array(key, value)
        else:
            w.add_key_value(key, value, f.types[0])
    w.add_string("general.name", name)
    w.add_bool("tokenizer.ggml.add_space_prefix", prefix)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


rng = random.Random(6)
texts = ["".join(rng.choice(PARTS) for _ in range(rng.randint(1, 9))) for _ in range(80)]
cases = []
for name in ("stories", "Phi-3 small"):
    for prefix in (True, False):
        with tempfile.NamedTemporaryFile(suffix=".gguf") as f:
            write(f.name, name, prefix)
            llama = Llama(f.name, vocab_only=True, verbose=False)
            for parse in (False, True):
                ids = [" ".join(map(str, llama.tokenize(t.encode(), add_bos=False, special=parse))) for t in texts]
                cases.append({"name": name, "prefix": prefix, "parse": parse, "ids": ids})
print(json.dumps({"more": MORE, "texts": texts, "cases": cases}, indent=0))
