"""Writes unigram.gguf and unigram.json: a small model of the architecture bert
with a Unigram tokenizer, as llama.cpp's converter writes XLM-RoBERTa, and the
tokens and embeddings that llama.cpp computes with it.

    python3 -m venv v && v/bin/pip install numpy gguf==0.19.0 sentencepiece==0.2.3 xllamacpp==2026.10.11549
    v/bin/python unigram.py

SentencePiece trains the vocabulary from random sentences of a few words. The
rules of normalisation are a small selection, so that the file stays small. The
script also requires that SentencePiece gives the same tokens as llama.cpp to
all texts without special tokens.
"""
import io
import json
import os
import random
import tempfile
import urllib.request

import gguf
import numpy as np
import sentencepiece
import xllamacpp
from sentencepiece import sentencepiece_model_pb2

HIDDEN, FFN, LAYERS, HEADS, CONTEXT = 32, 48, 2, 2, 128
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
WORDS = """the quick brown fox jumps over lazy dogs while water flows down every hill and people speak slowly
der schnelle braune Fuchs springt über den faulen Hund während Wasser fließt niña corazón mañana été garçon œuvre
быстрая коричневая лиса прыгает через собаку 東京 大阪 日本語 天気 よい です ね 한국어 날씨 नमस्ते दुनिया مرحبا 12 345 2026 , . ! ? - ' ( )
fi ffi file office difficult A B C ABC Hello HELLO""".split()
RULES = {"ﬁ": "fi", "ﬃ": "ffi", "Ａ": "A", "Ｂ": "B", "Ｃ": "C", "①": "1", "½": "1⁄2", "\u00a0": " ", "\u3000": " ", "\t": " ",
         "\n": " ", "\r": " ", "\r\n": " ", "\u200b": "", "\u0007": "", "e\u0301": "é", "n\u0303": "ñ", "u\u0308": "ü", "…": "...",
         "㌀": "アパート", "ﷺ": "صلى الله عليه وسلم", "\u212b": "Å"}
PARTS = WORDS + list(RULES) + [" ", " ", " ", "  ", "    ", "▁", "▁▁", "é", "e\u0301", "🙂", "👍🏽", "𝒳", "zzz", "qxq", "\u0000", "\u0301", "\ufffd",
                               "<s>", "</s>", "<unk>", "<pad>", "<mask>", "<doc>", "<0x41>", "<", "[PAD9]"]
SPECIAL = ("<s>", "</s>", "<unk>", "<pad>", "<mask>", "<doc>", "[PAD9]", "\u0000", "▁")


def train():
    rng = random.Random(1)
    lines = ["".join(rng.choice(WORDS) + rng.choice([" ", " ", " ", ""]) for _ in range(12)) for _ in range(3000)]
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        for key, value in RULES.items():
            rules.write(" ".join(f"{ord(c):X}" for c in key) + "\t" + " ".join(f"{ord(c):X}" for c in value) + "\n")
        rules.flush()
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_writer=model, model_type="unigram", vocab_size=560, character_coverage=1.0,
            normalization_rule_tsv=rules.name, num_threads=1, minloglevel=2)
    return model.getvalue()


def vocabulary(processor):
    """The order of XLM-RoBERTa: SentencePiece's first three tokens become four."""
    tokens = [("<s>", 0.0, CONTROL), ("<pad>", 0.0, CONTROL), ("</s>", 0.0, CONTROL), ("<unk>", 0.0, UNKNOWN)]
    tokens += [(processor.IdToPiece(i), processor.GetScore(i), NORMAL) for i in range(3, processor.vocab_size())]
    return tokens + [("<doc>", -3.0, USER), ("<0x41>", -1.0, BYTE), ("[PAD9]", -10000.0, UNUSED), ("<mask>", 0.0, CONTROL)]


