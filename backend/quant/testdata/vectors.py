"""Writes vectors.json: what two implementations that know nothing of this one
read out of blocks, and ggml's sizes of every format.

    python3 -m venv v && v/bin/pip install gguf==0.19.0
    v/bin/python vectors.py libggml-base.so > vectors.json

The first is the Python package `gguf` (NumPy), the second ggml's own C, a
library built from the sources that the package llama-cpp-python 0.3.36 carries
(cmake --build . --target ggml-base). The script fails where they disagree.

Every format has a few blocks written out, among them scales that are zero,
subnormal, the largest, infinite and no number, and the SHA-256 of the values
of 4096 blocks of random bytes (random_bytes below; NaNs as 7fc00000).
"""
import ctypes
import hashlib
import json
import sys
import numpy as np
from gguf import GGMLQuantizationType as T
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

ggml = ctypes.CDLL(sys.argv[1])
# format: where its float16 numbers lie in a block
HALVES = {T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.Q2_K: [80, 82], T.Q3_K: [108],
          T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208], T.IQ4_NL: [0], T.IQ4_XS: [0], T.MXFP4: []}
SCALES = np.array([0.0, -0.0, 6e-8, -3e-5, 0.001, -0.37, 1.0, 2.75, 1000.0, -65504.0, np.inf, -np.inf, np.nan], np.float16)
rng = np.random.default_rng(7)


def random_bytes(n, seed):
    """The 64-bit numbers of splitmix64, little-endian."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, n // 8 + 2, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        return (z ^ z >> np.uint64(31)).view(np.uint8)[:n].copy()


def bits(values):
    b = np.ascontiguousarray(values, np.float32).reshape(-1).view(np.uint32).copy()
    b[np.isnan(values).reshape(-1)] = 0x7FC00000
    return b


def read(t, raw):
    """The values of whole blocks, by both implementations."""
    with np.errstate(all="ignore"):
        python = bits(dequantize(raw.reshape(1, -1), t))
    if t not in (T.F16, T.BF16):
        name = {T.MXFP4: "mxfp4", T.IQ4_NL: "iq4_nl", T.IQ4_XS: "iq4_xs"}.get(t, t.name.replace("Q", "q"))
        c = np.empty(len(python), np.float32)
        pointer = ctypes.c_void_p
        getattr(ggml, "dequantize_row_" + name)(pointer(raw.ctypes.data), pointer(c.ctypes.data), ctypes.c_int64(len(c)))
        different = np.flatnonzero(bits(c) != python)
        if len(different):
            i = different[0]
            sys.exit(f"{t.name}: value {i} of {len(c)}: {bits(c)[i]:08x} in C, {python[i]:08x} in Python")
    return python


cases = []
for t in (T.F16, T.BF16, *HALVES):
    block, size = GGML_QUANT_SIZES[t]
    if t in (T.F16, T.BF16):
        raw = SCALES.view(np.uint8) if t == T.F16 else rng.integers(0, 256, 26, np.uint8)
    else:
        count = len(SCALES) if block < 256 else 3
        table = rng.integers(0, 256, (count, size), np.uint8)
        for n, at in enumerate(HALVES[t]):
            chosen = SCALES if block < 256 else SCALES[[2, 9, 10]]
            table[:, at:at + 2] = (chosen if n == 0 else rng.permutation(chosen)).view(np.uint8).reshape(-1, 2)
        if t == T.MXFP4:
            table[:, 0] = [0, 1, 2, 3, 63, 120, 126, 127, 128, 200, 250, 254, 255]
        raw = np.ascontiguousarray(table).reshape(-1)
    many = random_bytes(4096 * size, int(t))
    cases.append({"type": int(t), "name": t.name, "src": raw.tobytes().hex(),
                  "bits": read(t, raw).astype(">u4").tobytes().hex(),
                  "sha256": hashlib.sha256(read(t, many).astype("<u4").tobytes()).hexdigest()})
sizes = [{"type": int(t), "name": t.name, "block": b, "bytes": s} for t, (b, s) in GGML_QUANT_SIZES.items()]
print(json.dumps({"sizes": sizes, "cases": cases}, indent=0))
