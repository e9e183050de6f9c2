"""partial_rotary_heads_sum in NumPy: an independent check of the oracle.

Written from the contract, not from the C++. Read next: partial_rotary_heads_sum_ref.hpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def partial_rotary_heads_sum(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    total, cos, sin = tensors["dk_pe"].sum(-2), tensors["cos"], tensors["sin"]
    half = total.shape[-1] // 2
    low, high = total[..., :half], total[..., half:]
    back = np.empty_like(total)
    # The last Dh columns of Dh or of 2Dh.
    back[..., 0::2] = low * cos[..., :half] + high * sin[..., -half:]
    back[..., 1::2] = high * cos[..., -half:] - low * sin[..., :half]
    return (back,)


FORMULAS = {"partial_rotary_heads_sum": partial_rotary_heads_sum}