def write(path, tokens, charsmap, prefix, merge):
    w = gguf.GGUFWriter(path, "bert")
    w.add_block_count(LAYERS)
    w.add_context_length(CONTEXT)
    w.add_embedding_length(HIDDEN)
    w.add_feed_forward_length(FFN)
    w.add_head_count(HEADS)
    w.add_layer_norm_eps(1e-5)
    w.add_causal_attention(False)
    w.add_pooling_type(gguf.PoolingType.CLS)
    w.add_tokenizer_model("t5")
    w.add_tokenizer_pre("default")
    w.add_token_list([t for t, _, _ in tokens])
    w.add_token_scores([s for _, s, _ in tokens])
    w.add_token_types([t for _, _, t in tokens])
    w.add_add_space_prefix(prefix)
    w.add_token_type_count(1)
    w.add_remove_extra_whitespaces(merge)
    w.add_precompiled_charsmap(charsmap)
    w.add_bos_token_id(0)
    w.add_eos_token_id(2)
    w.add_unk_token_id(3)
    w.add_sep_token_id(2)
    w.add_pad_token_id(1)
    w.add_mask_token_id(len(tokens) - 1)
    w.add_add_bos_token(True)
    w.add_add_eos_token(True)
    rng = np.random.default_rng(3)

    def matrix(name, rows, columns, kind=np.float32):
        w.add_tensor(name + ".weight", (rng.standard_normal((rows, columns)) / np.sqrt(columns)).astype(kind))

    def vector(name, n, mean=0.0):
        w.add_tensor(name, (mean + rng.standard_normal(n) / 3).astype(np.float32))

    def norm(name):
        vector(name + ".weight", HIDDEN, 1.0)
        vector(name + ".bias", HIDDEN)

    matrix("token_embd", len(tokens), HIDDEN, np.float16)
    matrix("token_types", 1, HIDDEN)
    matrix("position_embd", CONTEXT, HIDDEN)
    norm("token_embd_norm")
    for i in range(LAYERS):
        p = f"blk.{i}."
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            matrix(p + name, HIDDEN, HIDDEN)
            vector(p + name + ".bias", HIDDEN)
        matrix(p + "ffn_up", FFN, HIDDEN)
        vector(p + "ffn_up.bias", FFN)
        matrix(p + "ffn_down", HIDDEN, FFN)
        vector(p + "ffn_down.bias", HIDDEN)
        norm(p + "attn_output_norm")
        norm(p + "layer_output_norm")
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def start(path):
    p = xllamacpp.CommonParams()
    p.model.path = path
    p.embedding = True
    p.n_ctx = p.n_batch = p.n_ubatch = CONTEXT
    p.n_parallel = 1
    p.warmup = False
    p.cpuparams.n_threads = 1
    return xllamacpp.Server(p)


def ask(server, endpoint, **body):
    request = urllib.request.Request(server.listening_address + endpoint, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def main():
    model = train()
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model)
    tokens, charsmap = vocabulary(processor), proto.normalizer_spec.precompiled_charsmap
    rng = random.Random(6)
    texts = ["", " ", "   a  ", "the quick brown fox"]
    texts += ["".join(rng.choice(PARTS) + rng.choice(["", "", " "]) for _ in range(rng.randint(1, 14))) for _ in range(150)]
    cases, embeddings = [], []
    for prefix in (True, False):
        for merge in (True, False):
            path = "unigram.gguf" if prefix and merge else os.path.join(tempfile.gettempdir(), "other.gguf")
            write(path, tokens, charsmap, prefix, merge)
            server = start(path)
            for parse in (False, True):
                rows = [ask(server, "/tokenize", content=t, add_special=parse, parse_special=parse)["tokens"] for t in texts]
                cases.append({"prefix": prefix, "merge": merge, "parse": parse, "ids": [" ".join(map(str, r)) for r in rows]})
                if prefix and merge and not parse:
                    same = 0
                    for text, row in zip(texts, rows):
                        if not any(s in text for s in SPECIAL):
                            want = [3 if i == 0 else i + 1 for i in processor.encode(text)]
                            assert row == want, (text, row, want)
                            same += 1
                    print(same, "texts have the same tokens in SentencePiece")
            if prefix and merge:
                for text in texts[3:15]:
                    answer = ask(server, "/v1/embeddings", input=text, embd_normalize=-1)
                    embeddings.append([round(v, 6) for v in answer["data"][0]["embedding"]])
            del server
    with open("unigram.json", "w", encoding="utf-8") as f:
        json.dump({"texts": texts, "cases": cases, "embeddings": embeddings}, f, indent=0)
        f.write("\n")


if __name__ == "__main__":
    main()
