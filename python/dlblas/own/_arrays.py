"""Tensors of a call as NumPy arrays or torch tensors, over the caller's own memory.

In: what bindings/python/own.cpp makes of a tensor: a DLPack capsule for torch, else address, dtype,
shape and byte strides. The views are valid during the call. Read next: _function.py.
"""

from __future__ import annotations

import sys
from typing import Any

from .. import _dtypes, _hooks

_KINDS = {0: "i", 1: "u", 2: "f", 6: "b"}


class _View:
    """What numpy.asarray() reads."""

    __slots__ = ("__array_interface__",)

    def __init__(self, address: int, typestr: str, shape: Any, steps: Any, fixed: bool) -> None:
        self.__array_interface__ = {
            "version": 3,
            "shape": shape,
            "typestr": typestr,
            "data": (address, fixed),
            "strides": steps,
        }


def numpy_view(row: tuple[Any, ...] | None, fixed: bool) -> Any:
    """``fixed``: it may not be written."""
    if row is None:
        return None
    import numpy

    address, code, bits, shape, steps = row
    kind = _KINDS.get(code)
    if kind is not None:
        return numpy.asarray(_View(address, f"<{kind}{bits // 8}", shape, steps, fixed))
    raw = numpy.asarray(_View(address, f"<u{bits // 8}", shape, steps, fixed))
    return raw.view(_hooks.numpy_descr(code, bits))  # bf16 and f8: the bytes as ml_dtypes' type


def _from_capsule() -> Any:
    """What torch.utils.dlpack.from_dlpack() calls for a capsule: it asks fewer questions."""
    import torch

    return getattr(torch._C, "_from_dlpack", torch.utils.dlpack.from_dlpack)


def read_numpy(rows: tuple[Any, ...], fixed: tuple[bool, ...]) -> list[Any]:
    """``fixed``: for each tensor, whether it may not be written."""
    return [numpy_view(row, may_not) for row, may_not in zip(rows, fixed, strict=True)]


def read_torch(capsules: tuple[Any, ...], _: tuple[bool, ...]) -> list[Any]:
    read = _from_capsule()
    return [None if capsule is None else read(capsule) for capsule in capsules]


def on_stream(stream: int, device: Any) -> Any:
    """torch's current stream becomes the call's while inside; None where it is that already."""
    torch = sys.modules["torch"]
    if torch.cuda.current_stream(device).cuda_stream == stream:
        return None
    return torch.cuda.stream(torch.cuda.ExternalStream(stream, device))


def torch_dtype(name: str) -> Any:
    return getattr(sys.modules["torch"], _dtypes.TABLE[name][2])
