"""``dlblas.kernels.ffn``: the norm and the gated part of a feed-forward layer under DLBlas's path.

Read next: ../../../ops/mlp/norm_gated_linear/norm_gated_linear.py.
"""

from __future__ import annotations

import torch

from .._arguments import hinted
from .._functions import FUNCTIONS
from .._given import as_rows, need_arrays
from ..errors import UnsupportedDtypeError

_norm_gated_linear = FUNCTIONS["norm_gated_linear"].call
_HALVES = [torch.float16, torch.bfloat16]
_E5M2 = torch.float8_e5m2


@hinted
def call(x: torch.Tensor, w1: torch.Tensor, w3: torch.Tensor, rms_w: torch.Tensor) -> torch.Tensor:
    """``x̂ = rms_norm(x, rms_w, 1e-6)``, then ``silu(x̂ · w1ᵀ) ⊙ (x̂ · w3ᵀ)``.

    x ``[B, S, K]`` (any leading dimensions) f16 or bf16, w1 and w3 ``[F, K]``, rms_w ``[K]``: all
    three in x's dtype, or all float8_e5m2, or int8 with its bits, which f16 and bf16 hold exactly
    and are converted to at every call: convert weights once beforehand where that counts (a kept
    copy could not see every write). The result ``[B, S, F]`` has x's dtype. Errors:
    UnsupportedDtypeError for other dtypes, those of ``norm_gated_linear``.
    """
    need_arrays("ffn.call", x=x, w1=w1, w3=w3, rms_w=rms_w)
    if x.dtype not in _HALVES:
        raise UnsupportedDtypeError(x.dtype, _HALVES, "x")
    given = {"w1": w1, "w3": w3, "rms_w": rms_w}
    if all(w.dtype in (_E5M2, torch.int8) for w in given.values()):
        given = {name: w.view(_E5M2).to(x.dtype) for name, w in given.items()}
    for name, weight in given.items():
        if weight.dtype != x.dtype:
            raise UnsupportedDtypeError(weight.dtype, [x.dtype, _E5M2, torch.int8], name)
    y: torch.Tensor = _norm_gated_linear(as_rows(x), given["rms_w"], given["w1"], given["w3"])
    return y
