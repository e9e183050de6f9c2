"""Registers every operator with torch, once a process: kernels and schemas in C++, fakes and
gradients here, and then the callables that ``dlblas.x()`` uses on torch tensors.

In: the registry, and AUTOGRAD of ops/<family>/<family>.py. Out: torch.ops.dlblas.*. Nothing here
names an operator. Read next: bindings/torch/register.cpp, _fakes.py, _autograd.py, _compile.py.
"""

from __future__ import annotations

import threading
from collections.abc import Container, Iterable
from importlib import import_module
from typing import Any, NamedTuple

import torch

from .. import _dims, _native
from ..errors import Error


class Tensor(NamedTuple):
    """One tensor of an operator's schema."""

    name: str
    dims: tuple[_dims.Dim, ...]
    dtypes: tuple[str, ...]
    like: int  # the tensor whose dtype is also allowed, or -1
    like_absent: tuple[str, ...]  # allowed instead where that tensor is absent
    dtype_scalar: int  # the scalar that decides a result's dtype when it is given, or -1
    optional: bool


class Operation(NamedTuple):
    """One operator of torch's."""

    name: str  # "x_out"
    schema: str
    form: str  # the function of dlblas that it serves: "x"
    operator: str
    arguments: tuple[tuple[str, int], ...]  # ("tensor" | "result" | "scalar", index in the schema)
    sizes: tuple[tuple[int, str, int | None], ...]  # scalars that give a letter: its name, default
    tensors: tuple[Tensor, ...]  # inputs, then results
    num_inputs: int
    returned: tuple[int, ...]  # which results a call makes
    writes: bool
    refuses_grad: bool  # its kernel does, of tensors that require grad in grad mode

    @property
    def num_returned(self) -> int:
        return len(self.returned)


def _tensor(row: tuple[Any, ...]) -> Tensor:
    made = Tensor(*row)
    read = tuple(_dims.of_tuple(dim) for dim in made.dims)
    return made._replace(dims=read, optional=bool(made.optional))


def _operation(row: tuple[Any, ...]) -> Operation:
    made = Operation(*row)
    read = tuple(_tensor(tensor) for tensor in made.tensors)
    return made._replace(
        tensors=read, writes=bool(made.writes), refuses_grad=bool(made.refuses_grad)
    )


OPERATIONS: dict[str, Operation] = {}
"""Every operation that torch has of us, by name."""

_library: Any = torch.library.Library("dlblas", "FRAGMENT")  # type: ignore[no-untyped-call]
_lock = threading.RLock()
_state: str | None = None  # None: not tried yet; empty: done; else why not


def _declarations() -> dict[str, Any]:
    """Operator -> how it is differentiated, out of the families' files."""
    found: dict[str, Any] = {}
    functions = _native.FUNCTIONS.values()
    for family in dict.fromkeys(name for f in functions for name in (f.family, f.operator)):
        try:
            module = import_module(f"dlblas.ops.{family}")
        except ModuleNotFoundError:  # a family need not have a Python file
            continue
        found.update(getattr(module, "AUTOGRAD", {}))
    return found


def operator(name: str) -> Any:
    """torch.ops.dlblas.<name>, its one overload."""
    return getattr(torch.ops.dlblas, name).default


def _builtin(name: str) -> Any:
    return operator(name)._op  # what the overload's __call__ calls: 0.1 µs less


def _row(form: str, functions: dict[str, Any]) -> tuple[Any, ...]:
    """(form, plain, formula or None, autograd's Function or None, out or None): what the data plane
    calls; see bindings/python/torch.cpp."""
    grad = functions.get(form)
    out = form + "_out"
    return (
        form,
        _builtin(f"_{form}" if grad else form),
        _builtin(form) if grad else None,
        grad,
        _builtin(out) if out in OPERATIONS else None,
    )


def _samples() -> tuple[torch.Tensor, ...]:
    """Some tensors, out of which the data plane learns where torch's objects keep the rest."""
    try:
        plain, leaf = torch.empty(1), torch.empty(1, requires_grad=True)
        return plain, leaf, torch.nn.Parameter(plain), plain[:0]
    except RuntimeError:  # inside a transform of torch.func, which makes no leaf
        return ()


def _skip_autograd(operations: Iterable[Operation], differentiable: Container[str]) -> None:
    """Operations without a formula go past autograd's own fallback, which would only warn in
    backward() of what our kernels refuse at the call: 0.1 to 0.3 µs less, of 2.3 in all."""
    for operation in operations:
        if operation.refuses_grad and operation.name not in differentiable:
            _library.impl(operation.name, torch.library.fallthrough_kernel, "Autograd")


def _register() -> None:
    from . import _autograd, _compile, _fakes

    declarations = _declarations()
    rows = _native.plane["torch_register"](tuple(declarations))
    new = {operation.name: operation for operation in map(_operation, rows)}
    OPERATIONS.update(new)
    for operation in new.values():
        torch.library.register_fake(f"dlblas::{operation.name}", _fakes.fake_of(operation))
    _autograd.register(declarations)
    _skip_autograd(new.values(), declarations)
    transform = getattr(torch._C._functorch, "peek_interpreter_stack", lambda: None)
    forward = torch.autograd.forward_ad
    facts = (
        torch.Tensor,
        torch.nn.Parameter,
        torch.dtype,
        transform,
        vars(forward),
        forward.unpack_dual,
        _samples(),
    )
    forms = dict.fromkeys(operation.form for operation in new.values())
    _native.plane["torch_attach"](facts, tuple(_row(form, _autograd.FUNCTIONS) for form in forms))
    _compile.register()


def extend() -> None:
    """Operators that were registered since: they have no gradient of ours."""
    from . import _autograd, _compile, _fakes

    with _lock:
        if _state != "":
            return  # torch cannot have them, or gets all of them later
        rows = _native.plane["torch_register"](())
        new = {operation.name: operation for operation in map(_operation, rows)}
        OPERATIONS.update(new)
        for operation in new.values():
            torch.library.register_fake(f"dlblas::{operation.name}", _fakes.fake_of(operation))
        _skip_autograd(new.values(), ())
        forms = dict.fromkeys(operation.form for operation in new.values())
        rows = tuple(_row(form, _autograd.FUNCTIONS) for form in forms)
        _native.plane["torch_attach"]((), rows)
        _compile.extend(forms)


def attach() -> str:
    """Empty, or in words why this torch cannot have the operators."""
    global _state
    with _lock:
        if _state is None:
            _state = ""  # what follows may come back here
            try:
                _register()
            except Error as reason:
                _state = str(reason)
        return _state
