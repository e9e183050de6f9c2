"""Checks and conversions that functions made of operators perform before they call the operators:
whether a tensor is given, its dtype, whether it may require grad, the layout of its leading
dimensions, and whether a result can be copied to its destination.

In: arrays of any package. Out: typed errors, and views or copies. torch.compile can trace it. Used
by: ops/<family>/api.py, kernels/, torch/. Read next: _made_of.py (other errors of such functions).
"""

from __future__ import annotations

import math
import sys
from importlib import import_module
from itertools import pairwise
from operator import index
from typing import Any

from ._array import Spec
from ._dtypes import name_of
from .errors import (
    ArgumentError,
    ArgumentTypeError,
    DeviceError,
    Error,
    ShapeMismatchError,
    UnsupportedDtypeError,
)

_ARRAY = "a torch tensor or a NumPy array"


def need(op: str, **arrays: Any) -> None:
    """Refuses None or a Spec where an array belongs; the operators and _made_of.py refuse other
    non-arrays."""
    for name, value in arrays.items():
        if value is None or type(value) is Spec:
            raise no_array(op, name, value)


def need_arrays(op: str, **arrays: Any) -> None:
    """Also refuses values without a shape, for functions that _made_of.py does not wrap."""
    for name, value in arrays.items():
        if value is None or not hasattr(value, "shape"):
            raise no_array(op, name, value)


def no_array(op: str, name: str, value: Any, expected: str = _ARRAY) -> Error:
    got = _kind(value)
    return ArgumentTypeError.from_library(
        f"{op}: {name} is no array; expected {expected}, got {got}", op, name, expected, got
    )


def integer(op: str, name: str, value: Any, expected: str = "an integer") -> int:
    """The value as a Python int. Raises ArgumentTypeError if it is not an integer."""
    try:
        return index(value)
    except Exception:  # TypeError, or whatever a foreign object raises
        got = _kind(value)
        raise ArgumentTypeError.from_library(
            f"{op}: {name} is of another type; expected {expected}, got {got}",
            op, name, expected, got,
        ) from None  # fmt: skip


_LARGEST = 2.0**128 - 2.0**104  # of f32


def in_f32(value: Any) -> Any:
    """A number as a float, and as ±inf beyond f32's range, where torch would refuse it."""
    value = value if isinstance(value, float) else float(value)
    if abs(value) > _LARGEST:
        return math.inf if value > 0 else -math.inf
    return value


def _kind(value: Any) -> str:
    return "None" if value is None else type(value).__name__


def grad_error(op: str, argument: str) -> Error:
    """The error for a tensor that requires grad where no gradient is computed, worded as the
    kernels word it."""
    return ArgumentError.from_library(
        f"{op}: {argument} requires grad; expected a tensor outside autograd, got "
        "requires_grad=True; pass it with .detach(), or call under torch.no_grad()",
        op, argument, "a tensor outside autograd", "requires_grad=True",
    )  # fmt: skip


def is_numpy(x: Any) -> bool:
    """Whether x is an array or a number of NumPy's, or of a subclass, wherever that is defined."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(x, (numpy.ndarray, numpy.generic))


def functions_of(x: Any) -> Any:
    """The module that has the functions for an array that is not torch's."""
    return import_module("numpy" if is_numpy(x) else type(x).__module__)


