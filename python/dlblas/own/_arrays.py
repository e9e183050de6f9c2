"""Tensors of a call as NumPy arrays or torch tensors, over the caller's own memory.

In: a tensor from bindings/python/own.cpp: a DLPack capsule for torch, else address, dtype, shape
and byte strides. Every array over the memory refers to the call's token, so the library knows when
a view outlives the call, and keeps the memory alive for it. Read next: _function.py,
bindings/python/views.cpp.
"""

from __future__ import annotations

import sys
from typing import Any

from .. import _dtypes, _hooks

# (DLPack code, bits) -> NumPy type string. Others (bf16, f8) are viewed as types of ml_dtypes.
_TYPES = {
    (code, 8 * size): f"<{kind}{size}"
    for code, kind in {0: "i", 1: "u", 2: "f", 6: "b"}.items()
    for size in (1, 2, 4, 8)
    if (kind, size) != ("f", 1) and (kind != "b" or size == 1)
}


class _View:
    """The object that numpy.asarray() reads; the array and all views of it refer to this object."""

    __slots__ = ("__array_interface__", "token")

    def __init__(
        self, address: int, typestr: str, shape: Any, steps: Any, fixed: bool, token: Any
    ) -> None:
        self.token = token
        self.__array_interface__ = {
            "version": 3,
            "shape": shape,
            "typestr": typestr,
            "data": (address, fixed),
            "strides": steps,
        }


def numpy_view(row: tuple[Any, ...] | None, fixed: bool, token: Any = None) -> Any:
    """``fixed``: read-only. Without a token, the array must not outlive the call."""
    import numpy

    return _view(numpy.asarray, row, fixed, token)


def _view(asarray: Any, row: tuple[Any, ...] | None, fixed: bool, token: Any) -> Any:
    if row is None:
        return None
    address, code, bits, shape, steps = row
    known = _TYPES.get((code, bits))
    if known is not None:
        return asarray(_View(address, known, shape, steps, fixed, token))
    raw = asarray(_View(address, f"<u{bits // 8}", shape, steps, fixed, token))
    return raw.view(_hooks.numpy_descr(code, bits))


def _from_capsule() -> Any:
    """What torch.utils.dlpack.from_dlpack() calls for a capsule; it makes fewer checks."""
    import torch

    return getattr(torch._C, "_from_dlpack", torch.utils.dlpack.from_dlpack)


def read_numpy(rows: tuple[Any, ...], fixed: tuple[bool, ...], token: Any) -> list[Any]:
    """``fixed``: for each tensor, whether it is read-only."""
    import numpy

    read = numpy.asarray
    return [_view(read, row, may_not, token) for row, may_not in zip(rows, fixed, strict=True)]


def read_torch(capsules: tuple[Any, ...], _: tuple[bool, ...], __: Any) -> list[Any]:
    read = _from_capsule()
    return [None if capsule is None else read(capsule) for capsule in capsules]


def on_stream(stream: int, device: Any) -> Any:
    """A context in which the call's stream is torch's current one; None if it already is."""
    torch = sys.modules["torch"]
    if torch.cuda.current_stream(device).cuda_stream == stream:
        return None
    return torch.cuda.stream(torch.cuda.ExternalStream(stream, device))


def torch_dtype(name: str) -> Any:
    return getattr(sys.modules["torch"], _dtypes.TABLE[name][2])
