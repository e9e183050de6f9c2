"""``Spec``, a tensor without data, and ``Array``, the result type when the caller's own array type
cannot be created.

Read next: _hooks.py.
"""

from __future__ import annotations

import ctypes
import itertools
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
    """Integers that fit 64 bits when multiplied by ``size``; the library judges what they mean."""
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
    """``"cuda:1"`` → 1, ``"cuda"`` → 0, ``"cpu"`` → -1; a torch device is read by its name.
    ``"sm_90a"``: a GPU that need not be present."""
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
    also take one on "sm_90a", a typical GPU of that architecture, which need not be present.
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
        self._exchange: tuple[Any, ...] = (0, code, bits, self.shape, steps, False, cuda)

    def __repr__(self) -> str:
        strides = "" if self.strides is None else f", strides={self.strides}"
        device = "" if self.device == "cpu" else f", device={self.device!r}"
        return f"Spec({self.shape}, {self.dtype!r}{strides}{device})"


class Array:
    """A CPU result for callers whose array type cannot be created: read it through DLPack or NumPy.

    Results of the library are contiguous; slices and transposed views of them need not be.
    """

    __slots__ = ("_buffer", "_code", "_data", "_shape", "_steps")

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
        # Kernels prefer 64-byte alignment.
        self._data = (ctypes.addressof(self._buffer) + 63) & ~63
        self._steps = _packed_steps(self._shape, bits // 8)

    # Read-only: they determine where kernels read and write.
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
        """The same elements in another shape, in which -1 stands for the remaining size; a copy if
        strides cannot express that shape."""
        sizes = _integers("Array.reshape", "shape", shape, 1)
        count, known = math.prod(self._shape), math.prod(n for n in sizes if n != -1)
        sizes = tuple((count // known if known else 0) if n == -1 else n for n in sizes)
        if math.prod(sizes) != count or min(sizes, default=0) < 0:
            raise ArgumentError.from_library(
                f"Array.reshape: shape has another count; expected {count} elements, "
                f"got {tuple(shape)}; use sizes whose product this is",
                "Array.reshape", "shape", str(count), str(tuple(shape)),
            )  # fmt: skip
        steps = _steps_as(self._shape, self._steps, sizes)
        if steps is not None:
            return self._view(self._data, sizes, steps)
        packed = self._packed()
        return packed._view(packed._data, sizes, _packed_steps(sizes, self._code[1] // 8))

    def __getitem__(self, key: Any) -> Array:
        """A view of a part: integers, slices, None and Ellipsis, as in NumPy."""
        parts = list(key) if isinstance(key, tuple) else [key]
        if not any(part is Ellipsis for part in parts):
            parts.append(Ellipsis)
        data, kept = self._data, list[tuple[int, int]]()  # dimensions: size and step
        left = list(zip(self._shape, self._steps, strict=True))
        for i, part in enumerate(parts):
            if part is None:
                kept.append((1, 0))
            elif part is Ellipsis:
                count = len(left) - sum(other is not None for other in parts[i + 1 :])
                kept += left[: max(count, 0)]
                del left[: max(count, 0)]
            elif not left:
                raise IndexError(f"too many indices for {len(self._shape)} dimensions")
            elif isinstance(part, slice):
                size, step = left.pop(0)
                places = range(*part.indices(size))
                data += places.start * step if places else 0
                kept.append((len(places), places.step * step))
            else:
                size, step = left.pop(0)
                data += range(size)[part] * step
        return self._view(data, tuple(size for size, _ in kept), tuple(step for _, step in kept))

    def __setitem__(self, key: Any, value: Array) -> None:
        """Copies an Array of the part's shape and dtype into the part."""
        part = self[key]
        if not isinstance(value, Array) or (value._shape, value._code) != (part._shape, self._code):
            expected, got = f"an Array {part.shape} of {part.dtype}", repr(value)
            raise ArgumentError.from_library(
                f"Array: value does not fit; expected {expected}, got {got}",
                "Array", "value", expected, got,
            )  # fmt: skip
        _copy(part, value)

    def swapaxes(self, first: int, second: int) -> Array:
        """A view with the two dimensions exchanged."""
        shape, steps = list(self._shape), list(self._steps)
        for values in (shape, steps):
            values[first], values[second] = values[second], values[first]
        return self._view(self._data, tuple(shape), tuple(steps))

    def _view(self, data: int, shape: tuple[int, ...], steps: tuple[int, ...]) -> Array:
        other = Array.__new__(Array)
        other._buffer, other._code = self._buffer, self._code
        other._data, other._shape, other._steps = data, shape, steps
        return other

    def _is_packed(self) -> bool:
        packed = _packed_steps(self._shape, self._code[1] // 8)
        rows = zip(self._shape, self._steps, packed, strict=True)
        return 0 in self._shape or all(n == 1 or step == want for n, step, want in rows)

    def _packed(self) -> Array:
        """The array itself if it is contiguous, else a contiguous copy."""
        if self._is_packed():
            return self
        made = Array(self._shape, self.dtype)
        _copy(made, self)
        return made

    @property
    def _exchange(self) -> tuple[Any, ...]:
        return (self._data, *self._code, self._shape, self._steps, False, -1)

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
            "strides": None if self._is_packed() else self._steps,
        }

    def __dlpack__(self, *, stream: None = None, max_version: Any = None, **_: Any) -> Any:
        one = self._packed()
        made = make_capsule(one.data, *one._code, one.shape, one)  # noqa: F821 - set, see above
        return made

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __repr__(self) -> str:
        return f"dlblas.Array(shape={self.shape}, dtype={self.dtype!r})"


def _packed_steps(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """The strides of a contiguous array, in bytes."""
    return tuple(size * math.prod(shape[i + 1 :]) for i in range(len(shape)))


def _steps_as(
    shape: tuple[int, ...], steps: tuple[int, ...], wanted: tuple[int, ...]
) -> tuple[int, ...] | None:
    """The strides, in bytes, of a view with another shape; None if there is no such view. From the
    last dimension on, dimensions at one even stride are merged; each merged group must be the
    product of some wanted dimensions."""
    made, at = [0] * len(wanted), len(wanted)
    even, parts, step = 1, 1, 0  # elements of either, and the bytes between them
    for d in reversed(range(len(shape))):
        step = steps[d] if even == 1 else step
        even *= shape[d]
        if d > 0 and (shape[d - 1] == 1 or steps[d - 1] == even * step):
            continue
        while at > 0 and (parts < even or wanted[at - 1] == 1):
            at -= 1
            made[at], parts = parts * step, parts * wanted[at]
        if parts != even:
            return None
        even, parts = 1, 1
    return tuple(made) if at == 0 or 0 in wanted or not shape else None


def _copy(to: Array, source: Array) -> None:
    """Copies the elements of an array of the same shape and dtype, one contiguous run at a time."""
    run, shape = to._code[1] // 8, list(to._shape)
    while shape and to._steps[len(shape) - 1] == source._steps[len(shape) - 1] == run:
        run *= shape.pop()
    for index in itertools.product(*map(range, shape)):
        at, start = (a._data + sum(map(operator.mul, index, a._steps)) for a in (to, source))
        ctypes.memmove(at, start, run)


# NumPy has these names too: _spread.py calls them on the module of an array's type.


def broadcast_to(array: Array, shape: Sequence[int]) -> Array:
    """A view with more leading dimensions, and with dimensions of size 1 repeated."""
    added = len(shape) - len(array._shape)
    steps = (
        0 if have == 1 else step for have, step in zip(array._shape, array._steps, strict=True)
    )
    return array._view(array._data, tuple(shape), (*((0,) * added), *steps))


def concatenate(arrays: Sequence[Array], axis: int) -> Array:
    """The arrays, concatenated along the last dimension; ``axis`` is -1."""
    first = arrays[0]
    ends = list(itertools.accumulate(array._shape[axis] for array in arrays))
    made = Array((*first._shape[:-1], ends[-1]), first.dtype)
    for array, end in zip(arrays, ends, strict=True):
        made[..., end - array._shape[axis] : end] = array
    return made


def empty(shape: Sequence[int], dtype: Any) -> Array:
    return Array(shape, dtype)


def may_share_memory(first: Array, second: Array) -> bool:
    return first._buffer is second._buffer
