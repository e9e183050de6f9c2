"""Serialises what a callable is made of, so that different callables have different texts.

In: a user's function, partial, bound method or callable object. Out: ``text_of``, which ``_source``
hashes. Every part carries its length and every value the number of its parts, so that no two
structures give the same text; a repeated value is written as the index of its first occurrence.
Read next: _source.py.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import re
import secrets
from collections.abc import Callable, Iterator
from enum import Enum
from types import BuiltinFunctionType, CodeType, GetSetDescriptorType, ModuleType
from typing import Any, NamedTuple

from . import _named
from ._compiled import attributes, compiled

SCRIPT = "__dlblas_script__"  # what a worker calls the script that its caller runs as __main__
_PLAIN = (type(None), type(...), bool, int, float, complex, str, bytes)
_PROCESS = secrets.token_hex(8)  # in no other process's text
_TORCH = ("dtype", "device", "layout", "memory_format")
# Methods that a dataclass generates: its source and its state already determine them.
_WRITTEN = {
    "__init__", "__repr__", "__eq__", "__hash__", "__lt__", "__le__", "__gt__", "__ge__",
    "__setattr__", "__delattr__", "__replace__",
}  # fmt: skip


class _Part(NamedTuple):
    value: Any  # looked into, too


def text_of(fn: Any) -> str:
    """The text of everything readable that the function is made of: its source and byte code, what
    it wraps, its defaults and attributes, what it closes over, the arguments of a partial, the
    state and class of an object, a Triton kernel's text; for a result of torch.compile, the
    original function, the options and torch's version. Globals that it reads count by value: what
    users' files define is examined in the same way, what libraries define is only named;
    ``version=`` covers the rest. A value without a lasting text (a tensor, an open file) makes the
    text unique to this object: such a candidate is measured again in the next process, and with
    another object."""
    made = fn.func if isinstance(fn, functools.partial) else fn
    module = getattr(made, "__module__", None) or type(made).__module__
    before = _named.looking.set(_named.Looking(str(module).partition(".")[0]))
    try:
        return "".join(f"{len(word)}:{word}" for word in _words(fn))
    finally:
        _named.looking.reset(before)


def made_of(fn: Callable[..., Any], *texts: str) -> None:
    """Sets the text of this package's wrapper ``fn`` of a user's function to ``texts``."""
    fn.__dict__["_dlblas_text"] = texts


def module_of(value: Any) -> str:
    """The module's name; the same in a worker, where a script is imported under another name."""
    name = str(getattr(value, "__module__", ""))
    return "__main__" if name == SCRIPT else name


def is_kernel(fn: Any) -> bool:
    """Triton's JITFunction, or one inside @triton.autotune or @triton.heuristics."""
    return type(fn).__module__.partition(".")[0] == "triton" and hasattr(fn, "arg_names")


def _words(first: Any) -> Iterator[str]:
    # Keeps the values, not only their ids: once a value is freed, another may get its id.
    seen: dict[int, tuple[int, Any]] = {}
    left: list[str | _Part] = [_Part(first)]
    while left:
        part = left.pop()
        if isinstance(part, str):
            yield part
            continue
        value = part.value
        if type(value) is _named.Name:
            yield f"name {value}"
            continue
        if type(value) in _PLAIN:
            yield _plain(value)
            continue
        if id(value) in seen:
            yield f"again {seen[id(value)][0]}"
            continue
        if not _is_flat(value):  # of equal constants, Python may or may not make one
            seen[id(value)] = len(seen), value
        parts = _parts(value)
        yield f"{_name_of(type(value))} {len(parts)}"
        left += reversed(parts)


def _is_flat(value: Any) -> bool:
    return type(value) is tuple and all(type(item) in _PLAIN for item in value)


def _plain(value: Any) -> str:
    # Hexadecimal, because Python limits the decimal text of an integer to 4300 digits.
    return f"{type(value).__name__} {hex(value) if type(value) is int else repr(value)}"


def _name_of(kind: Any) -> str:
    return f"{module_of(kind)} {kind.__qualname__}"


def _parts(value: Any) -> list[str | _Part]:
    """The texts and values that a value is made of."""
    kind = type(value)
    if inspect.isfunction(value):
        return _function(value)
    if is_kernel(value):
        return _kernel(value)
    if isinstance(value, CodeType):
        return _code(value)
    if kind is functools.partial:
        return [_Part(value.func), _Part(value.args), _Part(value.keywords), _Part(vars(value))]
    if inspect.ismethod(value):
        return [_Part(value.__func__), _Part(value.__self__)]
    if isinstance(value, type):
        return [_name_of(value), *(_class(value) if _looked_into(value) else ())]
    if isinstance(value, ModuleType):
        return [value.__name__]
    if kind is functools._lru_cache_wrapper:
        return [_Part(value.__wrapped__)]
    if hasattr(kind, "__get__") and _named.is_library(kind):
        held = (getattr(value, name, None) for name in ("func", "fget", "fset", "fdel"))
        return [getattr(value, "__name__", ""), *(_Part(part) for part in held)]
    if isinstance(value, re.Pattern):
        return [_Part(value.pattern), str(value.flags)]
    if isinstance(value, BuiltinFunctionType):  # "x".join is another one than "y".join
        return [f"{module_of(value)} {value.__qualname__}", _Part(value.__self__)]
    if isinstance(value, Enum):
        return [str(value._name_), _Part(value._value_)]
    if kind.__module__ == "torch" and kind.__name__ in _TORCH:
        return [repr(value)]
    if kind.__module__ == "numpy" or kind.__module__.startswith("numpy.dtypes"):
        return _numpy(value)
    return _contents(value)


