"""Writes words.json: how the patterns of the models' own tokenizer files cut
texts, by the Hugging Face library `tokenizers` (Oniguruma, with lookahead).

    python3 -m venv v && v/bin/pip install tokenizers==0.23.3 && v/bin/python words.py > words.json
"""
import json
import random
from tokenizers import Regex
from tokenizers.pre_tokenizers import Sequence, Split

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
HEAD = r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}]?\p{L}+|"
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
RULES = {
    "gpt-2": [GPT2],
    "smollm": [r"\p{N}", GPT2],
    "qwen2": [HEAD + r"\p{N}" + TAIL],
    "llama-bpe": [HEAD + r"\p{N}{1,3}" + TAIL],
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"],
}
PARTS = [" ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", "\v", "\x85", "\u00a0", "\u2003", "\u3000", "\u2028", "\u200b",
         "a", "Hello", "été", "e\u0301", "你好", "नमस्ते", "ſ", "ß", "K", "7", "1234567", "٣", "Ⅳ", "½", "'s", "'S", "'ſ", "'re",
         "'LL", "'", "\"", "!", "...", "$", "+", "<=>", "^~|", "`", "_", "-----", "😶\u200d🌫️", "\ufffd", "\u0000", "€", "\ue000"]
rng = random.Random(5)
texts = ["".join(rng.choice(PARTS) for _ in range(rng.randint(1, 14))) for _ in range(120)]
words = {}
for name, patterns in RULES.items():
    pre = Sequence([Split(Regex(p), "isolated") for p in patterns])
    words[name] = [[w for w, _ in pre.pre_tokenize_str(t)] for t in texts]
print(json.dumps({"texts": texts, "words": words}, separators=(",", ":")))
