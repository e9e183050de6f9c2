"""What functions made of operators look at before the operators do: whether a tensor is there,
whether it may require grad, how its leading dimensions lie.

In: arrays of any package. Out: typed errors, and views or copies. torch.compile follows it. Used
by: ops/<family>/api.py, kernels/, torch/. Read next: _made_of.py (other errors of such functions).
"""

from __future__ import annotations

import math
from importlib import import_module
from itertools import pairwise
from typing import Any

from .errors import ArgumentError, ArgumentTypeError, Error

_ARRAY = "a torch tensor or a NumPy array"


def need(op: str, **arrays: Any) -> None:
    """Refuses None where an array belongs; what else is none, the operators and _made_of.py say."""
    for name, value in arrays.items():
        if value is None:
            raise no_array(op, name, value)


def need_arrays(op: str, **arrays: Any) -> None:
    """Also what has no shape: for functions outside of _made_of.py."""
    for name, value in arrays.items():
        if value is None or not hasattr(value, "shape"):
            raise no_array(op, name, value)


def no_array(op: str, name: str, value: Any, expected: str = _ARRAY) -> Error:
    got = "None" if value is None else type(value).__name__
    return ArgumentTypeError.from_library(
        f"{op}: {name} is no array; expected {expected}, got {got}", op, name, expected, got
    )


def grad_error(op: str, argument: str) -> Error:
    """Of a tensor that requires grad where nothing would give it one, as the kernels say it."""
    return ArgumentError.from_library(
        f"{op}: {argument} requires grad; expected a tensor outside autograd, got "
        "requires_grad=True; pass it with .detach(), or call under torch.no_grad()",
        op, argument, "a tensor outside autograd", "requires_grad=True",
    )  # fmt: skip


def strides_of(x: Any) -> tuple[int, ...] | None:
    """In elements; None where an array does not say."""
    found = getattr(x, "strides", None)
    if isinstance(found, tuple):
        return tuple(stride // x.itemsize for stride in found)
    return tuple(x.stride()) if hasattr(x, "stride") else None


def asks_for_gradients(*tensors: Any) -> bool:
    """Does a torch tensor among them require grad, while grad mode is on?"""
    if not any(getattr(x, "requires_grad", False) is True for x in tensors):
        return False
    import torch

    return torch.is_grad_enabled()


def flattens(x: Any, kept: int) -> bool:
    """Are all dimensions but the last ``kept`` at one stride, so that a view joins them?"""
    strides, shape = strides_of(x), tuple(x.shape)
    if strides is None or len(strides) != len(shape) or math.prod(shape) == 0:
        return bool(math.prod(shape) == 0)
    joined = [(n, s) for n, s in zip(shape, strides, strict=True)][: len(shape) - kept]
    joined = [(n, s) for n, s in joined if n != 1]
    return all(s == n * t for (_, s), (n, t) in pairwise(joined))


def as_matrix(x: Any) -> Any:
    """Leading dimensions as rows; −1 would not do where there are no columns to count them by."""
    return x.reshape((math.prod(x.shape[:-1]), x.shape[-1]))


def as_rows(x: Any) -> Any:
    """``x [*T, K]`` with leading dimensions at one stride: itself, or a contiguous copy where no
    view joins them (a transposed batch, say), as torch.nn.functional.linear makes one."""
    shape = tuple(getattr(x, "shape", ()))
    if len(shape) < 3 or strides_of(x) is None:  # what does not say how it lies goes as it is
        return x
    if math.prod(shape) != 0 and flattens(x, 1):
        return x
    if hasattr(x, "contiguous"):
        return x.contiguous()
    return import_module("numpy").ascontiguousarray(x)