def _function(fn: Any) -> list[str | _Part]:
    if "_dlblas_text" in vars(fn):
        return list(vars(fn)["_dlblas_text"])
    if (made := compiled(fn)) is not None:
        how = "torch.compiler.disable" if made.disabled else "torch.compile"
        return [how, _Part(made.words), _Part(attributes(fn)), _Part(made.fn)]
    # Takes the source of the code object: for a function, inspect would show the one that it wraps.
    # Takes source and byte code: two lambdas on one line have the same source, and a file may have
    # been edited since its import.
    held = (fn.__code__, fn.__defaults__, fn.__kwdefaults__, attributes(fn))
    found = (word for name, value in _named.found_by(fn) for word in (name, _Part(value)))
    return [_source(fn.__code__), *map(_Part, held), *_cells(fn), *found]


def _kernel(kernel: Any) -> list[str | _Part]:
    """Its text, its wrappers and, if Triton provides one, a digest of everything that it calls."""
    around: list[str | _Part] = []
    while hasattr(kernel, "fn") and not hasattr(kernel, "src"):
        configs = [vars(config) for config in getattr(kernel, "configs", ())]
        around += _Part(configs), _Part(getattr(kernel, "values", None))
        kernel = kernel.fn
    return [*around, *(str(getattr(kernel, name, "")) for name in ("src", "cache_key"))]


def _cells(fn: Any) -> Iterator[str | _Part]:
    for cell in fn.__closure__ or ():
        try:
            yield _Part(cell.cell_contents)
        except ValueError:  # a name that has no value yet
            yield "empty"


def _code(code: CodeType) -> list[str | _Part]:
    """Without line numbers and file: a function that is moved keeps its text."""
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    tables = getattr(code, "co_exceptiontable", b"")
    return [_Part(part) for part in (code.co_code, tables, names, counts, code.co_consts)]


def _source(what: Any) -> str:
    try:
        return inspect.getsource(what)
    except (OSError, TypeError):  # made in a shell
        return ""


def _numpy(value: Any) -> list[str | _Part]:
    if "dtype" in (kind.__name__ for kind in type(value).__mro__):
        return [repr(value)]
    if type(value).__name__ == "ufunc":
        return [value.__name__]
    if not hasattr(value, "tobytes"):
        return _own(value)
    facts = f"{value.dtype!r} {value.shape}"
    if value.dtype.hasobject:  # its bytes are addresses
        return [facts, _Part(value.tolist())]
    return [facts, hashlib.sha256(value.tobytes()).hexdigest()]


def _contents(value: Any) -> list[str | _Part]:
    """The parts of a container or of a callable object."""
    kind = type(value)
    if isinstance(value, (slice, range)):
        return [_Part(part) for part in (value.start, value.stop, value.step)]
    if kind in (set, frozenset) and all(map(_is_constant, value)):
        return [*sorted("".join(_words(item)) for item in value)]
    base: Any = next(b for b in (dict, list, tuple, object) if isinstance(value, b))
    whole = _is_called(kind) or not _named.is_library(kind)
    if kind.__module__ == "collections" and base is dict:
        return [_Part(part) for item in dict.items(value) for part in item]
    if not _adds_nothing(kind, base) or (base is object and not whole):
        return _own(value)
    parts: list[str | _Part] = [_Part(kind)] if whole else []
    if base is dict:
        parts += (_Part(part) for item in dict.items(value) for part in item)
    elif base is not object:
        parts += map(_Part, base.__iter__(value))
    return [*parts, _Part(vars(value))] if hasattr(value, "__dict__") else parts


def _own(value: Any) -> list[str | _Part]:
    """For a value without a lasting text: unique to this object, and to a tensor's version."""
    try:
        version = value._version
    except (AttributeError, RuntimeError):  # no tensor, or one for inference
        version = ""
    return [_PROCESS, str(_named.serial_of(value)), str(version)]


def _is_constant(value: Any) -> bool:
    kind = type(value)
    return kind in _PLAIN or (kind in (tuple, frozenset) and all(map(_is_constant, value)))


def _adds_nothing(kind: Any, base: Any) -> bool:
    """Whether all state beyond that of ``base`` is in ``__dict__``: no slots, no fields in C."""
    words = (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
    size = base.__basicsize__ + words * tuple.__itemsize__
    return bool(kind.__basicsize__ == size and kind.__itemsize__ == base.__itemsize__)


def _is_called(kind: Any) -> bool:
    return inspect.isfunction(vars(kind).get("__call__"))


def _looked_into(kind: type) -> bool:
    """Whether a class is examined, not only named: one from a function may hold its arguments."""
    local = "<locals>" in kind.__qualname__
    return local or _is_called(kind) or not _named.is_library(kind)


def _class(kind: type) -> Iterator[str | _Part]:
    """The source and attributes of a class and its bases; a library's class by name only."""
    for base in kind.__mro__:
        yield _name_of(base)
        if _named.is_library(base):
            continue
        yield _source(base)
        for name, held in vars(base).items():
            if not _is_beside(base, name, held):
                yield name
                yield _Part(_unbound(held))


def _is_beside(kind: type, name: str, held: Any) -> bool:
    """Whether Python keeps this attribute in a class for its own use."""
    if name.startswith("__") and (isinstance(held, GetSetDescriptorType) or not _binds(held)):
        return True
    return name == "_abc_impl" or (dataclasses.is_dataclass(kind) and name in _WRITTEN)


def _binds(held: Any) -> bool:
    return hasattr(held, "__get__")


def _unbound(held: Any) -> Any:
    if isinstance(held, (staticmethod, classmethod)):
        return held.__func__
    return (held.fget, held.fset, held.fdel) if type(held) is property else held
