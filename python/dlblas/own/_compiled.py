"""Results of torch.compile: the original function, and the options.

In: any callable. Out: a ``Compiled``, or None. What torch stores in such a function contains
addresses, which differ between processes. torch itself is never imported here. Read next: _text.py,
which makes a text of it, and _travel.py, which sends it.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from typing import Any, NamedTuple

# Attributes that torch sets on its functions, besides those that begin with _torchdynamo.
_TORCHS = ("_is_torch_compile", "_isolate_recompiles_id", "get_compiler_config", "aot_compile")


class Compiled(NamedTuple):
    fn: Any  # what it was made of
    disabled: bool  # by torch.compiler.disable
    words: tuple[Any, ...]  # values that say how, torch's version among them
    options: dict[str, Any] | None  # arguments of torch.compile that do it again; None: unknown


def compiled(fn: Any) -> Compiled | None:
    held = vars(fn) if inspect.isfunction(fn) else {}
    # functools.wraps copies the attributes to functions that are not torch's.
    if "_torchdynamo_orig_callable" not in held or not _is_torchs(fn.__globals__.get("__name__")):
        return None
    original = held["_torchdynamo_orig_callable"]
    if held.get("_torchdynamo_disable"):
        return Compiled(original, True, (), None)
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=False))
    context = cells["self"].cell_contents if "self" in cells else None
    return Compiled(original, False, *_how(context))


def attributes(fn: Any) -> dict[str, Any]:
    """A function's own attributes, without those that torch set on it or on one that it wraps."""
    held: dict[str, Any] = vars(fn)
    if "_torchdynamo_orig_callable" not in held:
        return held
    left = (n for n in held if n not in _TORCHS and not n.startswith("_torchdynamo"))
    return {name: held[name] for name in left}


def is_compiled(fn: Any) -> bool:
    """Whether it is a compiled function or module, or a partial or bound method of one."""
    while isinstance(fn, (functools.partial, types.MethodType)):
        fn = fn.func if isinstance(fn, functools.partial) else fn.__func__
    held = getattr(fn, "__dict__", None) or {}
    return "_torchdynamo_orig_callable" in held and not held.get("_torchdynamo_disable")


def _how(context: Any) -> tuple[tuple[Any, ...], dict[str, Any] | None]:
    """The words and options of ``Compiled``. The backend's configuration holds the mode, expanded
    to options."""
    chain = [getattr(context, "callback", None)]
    while len(chain) < 9 and (inner := _inner(chain[-1])) is not None:
        chain.append(inner)
    backend = chain[-1]
    name = getattr(backend, "compiler_name", None)
    made_by = getattr(backend, "compiler_fn", None)
    known = _is_torchs(getattr(made_by, "__module__", "torch"))
    hooks = next((link.hooks for link in chain if link and hasattr(link, "hooks")), None)
    filters = getattr(hooks, "guard_filter_fn", None)
    shapes = getattr(context, "_dynamic_shapes", None)
    given = dict(getattr(backend, "kwargs", {}))
    config = getattr(backend, "config", None)
    if config:
        given["options"] = dict(config)
    given["dynamic"] = getattr(backend, "dynamic", None)
    given["fullgraph"] = getattr(context, "fullgraph", None)
    kinds = tuple(type(link).__qualname__ for link in chain)
    version = str(sys.modules["torch"].__version__)
    words = (version, kinds, name, given, filters, shapes, None if known else made_by)
    if name is None:  # not torch.compile's: an object has no lasting text
        return (*words, object()), None
    again = kinds[-1] in ("_TorchCompileInductorWrapper", "_TorchCompileWrapper") and known
    if not again or filters is not None or shapes is not None or given["fullgraph"] is None:
        return words, None
    return words, {**given, "backend": name}


def _is_torchs(module: Any) -> bool:
    return str(module).partition(".")[0] == "torch"


def _inner(callback: Any) -> Any:
    """torch 2.15 uses the first of these names, older versions the second."""
    held = getattr(callback, "__dict__", None) or {}
    return held.get("_torchdynamo_orig_backend", held.get("_torchdynamo_orig_callable"))
