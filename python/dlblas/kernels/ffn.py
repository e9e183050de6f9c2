"""``dlblas.kernels.ffn``: the norm and the gated part of a feed-forward layer under DLBlas's path.

Read next: ../../../ops/mlp/norm_gated_linear/norm_gated_linear.py.
"""

from __future__ import annotations

from typing import Any

from .._arguments import hinted
from .._dtypes import TABLE, name_of
from .._empty import viewed
from .._functions import FUNCTIONS
from .._given import as_rows, need_arrays
from ..errors import Error, UnsupportedDtypeError, renamed

_norm_gated_linear = FUNCTIONS["norm_gated_linear"].call
_HALVES = ["f16", "bf16"]
_CODES = ["f8e5m2", "i8"]
_CALLED = {"w_gate": "w1", "w_up": "w3", "rms_w": "rms_w", "x": "x"}


@hinted
def call(x: Any, w1: Any, w3: Any, rms_w: Any) -> Any:
    """``x̂ = rms_norm(x, rms_w, 1e-6)``, then ``silu(x̂ · w1ᵀ) ⊙ (x̂ · w3ᵀ)``.

    x ``[B, S, K]`` (any leading dimensions) f16 or bf16, w1 and w3 ``[F, K]``, rms_w ``[K]``: all
    three in x's dtype, or all float8_e5m2, or int8 with its bits. These are converted to x's dtype
    at every call, exactly: convert weights once beforehand where that time matters (a cached copy
    could not see every write). torch tensors or NumPy arrays. The result ``[B, S, F]`` has x's
    dtype. Errors: UnsupportedDtypeError for other dtypes; those of ``norm_gated_linear``.
    """
    need_arrays("ffn.call", x=x, w1=w1, w3=w3, rms_w=rms_w)
    kind = name_of(x.dtype)
    if kind not in _HALVES:
        raise _other_dtype("x", x, _HALVES, "f16 or bf16")
    given = {"w1": w1, "w3": w3, "rms_w": rms_w}
    if all(name_of(w.dtype) in _CODES for w in given.values()):
        codes = {name: viewed("ffn.call", name, w, "f8e5m2") for name, w in given.items()}
        given = {name: _as(x.dtype, w) for name, w in codes.items()}
    for name, weight in given.items():
        if name_of(weight.dtype) != kind:
            expected = f"{x.dtype}, as x is, or f8e5m2 or i8 of all of w1, w3 and rms_w"
            raise _other_dtype(name, weight, [kind, *_CODES], expected)
    try:
        return _norm_gated_linear(as_rows(x), given["rms_w"], given["w1"], given["w3"])
    except Error as error:
        argument = _CALLED.get(error.argument, "")
        raise renamed(error, "ffn.call", argument, _CALLED) from error


def _as(dtype: Any, codes: Any) -> Any:
    return codes.to(dtype) if hasattr(codes, "new_empty") else codes.astype(dtype)


def _other_dtype(name: str, x: Any, offered: list[str], expected: str) -> Error:
    types: list[Any] = offered
    if hasattr(x, "new_empty"):
        import torch

        types = [getattr(torch, TABLE[one][2]) for one in offered]
    error = UnsupportedDtypeError(
        f"ffn.call: {name} has an unsupported dtype; expected {expected}, got {x.dtype}",
        x.dtype, types, name,
    )  # fmt: skip
    error.op = "ffn.call"
    return error
