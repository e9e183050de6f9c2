"""``dlblas.kernels.ffn``: the norm and the gated part of a feed-forward layer under DLBlas's path.

Read next: ../../../ops/mlp/norm_gated_linear/norm_gated_linear.py.
"""

from __future__ import annotations

import torch

from .._arguments import hinted
from .._functions import FUNCTIONS
from .._given import as_rows, need_arrays
from ..errors import Error, UnsupportedDtypeError, renamed

_norm_gated_linear = FUNCTIONS["norm_gated_linear"].call
_HALVES = [torch.float16, torch.bfloat16]
_E5M2 = torch.float8_e5m2
_CODES = [_E5M2, torch.int8]
_CALLED = {"w_gate": "w1", "w_up": "w3", "rms_w": "rms_w", "x": "x"}


@hinted
def call(x: torch.Tensor, w1: torch.Tensor, w3: torch.Tensor, rms_w: torch.Tensor) -> torch.Tensor:
    """``x̂ = rms_norm(x, rms_w, 1e-6)``, then ``silu(x̂ · w1ᵀ) ⊙ (x̂ · w3ᵀ)``.

    x ``[B, S, K]`` (any leading dimensions) f16 or bf16, w1 and w3 ``[F, K]``, rms_w ``[K]``: all
    three in x's dtype, or all float8_e5m2, or int8 with its bits. These are converted to x's dtype
    at every call, exactly: convert weights once beforehand where that time matters (a cached copy
    could not see every write). The result ``[B, S, F]`` has x's dtype. Errors:
    UnsupportedDtypeError for other dtypes; those of ``norm_gated_linear``.
    """
    need_arrays("ffn.call", x=x, w1=w1, w3=w3, rms_w=rms_w)
    if x.dtype not in _HALVES:
        raise _other_dtype("x", x.dtype, _HALVES, "torch.float16 or torch.bfloat16")
    given = {"w1": w1, "w3": w3, "rms_w": rms_w}
    if all(w.dtype in _CODES for w in given.values()):
        given = {name: w.view(_E5M2).to(x.dtype) for name, w in given.items()}
    for name, weight in given.items():
        if weight.dtype != x.dtype:
            expected = f"{x.dtype}, as x is, or {_E5M2} or torch.int8 of all of w1, w3 and rms_w"
            raise _other_dtype(name, weight.dtype, [x.dtype, *_CODES], expected)
    try:
        y: torch.Tensor = _norm_gated_linear(as_rows(x), given["rms_w"], given["w1"], given["w3"])
    except Error as error:
        argument = _CALLED.get(error.argument, "")
        raise renamed(error, "ffn.call", argument, _CALLED) from error
    return y


def _other_dtype(name: str, dtype: torch.dtype, offered: list[torch.dtype], expected: str) -> Error:
    error = UnsupportedDtypeError(
        f"ffn.call: {name} has an unsupported dtype; expected {expected}, got {dtype}",
        dtype, offered, name,
    )  # fmt: skip
    error.op = "ffn.call"
    return error
