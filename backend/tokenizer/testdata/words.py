"""Writes words.json: how the patterns of the models' own tokenizer files cut
texts, by the Hugging Face library `tokenizers` (Oniguruma, with lookahead).
A row has the lengths of the words of a text, in characters.

    python3 -m venv v && v/bin/pip install tokenizers==0.23.3 && v/bin/python words.py > words.json

Contractions are written out: (?i:'s) would take the long s, which the models'
own code does not. Where llama.cpp has other patterns than a model's file
(GPT-4o, Tekken: no classes of case beyond ASCII there), these are the file's.
"""
import json
import random
from tokenizers import Regex
from tokenizers.pre_tokenizers import Sequence, Split

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
SHORT = r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]"
HEAD = SHORT + r"|[^\r\n\p{L}\p{N}]?\p{L}+|"
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TAIL4O = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CHINESE = "[一-龥ࠀ-一가-\ud7ff]+"
BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"
CASED = ("A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄ"
         "ῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃")
RULES = {
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"],
    "gpt-2": [GPT2],
    "smollm": [r"\p{N}", GPT2],
    "qwen2": [HEAD + r"\p{N}" + TAIL],
    "llama-bpe": [HEAD + r"\p{N}{1,3}" + TAIL],
    "dbrx": [HEAD + r"\p{N}{1,3}" + TAIL],
    "glm4": [HEAD + r"\p{N}{1,3}" + TAIL],
    "tekken": [UPPER + "*" + LOWER + "+|" + UPPER + "+" + LOWER + r"*|\p{N}" + TAIL4O],
    "gpt-4o": [UPPER + "*" + LOWER + f"+(?:{SHORT})?|" + UPPER + "+" + LOWER + rf"*(?:{SHORT})?|\p{{N}}{{1,3}}" + TAIL4O],
    "qwen35": [SHORT + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "minicpm5": [r"\p{N}{1,3}", HEAD + r"\p{N}+" + TAIL],
    "ufakzeka": [r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + TAIL],
    "seed-coder": [HEAD + r"\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "deepseek-llm": [r"[\r\n]", rf"\s?[{CASED}]+", r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
                     r"\s+$", CHINESE, r"\p{N}+"],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", CHINESE, r"\p{N}"],
    "deepseek-v3": [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
                    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
                    r"|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, r"[0-9][0-9][0-9]"],
    "bloom": [BLOOM],
    "viking": [BLOOM, r"\p{N}"],
}
PARTS = [" ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", "\v", "\x85", "\u00a0", "\u2003", "\u3000", "\u2028", "\u200b",
         "a", "Hello", "été", "e\u0301", "你好", "नमस्ते", "ſ", "ß", "K", "7", "1234567", "٣", "Ⅳ", "½", "'s", "'S", "'ſ", "'re",
         "'LL", "'", "\"", "!", "...", "$", "+", "<=>", "^~|", "`", "_", "-----", "😶\u200d🌫️", "\ufffd", "\u0000", "€", "\ue000",
         "HTMLParser", "ÉcoleÉ", "Ǆǅǆ", "ʰ", "ひらカタ", "한국어", "ქართული", "ᲐჅ", "𐐀𐐨", "。", "，", "！（", "“”", "।", "|", "(", ")", ".", ",",
         "?", "…", "/", "//", ".x", "-y", "#z", "ªº", "ƻ"]
rng = random.Random(5)
texts = ["".join(rng.choice(PARTS) for _ in range(rng.randint(1, 14))) for _ in range(160)]
cuts = {}
for name, patterns in RULES.items():
    pre = Sequence([Split(Regex(p), "isolated") for p in patterns])
    cuts[name] = [" ".join(str(len(w)) for w, _ in pre.pre_tokenize_str(t)) for t in texts]
print(json.dumps({"texts": texts, "cuts": cuts}, indent=0))
