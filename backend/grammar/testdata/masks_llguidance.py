"""Compute token masks with the Python package llguidance (MIT).

Usage: python3 masks_llguidance.py FOLDER

FOLDER/input.json holds the vocabulary and the walks:

    {"tokens": [base64 of the bytes of each token, null for control tokens],
     "ends": the token that ends a text,
     "repeat": how often each walk is timed,
     "walks": [{"schema": a JSON schema, "blanks": true to allow white space, or "lark": a grammar,
                "tokens": [...]}]}

The program writes FOLDER/masks, the masks of all walks one after the other: one before
each token and one after the last token of a walk, with one bit for each token. It writes
FOLDER/times.json: the nanoseconds of each mask of each walk, the least of all repetitions,
and an empty list for a walk that llguidance refuses, with the reason in the list "errors".
"""

import base64
import ctypes
import json
import sys
import time

from llguidance import LLMatcher, LLTokenizer
from llguidance._tokenizer import TokenizerWrapper


class Vocabulary:
    """Vocabulary has the fields that llguidance reads of a tokenizer, and splits text."""

    def __init__(self, tokens, ends):
        self.tokens = [base64.b64decode(t or "") or b"\xff[%d]" % i for i, t in enumerate(tokens)]
        self.special_token_ids = [i for i, t in enumerate(tokens) if not t]
        self.eos_token_id, self.bos_token_id = ends, None
        self.index = {t: i for i, t in reversed(list(enumerate(self.tokens)))}
        self.longest, self.known = max(map(len, self.tokens)), {}

    def __call__(self, text):
        """Split forced text into tokens, the longest first."""
        if text not in self.known:
            split, at = [], 0
            while at < len(text):
                size = next((n for n in range(min(self.longest, len(text) - at), 0, -1) if text[at : at + n] in self.index), 0)
                if not size:
                    break
                split, at = split + [self.index[text[at : at + size]]], at + size
            self.known[text] = split
        return self.known[text]


def grammar_of(walk):
    if "lark" in walk:
        return LLMatcher.grammar_from_lark(walk["lark"])
    options = {"whitespace_flexible": walk.get("blanks", False), "item_separator": ",", "key_separator": ":", "coerce_one_of": True, "lenient": True}
    return LLMatcher.grammar_from_json_schema(json.dumps(walk["schema"]), overrides=options)


def follow(tokenizer, walk, mask, keep):
    """Compute the masks of one walk. Return their times, or the reason of an error."""
    matcher, times = LLMatcher(tokenizer, grammar_of(walk)), []
    if matcher.is_error():
        return times, matcher.get_error()
    for token in walk["tokens"] + [None]:
        began = time.perf_counter_ns()
        matcher.unsafe_compute_mask_ptr(ctypes.addressof(mask), len(mask))
        times.append(time.perf_counter_ns() - began)
        keep(bytes(mask))
        if token is not None and not matcher.consume_token(token):
            return times, "token %d is not allowed at %d: %s" % (token, len(times) - 1, matcher.get_error())
    return times, ""


def main(folder):
    with open(folder + "/input.json") as file:
        data = json.load(file)
    tokenizer = LLTokenizer(TokenizerWrapper(Vocabulary(data["tokens"], data["ends"])))
    mask = (ctypes.c_uint8 * ((len(data["tokens"]) + 31) // 32 * 4))()
    best, errors = [], []
    with open(folder + "/masks", "wb") as file:
        for walk in data["walks"]:
            times, error = follow(tokenizer, walk, mask, file.write)
            for _ in range(data["repeat"] - 1):
                times = list(map(min, times, follow(tokenizer, walk, mask, lambda _: None)[0]))
            best.append(times)
            errors.append(error)
    with open(folder + "/times.json", "w") as file:
        json.dump({"times": best, "errors": errors}, file)


main(sys.argv[1])
