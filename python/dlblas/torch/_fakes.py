"""Fakes from the operators' schemas: shapes and dtypes of results, for integers and SymInts alike.

In: an operation and its arguments, from torch.compile, torch.export or a call on meta tensors. Out:
new empty tensors, or nothing if the call writes its results. A shape that does not fit raises the
error that the kernel would. Read next: src/dispatch/validate.cpp, whose rules these are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from .. import _dtypes
from .._dims import Dim
from .._functions import FUNCTIONS
from .._given import grad_error
from ..errors import (
    ArgumentError,
    DeviceError,
    Error,
    ShapeMismatchError,
    UnsupportedDtypeError,
)
from ._operations import Operation, Tensor

TORCH_DTYPES: dict[str, torch.dtype] = {
    name: getattr(torch, row[-1]) for name, row in _dtypes.TABLE.items() if hasattr(torch, row[-1])
}


def _error(cls: type[Error], op: str, tensor: str, problem: str, expected: Any, got: Any) -> Error:
    message = f"{op}: {tensor} {problem}; expected {expected}, got {got}"
    return cls.from_library(message, op, tensor, str(expected), str(got))


class _Binder:
    """The letters of one call."""

    def __init__(self, operation: Operation, sizes: dict[str, Any]) -> None:
        self.op = operation
        self.sizes = sizes
        self.leading: dict[str, tuple[Any, ...]] = {}

    def open(self, dim: Dim) -> list[str]:
        return [letter for letter in dim.letters if letter not in self.sizes]

    def settled(self, dim: Dim) -> bool:
        """Are its letters known, or multiplied by 0?"""
        return dim.ignores(self.open(dim), self.sizes)

    def evaluate(self, spec: Tensor, shape: Any, dim: Dim) -> Any:
        """The size of a settled dimension; refuses one that has none."""
        sizes = {**dict.fromkeys(self.open(dim), 0), **self.sizes}
        if dim.terms and dim.divisor_letter:
            expected = f"{dim.text} with a {dim.divisor_letter} of at least 1"
            self.require(dim.by(sizes) >= 1, spec, shape, expected)
        if dim.whole:
            by = dim.by(sizes)
            expected = f"{dim.text} with a multiple of {by} before //"
            self.require(dim.total(sizes) % by == 0, spec, shape, expected)
        size = dim.evaluate(sizes)
        if dim.addend < 0:
            self.require(size >= 0, spec, shape, f"{dim.text} of at least 0")
        return size

    def require(self, condition: Any, spec: Tensor, shape: Any, expected: str) -> None:
        """Enforces a condition on sizes; a symbolic one becomes a guard."""
        if not isinstance(condition, bool):
            torch._check(condition, lambda: str(self.wrong(spec, shape, expected)))
        elif not condition:
            raise self.wrong(spec, shape, expected)

    def wrong(self, spec: Tensor, shape: Any, expected: str) -> Error:
        dims = ", ".join("*" * dim.leading + dim.text for dim in spec.dims)
        return _error(
            ShapeMismatchError, self.op.form, spec.name, f"does not fit [{dims}]", expected,
            tuple(shape),
        )  # fmt: skip

    def _bind_leading(self, spec: Tensor, shape: Any, dim: Dim, head: tuple[Any, ...]) -> None:
        letter = dim.plain
        known = self.leading.get(letter)
        if known is not None:
            expected = f"leading dimensions {known}"
            if len(known) != len(head):
                raise self.wrong(spec, shape, expected)
            for size, other in zip(head, known, strict=True):
                self.require(size == other, spec, shape, expected)
            return
        product: Any = 1
        for size in head:
            product = product * size
        if letter in self.sizes:
            rows = self.sizes[letter]
            self.require(product == rows, spec, shape, f"{rows} rows")
        self.leading[letter] = head
        self.sizes[letter] = product

    def _bind_dim(self, spec: Tensor, shape: Any, dim: Dim, size: Any) -> bool:
        if dim.may_be_one and size == 1:
            return True
        open_letters = self.open(dim)
        if dim.may_be_half and open_letters:
            return False
        if self.settled(dim):
            wanted = self.evaluate(spec, shape, dim)
            if dim.may_be_half and 2 * size == wanted:
                return True
            self.require(size == wanted, spec, shape, f"{dim.text} = {wanted}")
            return True
        letter = open_letters[0]
        if len(open_letters) > 1 or not dim.is_linear_in(letter):
            return False
        rest, step = dim.solve(letter, self.sizes, size)
        if len(dim.terms) > 1 or dim.addend > 0:
            self.require(rest >= 0, spec, shape, f"{dim.text} with a whole {letter}")
        if not (isinstance(step, int) and step == 1):
            expected = f"a multiple of {step} ({dim.text})"
            self.require(rest % step == 0, spec, shape, expected)
            rest = rest // step
        self.sizes[letter] = rest
        return True

    def bind(self, spec: Tensor, shape: tuple[Any, ...]) -> bool:
        """Binds or checks every dimension; False when one waits for its letters."""
        dims = spec.dims
        if not dims and len(shape) == 1 and shape[0] == 1:  # f32[] takes [1]
            shape = ()
        lead = 1 if dims and dims[0].leading else 0
        extra = len(shape) - len(dims) + lead  # how many dimensions `*T` stands for
        if extra < 0 or (extra > 0 and not lead):
            raise self.wrong(spec, shape, f"{len(dims) - lead} dimensions{' or more' * lead}")
        if lead:
            self._bind_leading(spec, shape, dims[0], shape[:extra])
        rest = zip(dims[lead:], shape[extra:], strict=True)
        return all([self._bind_dim(spec, shape, dim, size) for dim, size in rest])

    def shape(self, spec: Tensor) -> tuple[Any, ...]:
        """The shape of a result; ``*T`` expands to the leading dimensions that it is bound to."""
        sizes: list[Any] = []
        for dim in spec.dims:
            if dim.leading and dim.plain in self.leading:
                sizes += self.leading[dim.plain]
                continue
            if not self.settled(dim):
                raise self.unknown(spec)
            sizes.append(self.evaluate(spec, ("?",), dim))
        return tuple(sizes)

    def unknown(self, spec: Tensor) -> Error:
        """The error for a tensor with a letter that no argument of this call gives."""
        dims = [dim for dim in reversed(spec.dims) if not self.settled(dim)]
        letter = next(letter for dim in dims for letter in self.open(dim))
        return _error(
            ArgumentError, self.op.form, spec.name, "has an unknown size",
            f"an argument that gives {letter}", "none",
        )  # fmt: skip


def _dtypes_of(spec: Tensor, tensors: dict[int, Any], scalars: dict[int, Any]) -> list[Any]:
    """The dtypes that a tensor may have: the one that a scalar chooses, or else all allowed."""
    chosen = scalars.get(spec.dtype_scalar) if spec.dtype_scalar >= 0 else None
    if chosen is not None:
        return [chosen]
    names = set(spec.dtypes)
    if spec.like >= 0 and spec.like not in tensors:
        names.update(spec.like_absent)
    allowed = [dtype for name, dtype in TORCH_DTYPES.items() if name in names]
    if spec.like in tensors:
        allowed.append(tensors[spec.like].dtype)
    order = list(TORCH_DTYPES.values())
    return sorted(allowed, key=lambda d: order.index(d) if d in order else len(order))


class _Call:
    """The arguments of one call, by position in the schema."""

    def __init__(self, operation: Operation, args: tuple[Any, ...]) -> None:
        self.op = operation
        self.tensors: dict[int, Any] = {}  # inputs, and results that were given
        self.scalars: dict[int, Any] = {}
        for (kind, index), value in zip(operation.arguments, args, strict=False):
            if kind == "scalar":
                self.scalars[index] = value
            elif value is not None:
                self.tensors[index + (operation.num_inputs if kind == "result" else 0)] = value
        if not self.tensors:
            raise _error(
                ArgumentError, operation.form, "call", "has no tensor", "one at the least", "none"
            )
        self.first = next(iter(self.tensors.values()))
        self.binder = _Binder(operation, self._sizes())

    def _sizes(self) -> dict[str, Any]:
        """The sizes of the letters that scalars give."""
        sizes: dict[str, Any] = {}
        for index, letter, default in self.op.sizes:
            size: Any = self.scalars.get(index, default)
            sizes[letter] = size
            wrong = _error(
                ArgumentError, self.op.form, letter, "has a wrong value", "a size from 0 to 2^56",
                f"the integer {size}",
            )  # fmt: skip
            if not isinstance(size, int):
                torch._check(size >= 0, partial(str, wrong))
            elif not 0 <= size <= 1 << 56:
                raise wrong
        return sizes

    def spec(self, i: int) -> Tensor:
        """A tensor by the name that callers know: results that were given are places of out."""
        spec, place = self.op.tensors[i], i - self.op.num_inputs
        if place < 0:
            return spec
        several = len(FUNCTIONS[self.op.form].results) > 1
        return spec._replace(name=f"out[{place}]" if several else "out")

    def check(self, i: int) -> bool:
        spec, tensor = self.spec(i), self.tensors[i]
        allowed = _dtypes_of(spec, self.tensors, self.scalars)
        if tensor.dtype not in allowed:
            raise _error(
                UnsupportedDtypeError, self.op.form, spec.name, "has an unsupported dtype",
                " or ".join(dict.fromkeys(map(str, allowed))), tensor.dtype,
            )  # fmt: skip
        if tensor.device != self.first.device:
            raise _error(
                DeviceError, self.op.form, spec.name, "is on another device", self.first.device,
                tensor.device,
            )  # fmt: skip
        return self.binder.bind(spec, tuple(tensor.shape))

    def _check_all(self, places: list[int]) -> None:
        """Checks tensors in order. As soon as a letter is bound, waiting tensors are checked before
        the next one: earlier tensors give the letters, later ones are checked against them."""
        waiting: list[int] = []
        for place in places:
            known = len(self.binder.sizes)
            if not self.check(place):
                waiting.append(place)
            while waiting and len(self.binder.sizes) != known:
                known = len(self.binder.sizes)
                waiting = [i for i in waiting if not self.check(i)]
        if waiting:
            raise self.binder.unknown(self.op.tensors[waiting[0]])

    def run(self) -> Any:
        op = self.op
        present = sorted(self.tensors)
        if torch.is_grad_enabled():  # it is off below a formula
            for i in present:
                if self.tensors[i].requires_grad:
                    raise grad_error(op.form, self.spec(i).name)
        self._check_all([i for i in present if i < op.num_inputs])
        for i in present:
            if i >= op.num_inputs and not self.check(i):
                raise self.binder.unknown(self.spec(i))
        results = [
            torch.empty(
                self.binder.shape(spec),
                dtype=_dtypes_of(spec, self.tensors, self.scalars)[0],
                device=self.first.device,
            )
            for spec in (op.tensors[op.num_inputs + r] for r in op.returned)
        ]
        return None if not results else results[0] if len(results) == 1 else tuple(results)


def fake_of(operation: Operation) -> Callable[..., Any]:
    """The function for torch.library.register_fake."""

    def fake(*args: Any) -> Any:
        return _Call(operation, args).run()

    return fake
