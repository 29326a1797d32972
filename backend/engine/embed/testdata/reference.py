"""Writes transformers.json: the embeddings that Hugging Face transformers
computes with the models of this folder and with the Unigram model of the
tokenizer, in float32, before normalisation.

    python3 -m venv v && v/bin/pip install numpy gguf==0.19.0 torch==2.6.0 transformers==5.23.0
    v/bin/python reference.py

The script copies the tensors of each GGUF file to the model of the same family
in transformers, and fails if one of them is left over. The texts are those of
the recordings of llama.cpp, as token ids.
"""
import json
import re

import gguf
import torch
import transformers as hf

UNIGRAM = "../../../tokenizer/testdata/unigram"
BERT = {
    "token_embd": "embeddings.word_embeddings", "token_types": "embeddings.token_type_embeddings",
    "position_embd": "embeddings.position_embeddings", "token_embd_norm": "embeddings.LayerNorm",
    "attn_q": "encoder.layer.%s.attention.self.query", "attn_k": "encoder.layer.%s.attention.self.key",
    "attn_v": "encoder.layer.%s.attention.self.value", "attn_output": "encoder.layer.%s.attention.output.dense",
    "attn_output_norm": "encoder.layer.%s.attention.output.LayerNorm", "ffn_up": "encoder.layer.%s.intermediate.dense",
    "ffn_down": "encoder.layer.%s.output.dense", "layer_output_norm": "encoder.layer.%s.output.LayerNorm",
}
LAYERS = {
    "attn_q": "layers.%s.self_attn.q_proj", "attn_k": "layers.%s.self_attn.k_proj", "attn_v": "layers.%s.self_attn.v_proj",
    "attn_output": "layers.%s.self_attn.o_proj", "ffn_gate": "layers.%s.mlp.gate_proj", "ffn_up": "layers.%s.mlp.up_proj",
    "ffn_down": "layers.%s.mlp.down_proj",
}
NOMIC = BERT | LAYERS | {"attn_output_norm": "layers.%s.post_attention_layernorm", "layer_output_norm": "layers.%s.post_mlp_layernorm"}
QWEN3 = LAYERS | {
    "token_embd": "embed_tokens", "output_norm": "norm", "attn_norm": "layers.%s.input_layernorm",
    "ffn_norm": "layers.%s.post_attention_layernorm", "attn_q_norm": "layers.%s.self_attn.q_norm",
    "attn_k_norm": "layers.%s.self_attn.k_norm",
}
GEMMA = QWEN3 | {
    "post_attention_norm": "layers.%s.post_attention_layernorm", "ffn_norm": "layers.%s.pre_feedforward_layernorm",
    "post_ffw_norm": "layers.%s.post_feedforward_layernorm",
}


class File:
    """The keys and tensors of a GGUF file."""

    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.keys = {name: field.contents() for name, field in reader.fields.items()}
        self.arch = self.keys["general.architecture"]
        self.tensors = {t.name: torch.tensor(t.data.astype("float32").reshape([int(n) for n in reversed(t.shape)])) for t in reader.tensors}

    def key(self, name, default=None):
        return self.keys.get(f"{self.arch}.{name}", default)

    def common(self):
        return dict(
            vocab_size=self.tensors["token_embd.weight"].shape[0], hidden_size=self.key("embedding_length"),
            intermediate_size=self.key("feed_forward_length"), num_hidden_layers=self.key("block_count"),
            num_attention_heads=self.key("attention.head_count"), max_position_embeddings=self.key("context_length"),
            attn_implementation="eager")

    def rope(self):
        rope = dict(rope_type="default", rope_theta=self.key("rope.freq_base"))
        if self.key("rope.scaling.type") == "linear":
            rope |= dict(rope_type="linear", factor=self.key("rope.scaling.factor"))
        return rope


def bert(f):
    c = hf.BertConfig(**f.common(), layer_norm_eps=f.key("attention.layer_norm_epsilon"), type_vocab_size=2, pad_token_id=None)
    return hf.BertModel(c, add_pooling_layer=False), BERT


