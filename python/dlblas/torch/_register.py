"""Registers every operator with torch, once per process: kernels and schemas in C++, fakes and
gradients here, functions made of operators, and then the callables that ``dlblas.x()`` uses on
torch tensors.

In: the registry, and AUTOGRAD of ops/<family>/<op>/<op>.py. Out: torch.ops.dlblas.*. No operator
is named here. Read next: bindings/torch/register.cpp, _fakes.py, _autograd.py, _made_of.py,
_compile.py.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Container, Iterable
from importlib import import_module
from typing import Any

import torch

from .. import _functions
from .._ranges import follow
from ..errors import Error
from . import _autograd, _compile, _fakes, _made_of, _rivals
from ._operations import OPERATIONS, Operation, operator, read_operation

_library: Any = torch.library.Library("dlblas", "FRAGMENT")  # type: ignore[no-untyped-call]
_lock = threading.RLock()
_state: str | None = None  # None: not tried yet; empty: done; else why not


def _declarations() -> dict[str, Any]:
    """Operator -> how it is differentiated, from the operators' files."""
    found: dict[str, Any] = {}
    functions = _functions.FUNCTIONS.values()
    for family in dict.fromkeys(name for f in functions for name in (f.family, f.operator)):
        try:
            module = import_module(f"dlblas.ops.{family}")
        except ModuleNotFoundError:  # neither need have a Python file
            continue
        found.update(getattr(module, "AUTOGRAD", {}))
    # A library built with only some operators (DLBLAS_OPERATORS) may lack one, or its gradient.
    have = set(_functions.FUNCTIONS)
    return {op: d for op, d in found.items() if {op, d.get("backward", op)} <= have}


def _builtin(name: str) -> Any:
    return operator(name)._op  # what the overload's __call__ calls: 0.1 µs less


def _row(form: str, functions: dict[str, Any]) -> tuple[Any, ...]:
    """(form, plain, formula or None, autograd's Function or None, out or None): what the extension
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
    """Sample tensors, from which the extension learns where torch's objects keep their state."""
    try:
        plain, leaf = torch.empty(1), torch.empty(1, requires_grad=True)
        return plain, leaf, torch.nn.Parameter(plain), plain[:0]
    except RuntimeError:  # inside a transform of torch.func, which makes no leaf
        return ()


def _skip_autograd(operations: Iterable[Operation], differentiable: Container[str]) -> None:
    """Operations without a formula bypass autograd's own fallback, which would only warn in
    backward() about what our kernels refuse at the call. This saves 0.1 to 0.3 of 2.3 µs."""
    for operation in operations:
        if operation.refuses_grad and operation.name not in differentiable:
            _library.impl(operation.name, torch.library.fallthrough_kernel, "Autograd")


def _register() -> None:
    declarations = _declarations()
    rows = _functions.native["torch_register"](tuple(declarations))
    new = {operation.name: operation for operation in map(read_operation, rows)}
    OPERATIONS.update(new)
    for operation in new.values():
        torch.library.register_fake(f"dlblas::{operation.name}", _fakes.fake_of(operation))
    _autograd.register(declarations)
    _made_of.register(_library)
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
    _functions.native["torch_attach"](
        facts, tuple(_row(form, _autograd.FUNCTIONS) for form in forms)
    )
    _compile.register()


def extend() -> None:
    """Registers operators added since; the library has no gradient for them."""
    with _lock:
        if _state != "":
            return  # torch cannot have them, or gets all of them later
        rows = _functions.native["torch_register"](())
        new = {operation.name: operation for operation in map(read_operation, rows)}
        OPERATIONS.update(new)
        for operation in new.values():
            torch.library.register_fake(f"dlblas::{operation.name}", _fakes.fake_of(operation))
        _skip_autograd(new.values(), ())
        forms = dict.fromkeys(operation.form for operation in new.values())
        rows = tuple(_row(form, _autograd.FUNCTIONS) for form in forms)
        _functions.native["torch_attach"]((), rows)
        _compile.extend(forms)


def attach() -> str:
    """Registers the operators on the first call. Returns "", or why this torch cannot have them."""
    global _state
    with _lock:
        if _state is None:
            _state = ""  # what follows may come back here
            try:
                _register()
                _rivals.register()
                os.register_at_fork(after_in_child=_compute_alone)
                follow(torch.autograd.profiler)
            except Error as reason:
                _state = str(reason)
        return _state


def _compute_alone() -> None:
    """In a forked child: torch's threads do not exist there, and a parallel region of torch would
    wait for them for ever. torch's code around our operators (a loss's mean, gradients) has such
    regions."""
    torch.set_num_threads(1)
