"""Fakes out of the operators' schemas: shapes and dtypes of results, on integers and SymInts alike.

In: an operation and its arguments as torch.compile, torch.export or a meta tensor bring them. Out:
new empty tensors, or nothing where results are written. A shape that does not fit raises the error
that the kernel would. Read next: src/dispatch/validate.cpp, whose rules these are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from .. import _dtypes
from ..errors import (
    ArgumentError,
    DeviceError,
    Error,
    ShapeMismatchError,
    UnsupportedDtypeError,
)

if TYPE_CHECKING:
    from ._register import Dim, Operation, Tensor

TORCH_DTYPES: dict[str, torch.dtype] = {
    name: getattr(torch, long) for name, (_, _, long) in _dtypes.TABLE.items()
}


def _error(cls: type[Error], op: str, tensor: str, problem: str, expected: Any, got: Any) -> Error:
    message = f"{op}: {tensor} {problem}; expected {expected}, got {got}"
    return cls.from_library(message, op, tensor, str(expected), str(got))


def grad_error(op: str, argument: str) -> Error:
    """Of a tensor that requires grad where nothing would give it one, as the kernels say it."""
    return ArgumentError.from_library(
        f"{op}: {argument} requires grad; expected a tensor outside autograd, got "
        "requires_grad=True; pass it with .detach(), or call under torch.no_grad()",
        op, argument, "a tensor outside autograd", "requires_grad=True",
    )  # fmt: skip


class _Binder:
    """The letters of one call."""

    def __init__(self, operation: Operation) -> None:
        self.op = operation
        self.sizes: dict[int, Any] = {}
        self.leading: dict[int, tuple[Any, ...]] = {}

    def text(self, dim: Dim) -> str:
        letter = self.op.letters[dim.letter] if dim.letter >= 0 else ""
        if not letter:
            return str(dim.addend)
        text = ("*" if dim.leading else "") + (str(dim.coefficient) if dim.coefficient != 1 else "")
        text += letter + (f"/{dim.divisor}" if dim.divisor != 1 else "")
        return text + (f"+{dim.addend}" if dim.addend else "")

    def evaluate(self, dim: Dim) -> Any:
        if dim.letter < 0:
            return dim.addend
        size = dim.coefficient * self.sizes[dim.letter]
        if dim.divisor != 1:
            size = (size + dim.divisor - 1) // dim.divisor
        return size + dim.addend

    def require(self, condition: Any, spec: Tensor, shape: Any, expected: str) -> None:
        """Holds a condition on sizes; a symbolic one becomes a guard."""
        if not isinstance(condition, bool):
            torch._check(condition, lambda: str(self.wrong(spec, shape, expected)))
        elif not condition:
            raise self.wrong(spec, shape, expected)

    def wrong(self, spec: Tensor, shape: Any, expected: str) -> Error:
        dims = ", ".join(map(self.text, spec.dims))
        return _error(
            ShapeMismatchError, self.op.form, spec.name, f"does not fit [{dims}]", expected,
            tuple(shape),
        )  # fmt: skip

    def _bind_leading(self, spec: Tensor, shape: Any, dim: Dim, head: tuple[Any, ...]) -> None:
        known = self.leading.get(dim.letter)
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
        if dim.letter in self.sizes:
            rows = self.sizes[dim.letter]
            self.require(product == rows, spec, shape, f"{rows} rows")
        self.leading[dim.letter] = head
        self.sizes[dim.letter] = product

    def _bind_dim(self, spec: Tensor, shape: Any, dim: Dim, size: Any) -> bool:
        if dim.letter < 0 or dim.letter in self.sizes:
            wanted = self.evaluate(dim)
            self.require(size == wanted, spec, shape, f"{self.text(dim)} = {wanted}")
            return True
        if dim.divisor != 1:  # ceil(K / 128) binds nothing
            return False
        rest = size - dim.addend
        if dim.coefficient != 1:
            expected = f"a multiple of {dim.coefficient}"
            self.require(rest % dim.coefficient == 0, spec, shape, expected)
        self.sizes[dim.letter] = rest // dim.coefficient
        return True

    def bind(self, spec: Tensor, shape: tuple[Any, ...]) -> bool:
        """Binds or checks every dimension; False when one waits for its letter."""
        dims = spec.dims
        lead = 1 if dims and dims[0].leading else 0
        extra = len(shape) - len(dims) + lead  # how many dimensions `*T` stands for
        if extra < 0 or (extra > 0 and not lead):
            raise self.wrong(spec, shape, f"{len(dims) - lead} dimensions{' or more' * lead}")
        if lead:
            self._bind_leading(spec, shape, dims[0], shape[:extra])
        rest = zip(dims[lead:], shape[extra:], strict=True)
        return all([self._bind_dim(spec, shape, dim, size) for dim, size in rest])

    def shape(self, spec: Tensor) -> tuple[Any, ...]:
        """Of a result; ``*T`` expands to the leading dimensions that bound it."""
        sizes: list[Any] = []
        for dim in spec.dims:
            if dim.leading and dim.letter in self.leading:
                sizes += self.leading[dim.letter]
            else:
                sizes.append(self.evaluate(dim))
        return tuple(sizes)


def _dtypes_of(spec: Tensor, tensors: dict[int, Any], scalars: dict[int, Any]) -> list[Any]:
    """What a tensor may be, a result's own choice first."""
    chosen = scalars.get(spec.dtype_scalar) if spec.dtype_scalar >= 0 else None
    if chosen is not None:
        return [chosen]
    allowed = [dtype for name, dtype in TORCH_DTYPES.items() if name in spec.dtypes]
    if spec.like >= 0:
        allowed.append(tensors[spec.like].dtype)
    order = list(TORCH_DTYPES.values())
    return sorted(allowed, key=lambda d: order.index(d) if d in order else len(order))


class _Call:
    """The arguments of one call, by their places in the schema."""

    def __init__(self, operation: Operation, args: tuple[Any, ...]) -> None:
        self.op = operation
        self.tensors: dict[int, Any] = {}  # inputs, and results that were given
        self.scalars: dict[int, Any] = {}
        for (kind, index), value in zip(operation.arguments, args, strict=False):
            if kind == "scalar":
                self.scalars[index] = value
            elif value is not None:
                self.tensors[index + (operation.num_inputs if kind == "result" else 0)] = value
        self.first = next(iter(self.tensors.values()))
        self.binder = _Binder(operation)

    def check(self, i: int) -> bool:
        spec, tensor = self.op.tensors[i], self.tensors[i]
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

    def run(self) -> Any:
        op = self.op
        present = sorted(self.tensors)
        if torch.is_grad_enabled():  # it is off below a formula
            for i in present:
                if self.tensors[i].requires_grad:
                    raise grad_error(op.form, op.tensors[i].name)
        waiting = [i for i in present if i < op.num_inputs and not self.check(i)]
        for i in waiting + [i for i in present if i >= op.num_inputs]:
            self.check(i)
        results = [
            torch.empty(
                self.binder.shape(spec),
                dtype=_dtypes_of(spec, self.tensors, self.scalars)[0],
                device=self.first.device,
            )
            for spec in op.tensors[op.num_inputs :][: op.num_returned]
        ]
        return None if not results else results[0] if len(results) == 1 else tuple(results)


def fake_of(operation: Operation) -> Callable[..., Any]:
    """What torch.library.register_fake takes."""

    def fake(*args: Any) -> Any:
        return _Call(operation, args).run()

    return fake
