"""Writes vectors.json: what the Python package `gguf` (0.19.0, with NumPy)
reads out of random blocks, and ggml's sizes of every format.

    python3 -m venv v && v/bin/pip install gguf && v/bin/python vectors.py > vectors.json
"""
import json
import numpy as np
from gguf import GGMLQuantizationType as T
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

rng = np.random.default_rng(7)
scales = np.array([0.0, -0.0, 6e-8, -3e-5, 0.001, -0.37, 1.0, 2.75, 1000.0, -65504.0], np.float16)
cases = []
for t in (T.F16, T.BF16, T.Q8_0, T.Q4_0, T.Q4_1):
    block, size = GGML_QUANT_SIZES[t]
    raw = rng.integers(0, 256, (len(scales), size), np.uint8)
    if block > 1:
        raw[:, :2] = scales.view(np.uint8).reshape(-1, 2)
        if t == T.Q4_1:
            raw[:, 2:4] = rng.permutation(scales).view(np.uint8).reshape(-1, 2)
    elif t == T.F16:
        raw = scales.view(np.uint8).reshape(-1, 2)
    values = dequantize(raw.reshape(1, -1), t).astype(np.float32).reshape(-1)
    cases.append({"type": int(t), "name": t.name, "src": raw.tobytes().hex(),
                  "bits": values.view(np.uint32).tolist()})
sizes = [{"type": int(t), "name": t.name, "block": b, "bytes": s} for t, (b, s) in GGML_QUANT_SIZES.items()]
print(json.dumps({"sizes": sizes, "cases": cases}, separators=(",", ":")))
