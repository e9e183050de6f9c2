"""``dlblas.linear``: a linear layer, and ``dlblas.bmm``: products of the matrices of a batch; both
are calls of ``matmul``.

In: arrays of any package that the operator takes. Out: what it returns; nothing is computed here,
and torch.compile follows it. Read next: matmul/.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from .._empty import empty
from .._functions import FUNCTIONS
from ..errors import ShapeMismatchError

__all__ = ["bmm", "linear"]

_matmul = FUNCTIONS["matmul"].call


def bmm(
    a: Any,
    b: Any,
    activation: str = "",
    *,
    bias: Any = None,
    out_dtype: Any = None,
    out: Any = None,
) -> Any:
    """Products of matrices with the same leading dimensions: ``out = act(a · b + bias)``.

    a ``[*B, M, K]``, b ``[*B, K, N]`` of any strides; bias ``[N]``, one for all -> out
    ``[*B, M, N]``. b ``[K, N]`` is ``matmul``, whose leading dimensions are rows; a batch of b is
    a call of it for each matrix, all of one key: searched once, and with one launch each on a GPU,
    where small matrices are slower than in a batched product. ``out``: where the result goes.
    Dtypes, activations and numerics are those of ``matmul``; no gradient where b has a batch.
    Errors: ShapeMismatchError for leading dimensions that differ; those of ``matmul``.
    Source: torch.bmm, NumPy's matmul.
    """
    if len(b.shape) <= 2:
        return _matmul(a, b, activation, bias=bias, out_dtype=out_dtype, out=out)
    lead = tuple(b.shape[:-2])
    if tuple(a.shape[:-2]) != lead or len(a.shape) < 2:
        expected, got = f"{lead} before the last two", str(tuple(a.shape))
        raise ShapeMismatchError.from_library(
            f"bmm: a has other leading dimensions than b; expected {expected}, got {got}; expand "
            "one of them",
            "bmm", "a", expected, got,
        )  # fmt: skip
    if out is None:
        out = empty(a, (*lead, a.shape[-2], b.shape[-1]), out_dtype or a.dtype, "bmm")
    for at in product(*map(range, lead)):
        _matmul(a[at], b[at], activation, bias=bias, out_dtype=out_dtype, out=out[at])
    return out


def linear(
    x: Any, weight: Any, bias: Any = None, activation: str = "", *, out_dtype: Any = None,
    out: Any = None,
) -> Any:  # fmt: skip
    """A linear layer with its activation: ``y = act(x · weightᵀ + bias)``.

    x ``[*T, K]``, weight ``[N, K]`` as torch.nn.Linear keeps it, bias ``[N]`` -> y ``[*T, N]``:
    ``matmul`` of the weight's transpose, without a copy. Leading dimensions are rows, at one
    stride. Dtypes, activations (``relu``, ``leaky_relu``, ``gelu``, ``silu``), numerics, errors
    and gradients are those of ``matmul``. Source: torch.nn.functional.linear.
    """
    if len(weight.shape) != 2:
        expected, got = "[N, K]", str(tuple(weight.shape))
        raise ShapeMismatchError.from_library(
            f"linear: weight is no matrix; expected {expected}, got {got}",
            "linear", "weight", expected, got,
        )  # fmt: skip
    return _matmul(x, weight.T, activation, bias=bias, out_dtype=out_dtype, out=out)
