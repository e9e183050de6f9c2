"""Errors for calls with wrong arguments: they give the nearest argument name, or the type that an
argument should have.

In: a function, or a class through its ``__init__``. Out: ``hinted``, the same callable, which
raises the library's errors. Used by: the public API that is written in Python. Read next:
errors.py, _made_of.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from operator import index
from typing import Any, NamedTuple, TypeVar, cast

from ._dtypes import name_of
from .errors import ArgumentError, ArgumentTypeError, Error, ShapeMismatchError

_Called = TypeVar("_Called", bound=Callable[..., Any])

# An argument's name in other libraries -> its possible name here.
SYNONYMS = {
    "is_causal": "causal", "softmax_scale": "scale", "sm_scale": "scale", "scaling": "scale",
    "window_size": "window", "sliding_window": "window", "logits_soft_cap": "softcap",
    "attn_mask": "bias", "attn_bias": "bias", "block_table": "page_table",
    "block_tables": "page_table", "context_lens": "seq_lens", "cache_seqlens": "seq_lens",
    "input": "x", "hidden_states": "x", "epsilon": "eps", "act": "activation", "axis": "dim",
    "generator": "seed", "lse": "return_lse", "return_softmax_lse": "return_lse",
}  # fmt: skip


def not_bound(
    name: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    named: Mapping[str, Any],
    first: int = 0,
) -> Error | None:
    """The error for arguments that do not bind to the function's parameters; None if they bind.

    ``first``: the number of leading parameters that callers do not pass and ``args`` lacks:
    ``self``.
    """
    from inspect import Parameter, signature

    params = [
        p.replace(annotation=p.empty) for p in [*signature(function).parameters.values()][first:]
    ]
    listed = signature(function).replace(parameters=params, return_annotation=Parameter.empty)
    remedy = f"the signature is {name}{listed}"
    refuse = ArgumentTypeError.from_library
    by_place = [p for p in params if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    by_name = [p.name for p in params if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    kinds = {p.kind for p in params}
    for given in named:
        if given in by_name or Parameter.VAR_KEYWORD in kinds:
            continue
        known = ", ".join(by_name) or "none"
        expected = f"one of {known}" if len(by_name) > 1 else known
        meant = SYNONYMS.get(given, "")
        hint = f"; did you mean {meant}?" if meant in by_name else ""
        return refuse(
            f"{name}: {given} is not an argument; expected {expected}, got {given}{hint}",
            name, given, expected, given,
        )  # fmt: skip
    if len(args) > len(by_place) and Parameter.VAR_POSITIONAL not in kinds:
        expected, got = f"at most {len(by_place)}", str(len(args))
        return refuse(
            f"{name}: call has too many positional arguments; expected {expected}, got {got}; "
            f"{remedy}",
            name, "call", expected, got,
        )  # fmt: skip
    for p in by_place[: len(args)]:
        if p.name in named and p.kind is not p.POSITIONAL_ONLY:
            return refuse(
                f"{name}: {p.name} is given twice; expected one value, got two; {remedy}",
                name, p.name, "one value", "two",
            )  # fmt: skip
    filled = {p.name for p in by_place[: len(args)]} | ({*named} & {*by_name})
    missing = [
        p.name for p in params
        if p.default is p.empty and p.name not in filled
        and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]  # fmt: skip
    if missing:
        return refuse(
            f"{name}: {' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing; "
            f"expected a value, got nothing; {remedy}",
            name, missing[0], "a value", "nothing",
        )  # fmt: skip
    return None


class _Given(NamedTuple):
    """An argument of a call."""

    name: str
    value: Any
    kind: str  # its annotation without "| None"
    may_be_none: bool
    needed: bool  # it has no default

    @property
    def got(self) -> str:
        return "None" if self.value is None else type(self.value).__name__


def _given(
    function: Callable[..., Any], args: tuple[Any, ...], named: Mapping[str, Any], first: int
) -> list[_Given]:
    from inspect import signature

    params = dict([*signature(function).parameters.items()][first:])
    found = []
    for name, value in {**dict(zip(params, args, strict=False)), **named}.items():
        if name not in params:  # of **named
            continue
        p = params[name]
        annotation = str(p.annotation)
        kind, needed = annotation.removesuffix(" | None"), p.default is p.empty
        may_be_none = kind != annotation or p.default is None or (kind == "Any" and not needed)
        found.append(_Given(name, value, kind, may_be_none, needed))
    return found


def of_another_type(
    op: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    named: Mapping[str, Any],
    reason: Exception,
    first: int = 0,
) -> Error | None:
    """The error for the argument that caused one of Python's own errors: its type contradicts its
    annotation, or it is not an array and was used as one. None if there is no such argument: the
    error has another cause. ``first``: as in ``not_bound``."""
    given = _given(function, args, named, first)
    refuse = ArgumentTypeError.from_library
    for one in given:
        expected, holds = _NEEDS.get(one.kind, ("", _is_any))
        if expected and not (one.may_be_none if one.value is None else holds(one.value)):
            return refuse(
                f"{op}: {one.name} is of another type; expected {expected}, got {one.got}",
                op, one.name, expected, one.got,
            )  # fmt: skip
    for one in given:
        if isinstance(reason, OverflowError) and one.kind in ("int", "float") and _is_long(one):
            expected, got = "a number of 64 bits", "an integer beyond 2^63"
            return ArgumentError.from_library(
                f"{op}: {one.name} is too large; expected {expected}, got {got}",
                op, one.name, expected, got,
            )  # fmt: skip
    arrays = [one for one in given if one.kind in _ARRAYS]
    for one in arrays:
        expected = _ARRAYS[one.kind]
        if one.value is None and not one.may_be_none:
            return refuse(
                f"{op}: {one.name} is missing; expected {expected}, got None",
                op, one.name, expected, "None",
            )  # fmt: skip
    there = [one for one in arrays if one.value is not None]
    asked = getattr(reason, "obj", None) if isinstance(reason, AttributeError) else None
    for one in there:
        if one.value is asked or not _answers(one.value, one.needed):
            return _no_array(op, one)
    for one in there:  # plain values: operators have words for them, what slices an array has not
        if one.needed and isinstance(one.value, _PLAIN) and isinstance(reason, TypeError):
            return _no_array(op, one)
    return _of_another_form(op, given, reason)


# Annotation of an array argument -> the expected type, in words.
_ARRAYS = {"Any": "a torch tensor or a NumPy array", "torch.Tensor": "a torch tensor"}
_PLAIN = (bool, int, float, complex, list, tuple)


def _no_array(op: str, one: _Given) -> Error:
    """The error for a value that is not an array, or whose array type lacks what the function
    needs."""
    expected, problem = _ARRAYS[one.kind], "has no shape, strides or dtype to read"
    convert = "from_dlpack" if hasattr(type(one.value), "__dlpack__") else "asarray"
    remedy = f"numpy.{convert}"
    if type(one.value).__module__ == "numpy":
        expected, problem, remedy = "a torch tensor", "is a NumPy array", "torch.from_numpy"
    elif expected == "a torch tensor":
        remedy = "torch.as_tensor"
    return ArgumentTypeError.from_library(
        f"{op}: {one.name} {problem}; expected {expected}, got {one.got}; pass "
        f"{remedy}({one.name})",
        op, one.name, expected, one.got,
    )  # fmt: skip


def _of_another_form(op: str, given: list[_Given], reason: Exception) -> Error | None:
    """The error for a tensor that is not dense, or has no dimensions where the function needs
    some."""
    for one in given:
        layout = str(getattr(one.value, "layout", "torch.strided")).removeprefix("torch.")
        if layout != "strided":
            return ArgumentError.from_library(
                f"{op}: {one.name} is not a dense tensor; expected a strided layout, got {layout}; "
                "convert it with .to_dense()",
                op, one.name, "a strided layout", layout,
            )  # fmt: skip
    for one in given:
        if isinstance(reason, IndexError) and getattr(one.value, "shape", None) == ():
            return ShapeMismatchError.from_library(
                f"{op}: {one.name} has no dimensions; expected one or more, got ()",
                op, one.name, "one or more dimensions", "()",
            )  # fmt: skip
    return None


def _has(*methods: str) -> Callable[[Any], bool]:
    return lambda value: any(hasattr(type(value), method) for method in methods)


def _is_any(_: Any) -> bool:
    return True


def _is_integer(value: Any) -> bool:
    try:
        return index(value) is not None
    except Exception:  # whatever a foreign object raises
        return False


def _is_long(one: _Given) -> bool:
    return isinstance(one.value, int) and not -(2**63) <= one.value < 2**63


def _is_single(value: Any) -> bool:
    """False for an array of several elements, or of none."""
    shape = getattr(value, "shape", ())
    return not isinstance(shape, tuple) or all(size == 1 for size in shape)


def _is_number(value: Any) -> bool:
    return _has("__float__", "__index__")(value) and _is_single(value)


def _are_integers(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(map(_is_integer, value))


# Annotation without "| None" -> the type in words, and a check for values of that type.
_NEEDS = {
    "str": ("a string", _has("casefold")),
    "int": ("an integer", _is_integer),
    "float": ("a number", _is_number),
    "bool": ("True or False", _is_single),
    "tuple[int, int, int]": ("a tuple of integers", _are_integers),
    "Mapping[str, Any]": ("a mapping", _has("keys")),
}


def _answers(value: Any, needed: bool) -> bool:
    """Whether the value has a shape and a dtype to read, or is a possible value of an option."""
    if isinstance(value, (str, bytes, dict, type)):
        return not needed
    if isinstance(value, _PLAIN):
        return True
    try:
        if hasattr(value, "dtype") and all(index(size) >= 0 for size in value.shape):
            return True
        if callable(value) or name_of(value) is not None:
            return True
        return not needed and not any(hasattr(value, sign) for sign in _SIGNS_OF_ARRAYS)
    except Exception:  # whatever a foreign object raises
        return False


_SIGNS_OF_ARRAYS = (
    "shape", "__dlpack__", "__array__", "__array_interface__", "__cuda_array_interface__",
)  # fmt: skip


def _name_of(function: Callable[..., Any]) -> str:
    """``rms_norm``, ``FlashAttentionV2.apply``; for DLBlas's ``call``, with its module's name in
    front."""
    name = function.__qualname__
    return f"{function.__module__.rpartition('.')[2]}.{name}" if name == "call" else name


def hinted(called: _Called) -> _Called:
    """Wraps a function or class: arguments that it does not take raise ArgumentTypeError with the
    nearest name, and arguments of a wrong type an error that says so.

    A class stays the same object: its ``__init__`` is wrapped, calls of its instances are not.
    Signature, docstring and pickled name are those of the original.
    """
    cls = called if isinstance(called, type) else None
    function: Callable[..., Any] = called if cls is None else vars(cls)["__init__"]

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        try:
            return function(*args, **named)
        except Error:
            raise
        except Exception as error:
            name, values, first = _name_of(function), args, 0
            if cls is not None and args:  # a class that has its own names the arguments of its base
                own = type(args[0]) if type(args[0]).__init__ is call else cls
                name, values, first = own.__name__, args[1:], 1
            words = None
            if isinstance(error, TypeError):
                words = not_bound(name, function, values, named, first)
            if words is not None:
                raise words from None
            words = of_another_type(name, function, values, named, error, first)
            if words is None:
                raise
            raise words from error

    if cls is not None:
        cls.__init__ = call  # type: ignore[misc]
    made: Any = call if cls is None else cls
    return cast(_Called, made)