def xlm_roberta(f):
    """The position of the first token is 2, so the table has 2 more rows than the file."""
    shape = f.common()
    shape["max_position_embeddings"] += 2
    table = f.tensors["position_embd.weight"]
    f.tensors["position_embd.weight"] = torch.cat([torch.full((2, table.shape[1]), 1e3), table])
    c = hf.XLMRobertaConfig(**shape, layer_norm_eps=f.key("attention.layer_norm_epsilon"), type_vocab_size=1, pad_token_id=1)
    return hf.XLMRobertaModel(c, add_pooling_layer=False), BERT


def nomic(f):
    c = hf.NomicBertConfig(**f.common(), layer_norm_eps=f.key("attention.layer_norm_epsilon"), rope_parameters=f.rope())
    return hf.NomicBertModel(c, add_pooling_layer=False), NOMIC


def decoder(f):
    return f.common() | dict(num_key_value_heads=f.key("attention.head_count_kv"), head_dim=f.key("attention.key_length"),
                             rms_norm_eps=f.key("attention.layer_norm_rms_epsilon"), pad_token_id=None)


def qwen3(f):
    return hf.Qwen3Model(hf.Qwen3Config(**decoder(f), rope_parameters=f.rope())), QWEN3


def gemma(f):
    local = f.key("attention.sliding_window_pattern")
    c = hf.Gemma3TextConfig(
        **decoder(f), use_bidirectional_attention=True, sliding_window=f.key("attention.sliding_window"),
        query_pre_attn_scalar=f.key("attention.key_length"),
        layer_types=["sliding_attention" if l else "full_attention" for l in local],
        rope_parameters=dict(full_attention=f.rope(), sliding_attention=dict(rope_type="default", rope_theta=f.key("rope.freq_base_swa"))))
    for name in f.tensors:  # files store the weights of Gemma's norms with 1 added
        if name.endswith("norm.weight"):
            f.tensors[name] = f.tensors[name] - 1
    return hf.Gemma3TextModel(c), GEMMA


def load(f, model, names):
    """Copies the tensors, and returns the matrices that follow the pooling."""
    state, dense = {}, [f.tensors.pop(n) for n in ("dense_2.weight", "dense_3.weight") if n in f.tensors]
    for name, tensor in f.tensors.items():
        layer, part, kind = re.fullmatch(r"(?:blk\.(\d+)\.)?(\w+)\.(\w+)", name).groups()
        state[(names[part] % layer if layer else names[part]) + "." + kind] = tensor
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and not [n for n in missing if n in dict(model.named_parameters())], (missing, unexpected)
    return dense


def embed(model, dense, pooling, tokens):
    with torch.no_grad():
        states = model(input_ids=torch.tensor([tokens])).last_hidden_state[0]
        x = {gguf.PoolingType.MEAN: states.mean(0), gguf.PoolingType.CLS: states[0], gguf.PoolingType.LAST: states[-1]}[pooling]
        for matrix in dense:
            x = matrix @ x
    return [round(v, 6) for v in x.tolist()]


def main():
    torch.set_num_threads(1)
    recorded = {}
    for name, path, build in (("qwen3", "qwen3", qwen3), ("bert", "bert", bert), ("nomic-bert", "nomic-bert", nomic),
                              ("gemma-embedding", "gemma-embedding", gemma), ("xlm-roberta", UNIGRAM, xlm_roberta)):
        f = File(path + ".gguf")
        model, names = build(f)
        dense = load(f, model.eval(), names)
        with open(path + ".json", encoding="utf-8") as g:
            texts = json.load(g)
        if name == "xlm-roberta":
            case = next(c for c in texts["cases"] if c["prefix"] and c["merge"] and c["parse"])
            texts = [[int(n) for n in row.split()] for row in case["ids"][3:15]]
            texts = [t for t in texts if 1 not in t]  # transformers counts no positions for padding
        else:
            texts = texts["Texts"]
        recorded[name] = {"texts": texts, "embeddings": [embed(model, dense, f.key("pooling_type"), t) for t in texts]}
    with open("transformers.json", "w", encoding="utf-8") as f:
        json.dump(recorded, f, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
