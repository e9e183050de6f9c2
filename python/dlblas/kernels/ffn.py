"""``dlblas.kernels.ffn``: the norm and the gated part of a feed-forward layer under DLBlas's path.

Read next: ../../../ops/mlp/norm_gated_linear/norm_gated_linear.py.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

from .._arguments import hinted
from .._functions import FUNCTIONS
from .._given import as_rows, asks_for_gradients, need_arrays
from ..errors import UnsupportedDtypeError

_norm_gated_linear = FUNCTIONS["norm_gated_linear"].call
_HALVES = [torch.float16, torch.bfloat16]
_E5M2 = torch.float8_e5m2

# Weight -> (what it was when it was widened, the wide one).
_kept: Any = WeakIdKeyDictionary()


def _widened(w: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The same numbers in x's dtype; kept where torch says whether the weight was written since."""
    plain = type(w) in (torch.Tensor, torch.nn.Parameter) and not w.is_inference()
    if torch.compiler.is_compiling() or not plain or asks_for_gradients(w) or _is_captured(w):
        return w.view(_E5M2).to(dtype)
    state = w._version, w.data_ptr(), w.shape, w.stride(), dtype
    found = _kept.get(w)
    if found is None or found[0] != state:
        with torch.no_grad(), torch.inference_mode(False):
            found = state, w.detach().view(_E5M2).to(dtype)
        _kept[w] = found
    wide: torch.Tensor = found[1]
    return wide


def _is_captured(w: torch.Tensor) -> bool:
    """A graph that is replayed reads the weight as it is then."""
    return w.is_cuda and torch.cuda.is_current_stream_capturing()


@hinted
def call(x: torch.Tensor, w1: torch.Tensor, w3: torch.Tensor, rms_w: torch.Tensor) -> torch.Tensor:
    """``x̂ = rms_norm(x, rms_w, 1e-6)``, then ``silu(x̂ · w1ᵀ) ⊙ (x̂ · w3ᵀ)``.

    x ``[B, S, K]`` (any leading dimensions) f16 or bf16, w1 and w3 ``[F, K]``, rms_w ``[K]``: all
    three in x's dtype, or all float8_e5m2, or int8 with its bits, which f16 and bf16 hold exactly
    and are converted to: once, and again after a weight was written into (but for writes past
    torch's count of them, ``w.data``); what is kept of it goes with the weight. The result ``[B, S,
    F]`` has x's dtype. Errors: UnsupportedDtypeError for other dtypes, those of
    ``norm_gated_linear``.
    """
    need_arrays("ffn.call", x=x, w1=w1, w3=w3, rms_w=rms_w)
    if x.dtype not in _HALVES:
        raise UnsupportedDtypeError(x.dtype, _HALVES, "x")
    given = {"w1": w1, "w3": w3, "rms_w": rms_w}
    if all(w.dtype in (_E5M2, torch.int8) for w in given.values()):
        given = {name: _widened(w, x.dtype) for name, w in given.items()}
    for name, weight in given.items():
        if weight.dtype != x.dtype:
            raise UnsupportedDtypeError(weight.dtype, [x.dtype, _E5M2, torch.int8], name)
    y: torch.Tensor = _norm_gated_linear(as_rows(x), given["rms_w"], given["w1"], given["w3"])
    return y
