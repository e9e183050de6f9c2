"""``dlblas.bmm``: products of the matrices of a batch, in one launch where strides allow.

In: arrays of any package that the operators take. Out: what they return; nothing is computed here,
and torch.compile follows it. Read next: batched_matmul/, batched_matmul_nt/, matmul/.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from .._empty import empty
from .._functions import FUNCTIONS
from ..errors import ShapeMismatchError

__all__ = ["bmm"]

_matmul = FUNCTIONS["matmul"].call
_batched, _batched_nt = (FUNCTIONS[name].call for name in ("batched_matmul", "batched_matmul_nt"))


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
    ``[*B, M, N]``. One call of ``batched_matmul``, or of ``batched_matmul_nt`` where rows of b lie
    along K: one launch on a GPU. b ``[K, N]``, or one matrix expanded, is ``matmul``, whose leading
    dimensions are rows. Leading dimensions that do not flatten are a call for each of the first.
    ``out``: where the result goes. Dtypes, activations, numerics and gradients (none) are those of
    ``matmul``. Errors: ShapeMismatchError for leading dimensions that differ; those of ``matmul``.
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
    _multiply(a, b, out, activation, {"bias": bias, "out_dtype": out_dtype})
    return out


def _multiply(a: Any, b: Any, out: Any, activation: str, more: dict[str, Any]) -> None:
    lead = tuple(b.shape[:-2])
    one = _is_one_matrix(b, lead)
    if one and _flattens(a, 1) and _flattens(out, 1):
        _matmul(a, b[(0,) * len(lead)], activation, **more, out=out)
    elif len(lead) > 1 and not all(_flattens(x, 2) for x in (a, b, out)):
        for i in range(lead[0]):
            _multiply(a[i], b[i], out[i], activation, more)
    else:
        a, b, out = (_flat(x, lead) for x in (a, b, out))
        strides = _strides(b)
        if strides is not None and strides[-1] != 1 and strides[-2] == 1:
            _batched_nt(a, b.swapaxes(1, 2), activation, **more, out=out)
        else:
            _batched(a, b, activation, **more, out=out)


def _strides(x: Any) -> tuple[int, ...] | None:
    """In elements; None where an array does not say."""
    found = getattr(x, "strides", None)
    if isinstance(found, tuple):
        return tuple(stride // x.itemsize for stride in found)
    stride = getattr(x, "stride", None)
    return tuple(stride()) if callable(stride) else None


def _is_one_matrix(b: Any, lead: tuple[int, ...]) -> bool:
    strides = _strides(b)
    if strides is None or 0 in lead:
        return False
    return all(s == 0 or n == 1 for n, s in zip(lead, strides, strict=False))


def _flattens(x: Any, kept: int) -> bool:
    """Are all dimensions but the last ``kept`` at one stride, so that a view joins them?"""
    strides, shape = _strides(x), tuple(x.shape)
    if strides is None or math.prod(shape) == 0:
        return bool(math.prod(shape) == 0)
    joined = [(n, s) for n, s in zip(shape, strides, strict=True)][: len(shape) - kept]
    joined = [(n, s) for n, s in joined if n != 1]
    return all(s == n * t for (_, s), (n, t) in pairwise(joined))


def _flat(x: Any, lead: tuple[int, ...]) -> Any:
    """A view ``[B, rows, columns]``."""
    return x if len(lead) == 1 else x.reshape(math.prod(lead), *x.shape[-2:])
