"""torch.compile: what its tracer substitutes for a function of dlblas, a builtin that it cannot
trace into.

Out: ``register()``. The tracer (torch._dynamo) takes a second to import, so this waits until torch
imports it, at the first torch.compile. Read next: torch.compiler.substitute_in_graph.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch

from .. import _functions
from .._after_import import after_import
from .._given import grad_error
from .._hooks import older_forms
from ._arguments import reader
from ._autograd import FUNCTIONS
from ._operations import OPERATIONS, operator

_TRACER = "torch._dynamo"


def traceable(function: _functions.Function) -> Callable[..., Any]:
    """The function in terms of torch.ops.dlblas, in Python that the tracer can follow: what
    bindings/python/torch.cpp does, without its shortcuts."""
    name, results = function.name, function.results
    names = tuple(p.name for p in function.params)
    read = reader(function)
    call = operator(name)
    write: Any = operator(name + "_out") if results else None
    # The names of the arguments that receive results.
    arguments = write._schema.arguments if write else ()
    outs = tuple(
        a.name
        for a, (kind, _) in zip(
            arguments, OPERATIONS[name + "_out"].arguments if write else (), strict=True
        )
        if kind == "result"
    )
    differentiable = name in FUNCTIONS
    other_form: Callable[..., Any] = older_forms.get(name, lambda args, kwargs: None)

    def traced(*args: Any, **kwargs: Any) -> Any:
        result = other_form(args, kwargs)
        if result is not None:
            return None if result is False else result
        given = dict(zip(names, args, strict=False))
        given.update(kwargs)
        out = given.pop("out", None) if results else None
        given = read({key: value for key, value in given.items() if value is not None})
        if out is not None:
            given.update(zip(outs, out if isinstance(out, tuple) else (out,), strict=True))
        if torch.is_grad_enabled() and (out is not None or not differentiable):
            for key, value in given.items():
                if isinstance(value, torch.Tensor) and value.requires_grad:
                    raise grad_error(name, key)
        if out is None:
            return call(**given)
        write(**given)
        return out

    return traced


def _substitute(names: Iterable[str]) -> None:
    for name in names:
        function = _functions.FUNCTIONS[name]
        torch.compiler.substitute_in_graph(function.call, skip_signature_check=True)(
            traceable(function)
        )


def extend(names: Iterable[str]) -> None:
    """Substitutes functions added later; a tracer that is not loaded yet will get all of them."""
    if _TRACER in sys.modules:
        _substitute(names)


def register() -> None:
    """Substitutes all functions: now if the tracer is loaded, else when it is imported."""
    after_import(_TRACER, lambda: _substitute(_functions.FUNCTIONS))
