"""Calls that an operator's own form does not take: those in the code of DLBlas users (adapters in
ops/<family>/api.py), those with several leading dimensions in place of one of tokens (_leading.py)
or over another dimension (_over_dim.py), and those on tensors that autograd tracks or that have no
memory, with other arguments that torch does not read as given.

In: a call that the library has refused or, for the older forms, one that torch.compile sees. Out:
its result, or None, and the refusal stands. A call in the operator's own form never gets here. Read
next: kernels/, bindings/python/init.cpp, bindings/python/torch.cpp (take).
"""

from __future__ import annotations

import functools
import sys
from operator import index, is_not
from typing import Any

from . import _leading, _over_dim
from ._functions import FUNCTIONS, native
from ._hooks import has_memory, older_forms, other_forms
from ._torch_bridge import attach_torch


def _read(kind: str, value: Any) -> Any:
    """A NumPy scalar, a number of a subclass or a tensor without dimensions as Python's own
    number."""
    cls = type(value)
    try:
        if kind == "float" and cls not in (float, int, bool) and hasattr(cls, "__float__"):
            return float(value)
        if kind == "int" and cls not in (int, bool) and hasattr(cls, "__index__"):
            return index(value)
        if kind == "bool" and (cls.__module__ == "numpy" or (cls is int and value in (0, 1))):
            return bool(value)
    except Exception:  # of several elements, or a foreign object's own
        pass
    return value


def _of_torch(name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Routes tensors that autograd tracks, and tensors without memory (fake or meta), through
    torch's operators, if torch can read the other arguments. If it cannot, the library's refusal
    would name the first such tensor, not the real fault: so the call is repeated with numbers and
    dtypes that torch reads, and, if gradients are needed, a wrong name, value or shape is refused
    as without them."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "is_grad_enabled"):
        return None
    given = (*args, *named.values())
    tensors = [value for value in given if isinstance(value, torch.Tensor)]
    followed = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    present = all(has_memory(torch, tensor) for tensor in tensors)
    if present and not followed:
        return None
    function = FUNCTIONS[name]
    if any(isinstance(value, (torch.SymInt, torch.SymFloat)) for value in given):
        if attach_torch():
            return None
        from .torch._compile import traceable

        return traceable(function)(*args, **named)  # an index would make a constant of it
    kinds = {p.name: p.kind for p in function.params}
    read = tuple(map(_read, (*kinds.values(), *[""] * len(args)), args))  # there may be too many
    more = {key: _read(kinds.get(key, ""), value) for key, value in named.items()}
    places = tuple(kinds)[: len(args)]
    if len(places) == len(args) and not named.keys() & {*places} and not attach_torch():
        from .torch._arguments import reader

        more = reader(function)({**dict(zip(places, read, strict=True)), **more})
        read = tuple(more.pop(key) for key in places)
    if any(map(is_not, (*read, *more.values()), given)):
        return function.call(*read, **more)
    if followed and present:
        native["explain"](name, args, named, 1)
    return None


def _refused(name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    older = older_forms.get(name)
    result = None if older is None else older(args, named)
    return _of_torch(name, args, named) if result is None else result


older_forms.update({**_over_dim.FORMS, **{name: _leading.form(name) for name in _leading.TOKENS}})
other_forms.update({name: functools.partial(_refused, name) for name in FUNCTIONS})
