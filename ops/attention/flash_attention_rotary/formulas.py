"""flash_attention_rotary in NumPy and f64: an independent check of the oracle.

Written from the contract: rotated heads are rounded to q's dtype. Read next: ../formulas.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .attention_formulas import dense  # ops/attention/formulas.py, as it is staged


def flash_attention_rotary(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    def factors(name: str) -> Any:
        table = tensors[name][:, :, None, :]
        repeats = tensors["q"].shape[-1] // max(1, table.shape[-1])  # of Dh or 2Dh columns
        return np.concatenate([table] * max(1, repeats), axis=-1)

    cos, sin = factors("cos"), factors("sin")

    def rotated(x: Any) -> Any:
        low, high = np.split(x, 2, axis=-1)
        turned = x * cos + np.concatenate([-high, low], axis=-1) * sin
        return turned if rounding.dtype.itemsize >= 4 else rounding(turned)

    q, k = (rotated(tensors[name]) for name in "qk")
    return dense({"q": q, "k": k, "v": tensors["v"]}, scalars)


FORMULAS = {"flash_attention_rotary": flash_attention_rotary}
