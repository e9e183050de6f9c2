"""Uninitialised arrays of the caller's own package, for results in another layout than the
library's: they are passed as ``out=``, with any strides. Also views of packed numbers as bytes, and
of bytes as numbers.

Used by: api.py of the families. Read next: ops/quant/api.py.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from . import _dtypes
from ._array import Array
from ._given import is_numpy
from .errors import ArgumentTypeError


def empty(like: Any, shape: tuple[Any, ...], dtype: Any, op: str, argument: str = "x") -> Any:
    """An uninitialised array of ``shape``, of the package and on the device of ``like``: a torch
    tensor, a NumPy array or an ``Array``.

    ``dtype`` is one of the library's names, or a dtype of that package. torch.compile can trace
    this. ``argument``: what the function calls ``like``.
    """
    name = _dtypes.name_of(dtype) if isinstance(dtype, str) else None
    if hasattr(like, "new_empty"):
        if name is not None:
            import torch

            dtype = getattr(torch, _dtypes.TABLE[name][2])
        return like.new_empty(shape, dtype=dtype)
    if is_numpy(like):
        if name is not None:
            dtype = _dtypes.TABLE[name][2]
            if dtype.startswith(("bfloat", "float8")):  # NumPy has no such types of its own
                dtype = getattr(import_module("ml_dtypes"), dtype)
        return import_module("numpy").empty(shape, dtype)
    if type(like) is Array:
        return Array(shape, dtype)
    expected, got = "a torch tensor or a NumPy array", type(like).__name__
    raise ArgumentTypeError.from_library(
        f"{op}: {argument} has no results of another layout; expected {expected}, got {got}; hand "
        "over out= to the operator",
        op, argument, expected, got,
    )  # fmt: skip


def bytes_of(array: Any) -> Any:
    """torch's packed numbers as the bytes that hold them; anything else unchanged."""
    if str(getattr(array, "dtype", "")) != "torch.float4_e2m1fn_x2":
        return array
    import torch

    return array.view(torch.uint8)


def f8_of_bytes(array: Any) -> Any:
    """Bytes as f8e4m3, which they stood for before torch had the type; anything else unchanged."""
    dtype = str(array.dtype)
    if dtype == "torch.uint8":
        import torch

        return array.view(torch.float8_e4m3fn)
    if dtype == "uint8" and is_numpy(array):
        return array.view(import_module("ml_dtypes").float8_e4m3fn)
    return array


def viewed(op: str, name: str, x: Any, dtype: str) -> Any:
    """The same bits as ``dtype`` of the same size: one of the library's names, or an integer's."""
    long = _dtypes.TABLE[dtype][2] if dtype in _dtypes.TABLE else dtype
    if hasattr(x, "new_empty"):
        import torch

        return x.view(getattr(torch, long))
    if is_numpy(x):
        if long == "bfloat16":
            return x.view(import_module("ml_dtypes").bfloat16)
        return x.view(long)
    expected, got = "a torch tensor or a NumPy array", type(x).__name__
    raise ArgumentTypeError.from_library(
        f"{op}: {name} is of another package; expected {expected}, got {got}",
        op, name, expected, got,
    )  # fmt: skip