def strides_of(x: Any) -> tuple[int, ...] | None:
    """The strides in elements, as a Spec has them; None if the array does not tell."""
    found = getattr(x, "strides", None)
    if isinstance(found, tuple):  # in bytes, but of a Spec
        return tuple(stride // getattr(x, "itemsize", 1) for stride in found)
    return tuple(x.stride()) if hasattr(x, "stride") else None


def check_place(
    op: str, shown: str, place: Any, shapes: tuple[tuple[Any, ...], ...], dtype: str, like: Any
) -> None:
    """Refuses a destination that a result cannot be copied to, before anything is written: a shape
    that is not in ``shapes``, or a dtype other than ``dtype`` (one of the library's names), would
    be broadcast or converted silently. ``like``: another result of the call. ``shown``: for example
    "out[1] (scale)"."""
    argument = shown.partition(" ")[0]
    if not (hasattr(place, "dtype") and hasattr(place, "shape") and hasattr(place, "__setitem__")):
        raise ArgumentTypeError.from_library(
            f"{op}: {shown} is no array to write to; expected {_ARRAY}, got {_kind(place)}",
            op, argument, _ARRAY, _kind(place),
        )  # fmt: skip
    found, shape = name_of(place.dtype), tuple(place.shape)
    if found != dtype:
        got = found or str(place.dtype)
        raise UnsupportedDtypeError.from_library(
            f"{op}: {shown} has dtype {got}; expected {dtype}, got {got}", op, argument, dtype, got
        )
    if shape not in shapes:
        expected = str(shapes[0])
        raise ShapeMismatchError.from_library(
            f"{op}: {shown} has another shape; expected {expected}, got {shape}",
            op, argument, expected, str(shape),
        )  # fmt: skip
    there, here = (str(getattr(x, "device", "cpu")) for x in (like, place))
    if there != here:
        raise DeviceError.from_library(
            f"{op}: {shown} is on {here}; expected {there}, where the other result is, got {here}",
            op, argument, there, here,
        )  # fmt: skip
    check_writable(op, shown, place)


def check_dense(op: str, shown: str, x: Any) -> None:
    """Refuses sparse and other tensors of torch that have no strides."""
    layout = str(getattr(x, "layout", "torch.strided")).removeprefix("torch.")
    if layout != "strided":
        raise ArgumentError.from_library(
            f"{op}: {shown} is not a dense tensor; expected a strided layout, got {layout}; "
            "convert it with .to_dense()",
            op, shown.partition(" ")[0], "a strided layout", layout,
        )  # fmt: skip


def check_writable(op: str, shown: str, place: Any) -> None:
    """Checks the destination of a copy: it is dense, its memory can be written, each element has
    its own memory, and autograd does not track it."""
    argument = shown.partition(" ")[0]
    check_dense(op, shown, place)
    if asks_for_gradients(place):
        raise grad_error(op, argument)
    if getattr(getattr(place, "flags", None), "writeable", True) is False:
        raise ArgumentError.from_library(
            f"{op}: {shown} is read-only; expected a writable array, got writeable=False; pass a "
            "copy",
            op, argument, "a writable array", "writeable=False",
        )  # fmt: skip
    strides = strides_of(place) or ()
    steps = zip(place.shape, strides, strict=False)
    if 0 not in place.shape and any(step == 0 and size > 1 for size, step in steps):
        expected = "a destination in which every element has its own memory"
        got = "a broadcast view"
        raise ArgumentError.from_library(
            f"{op}: {shown} overlaps itself; expected {expected}, got {got}",
            op, argument, expected, got,
        )  # fmt: skip


def asks_for_gradients(*tensors: Any) -> bool:
    """Whether grad mode is on and one of the tensors is a torch tensor that requires grad."""
    if not any(getattr(x, "requires_grad", False) is True for x in tensors):
        return False
    import torch

    return torch.is_grad_enabled()


def flattens(x: Any, kept: int) -> bool:
    """Whether all dimensions but the last ``kept`` are at one stride, so that a view can merge
    them."""
    strides, shape = strides_of(x), tuple(x.shape)
    if strides is None or len(strides) != len(shape) or math.prod(shape) == 0:
        return bool(math.prod(shape) == 0)
    joined = [(n, s) for n, s in zip(shape, strides, strict=True)][: len(shape) - kept]
    joined = [(n, s) for n, s in joined if n != 1]
    return all(s == n * t for (_, s), (n, t) in pairwise(joined))


def as_matrix(x: Any) -> Any:
    """Leading dimensions as rows; not through −1, which is ambiguous when there are no columns."""
    return x.reshape((math.prod(x.shape[:-1]), x.shape[-1]))


def as_rows(x: Any) -> Any:
    """``x [*T, K]`` with its leading dimensions at one stride: x itself, or a contiguous copy if no
    view can merge them (a transposed batch, for example), as in torch.nn.functional.linear."""
    shape = tuple(getattr(x, "shape", ()))
    if len(shape) < 3 or strides_of(x) is None:  # what does not say how it lies goes as it is
        return x
    if math.prod(shape) != 0 and flattens(x, 1):
        return x
    if hasattr(x, "contiguous"):
        return x.contiguous()
    return import_module("numpy").ascontiguousarray(x)


_FLOATS = ("float32", "float16", "bfloat16")


def converted(x: Any, like: Any, to_f32: bool = False) -> Any:
    """x in the dtype of ``like`` or, with ``to_f32``, in f32, which holds all of the others: a copy
    if the dtype differs. Only for the floats that operators take; they refuse anything else."""
    if getattr(x, "dtype", None) is getattr(like, "dtype", None):
        return x
    there, wanted = (str(getattr(t, "dtype", "")).rpartition(".")[2] for t in (x, like))
    if there == wanted or there not in _FLOATS or wanted not in _FLOATS:
        return x
    if to_f32 and there == "float32":
        return x
    if hasattr(x, "new_empty"):
        return x.float() if to_f32 else x.to(like.dtype)
    return x.astype("float32" if to_f32 else like.dtype) if hasattr(x, "astype") else x
