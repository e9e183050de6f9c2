"""``Spec``, a tensor without data, and ``Array``, the result type where the caller's own cannot
be made.

Read next: _hooks.py.
"""

from __future__ import annotations

import ctypes
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from . import _dtypes
from ._arguments import hinted
from .errors import ArgumentError

make_capsule: Callable[..., Any]
"""(address, code, bits, shape, owner) -> DLPack capsule. Set by _functions.py, which imports this
module; without a value here, a reload keeps it."""


def _code_and_bits(dtype: Any) -> tuple[int, int]:
    name = _dtypes.name_of(dtype)
    if name is None:
        known = ", ".join(_dtypes.TABLE)
        raise ArgumentError.from_library(
            f"Spec: dtype is unknown; expected one of {known}, got {dtype!r}; "
            "pass a name or a dtype",
            "Spec", "dtype", known, repr(dtype),
        )  # fmt: skip
    return _dtypes.TABLE[name][:2]


def _integers(what: str, argument: str, values: Any, size: int) -> tuple[int, ...]:
    """Integers that, times ``size``, fit 64 bits; what they mean is the library's to judge."""
    try:
        read = tuple(operator.index(value) for value in values)
    except TypeError:
        read = None
    if read is None or any(abs(value) * size >= 2**63 for value in read):
        expected = "integers of at most 64 bits"
        raise ArgumentError.from_library(
            f"{what}: {argument} is malformed; expected {expected}, got {values!r}; "
            "give one number a dimension",
            what, argument, expected, repr(values),
        )  # fmt: skip
    return read


_ABSENT_GPU = 16384  # DLBLAS_ABSENT_GPU of dlblas.h


def _name_of_cuda(index: int) -> str:
    arch = index - _ABSENT_GPU
    if arch < 0:
        return "cpu" if index < 0 else f"cuda:{index}"
    return f"sm_{arch}" + ("a" if arch >= 90 else "")


def _cuda_index(device: Any) -> int:
    """``"cuda:1"`` → 1, ``"cuda"`` → 0, ``"cpu"`` → -1; a torch device goes by its name.
    ``"sm_90a"``: a GPU that need not be here."""
    kind, colon, index = str(device).partition(":")
    if kind == "cpu" and index in ("", "0"):
        return -1
    arch = kind.removeprefix("sm_").removesuffix("a")
    if kind.startswith("sm_") and not colon and arch.isdecimal() and len(arch) in (2, 3):
        return _ABSENT_GPU + int(arch)
    if kind == "cuda" and (index.isdecimal() or not colon) and len(index) < 5:
        return int(index or 0)
    expected = '"cpu", "cuda", "cuda:1", or "sm_90a" for a GPU that need not be here'
    raise ArgumentError.from_library(
        f"Spec: device is unknown; expected {expected}, got {device!r}; use one of these",
        "Spec", "device", expected, repr(device),
    )  # fmt: skip


@hinted
class Spec:
    """Shape, dtype, strides (in elements; None: contiguous) and device ("cpu", "cuda", "cuda:1"),
    without data.

    ``explain``, ``tune`` and ``get_op`` take it in place of an array. ``explain`` and ``warmup``
    also take one on "sm_90a", a typical GPU of that architecture, which need not be here.
    """

    __slots__ = ("_exchange", "device", "dtype", "shape", "strides")

    def __init__(
        self,
        shape: Sequence[int],
        dtype: Any,
        strides: Sequence[int] | None = None,
        device: Any = "cpu",
    ) -> None:
        cuda = _cuda_index(device)
        self.device = _name_of_cuda(cuda)
        code, bits = _code_and_bits(dtype)
        self.shape = _integers("Spec", "shape", shape, 1)
        self.dtype = _dtypes.NAMES[code, bits]
        self.strides = None if strides is None else _integers("Spec", "strides", strides, bits // 8)
        if self.strides is not None and len(self.strides) != len(self.shape):
            raise ArgumentError.from_library(
                f"Spec: strides has the wrong length; expected {len(self.shape)}, "
                f"got {len(self.strides)}; give one stride a dimension",
                "Spec", "strides", str(len(self.shape)), str(len(self.strides)),
            )  # fmt: skip
        steps = None if self.strides is None else tuple(s * (bits // 8) for s in self.strides)
        self._exchange = (0, code, bits, self.shape, steps, False, cuda)

    def __repr__(self) -> str:
        strides = "" if self.strides is None else f", strides={self.strides}"
        device = "" if self.device == "cpu" else f", device={self.device!r}"
        return f"Spec({self.shape}, {self.dtype!r}{strides}{device})"


class Array:
    """A contiguous CPU result for callers whose array type cannot be made: read it through
    DLPack or NumPy."""

    __slots__ = ("_buffer", "_code", "_data", "_shape")

    def __init__(self, shape: Sequence[int], dtype: Any) -> None:
        _, bits = self._code = _code_and_bits(dtype)
        self._shape = _integers("Array", "shape", shape, bits // 8)
        size = bits // 8
        for n in self._shape:
            size *= n
        if min(self._shape, default=0) < 0 or size >= 2**62:
            expected = "sizes from 0 on, of an array that memory can hold"
            raise ArgumentError.from_library(
                f"Array: shape is malformed; expected {expected}, got {self._shape}; use others",
                "Array", "shape", expected, str(self._shape),
            )  # fmt: skip
        self._buffer = ctypes.create_string_buffer(size + 63)
        # Kernels like 64-byte alignment.
        self._data = (ctypes.addressof(self._buffer) + 63) & ~63

    # Not to be set: they say where kernels read and write.
    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def dtype(self) -> str:
        return _dtypes.NAMES[self._code]

    @property
    def data(self) -> int:
        """The address of the first element."""
        return self._data

    def reshape(self, shape: Sequence[int]) -> Array:
        """The same elements in another shape, in which -1 stands for what is left."""
        sizes = _integers("Array.reshape", "shape", shape, 1)
        count, known = math.prod(self._shape), math.prod(n for n in sizes if n != -1)
        sizes = tuple((count // known if known else 0) if n == -1 else n for n in sizes)
        if math.prod(sizes) != count or min(sizes, default=0) < 0:
            raise ArgumentError.from_library(
                f"Array.reshape: shape has another count; expected {count} elements, "
                f"got {tuple(shape)}; use sizes whose product this is",
                "Array.reshape", "shape", str(count), str(tuple(shape)),
            )  # fmt: skip
        other = Array.__new__(Array)
        other._buffer, other._code, other._data = self._buffer, self._code, self._data
        other._shape = sizes
        return other

    @property
    def __array_interface__(self) -> dict[str, Any]:
        code, bits = self._code
        kind = {0: "i", 1: "u", 2: "f", 6: "b"}.get(code)
        if kind is None:  # NumPy itself has no bf16 and f8
            raise AttributeError("__array_interface__")
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": f"<{kind}{bits // 8}",
            "data": (self.data, False),
        }

    def __dlpack__(self, *, stream: None = None, max_version: Any = None, **_: Any) -> Any:
        made = make_capsule(self.data, *self._code, self.shape, self)  # noqa: F821 - set, see above
        return made

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __repr__(self) -> str:
        return f"dlblas.Array(shape={self.shape}, dtype={self.dtype!r})"
