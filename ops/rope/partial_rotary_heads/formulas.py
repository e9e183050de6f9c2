"""partial_rotary_heads in NumPy: an independent check of the oracle.

Written from the contract, not from the C++. Read next: partial_rotary_heads_ref.hpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def partial_rotary_heads(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    q, k_pe, kv = tensors["q"], tensors["k_pe"][..., None, :], tensors["kv"]
    cos, sin = tensors["cos"][..., None, :], tensors["sin"][..., None, :]
    turned = k_pe.shape[-1]
    plain = q.shape[-1] - turned

    def rotated(x: Any) -> Any:
        low, high, half = x[..., 0::2], x[..., 1::2], turned // 2
        # The last Dh columns of Dh or of 2Dh.
        y_low = low * cos[..., :half] - high * sin[..., :half]
        y_high = high * cos[..., -half:] + low * sin[..., -half:]
        return np.concatenate([y_low, y_high], axis=-1)

    k_out, v_out = np.zeros_like(q), np.zeros_like(q)
    k_out[..., :plain], k_out[..., plain:] = kv[..., :plain], rotated(k_pe)
    v_out[..., : kv.shape[-1] - plain] = kv[..., plain:]
    return np.concatenate([q[..., :plain], rotated(q[..., plain:])], axis=-1), k_out, v_out


FORMULAS = {"partial_rotary_heads": partial_rotary_heads}
