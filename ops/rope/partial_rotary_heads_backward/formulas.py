"""partial_rotary_heads_backward in NumPy: an independent check of the oracle.

Written from the contract, not from the C++. Read next: partial_rotary_heads_backward_ref.hpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def partial_rotary_heads_backward(
    tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any
) -> tuple[Any, ...]:
    dq, dk, dv = tensors["dq_out"], tensors["dk_out"], tensors["dv_out"]
    cos, sin = tensors["cos"][..., None, :], tensors["sin"][..., None, :]
    half = scalars["Dh"]
    plain = dq.shape[-1] - 2 * half
    low, high = dq[..., plain : plain + half], dq[..., plain + half :]
    back = dq.copy()
    # The last Dh columns of Dh or of 2Dh.
    back[..., plain::2] = low * cos[..., :half] + high * sin[..., -half:]
    back[..., plain + 1 :: 2] = high * cos[..., -half:] - low * sin[..., :half]
    return back, np.concatenate([dk[..., :plain], dv[..., : scalars["Dv"]]], axis=-1)


FORMULAS = {"partial_rotary_heads_backward": partial_rotary_heads_backward}
