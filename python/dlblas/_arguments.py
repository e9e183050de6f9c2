"""Words for a call whose arguments a function or class does not take: the nearest name that it has.

In: a function, or a class by its ``__init__``. Out: ``hinted``, the same with errors that are the
library's. Used by: what is public and written in Python. Read next: errors.py, _made_of.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from .errors import ArgumentTypeError, Error

_Called = TypeVar("_Called", bound=Callable[..., Any])

# What other libraries call an argument -> what it may be called here.
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
    """Words for a call whose arguments are not those of the function; None where they are.

    ``first``: parameters in front that ``args`` lacks and nobody writes: ``self``."""
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


def _name_of(function: Callable[..., Any]) -> str:
    """``rms_norm``, ``FlashAttentionV2.apply``; DLBlas's ``call`` with its module's name."""
    name = function.__qualname__
    return f"{function.__module__.rpartition('.')[2]}.{name}" if name == "call" else name


def hinted(called: _Called) -> _Called:
    """The function or class; a call with arguments that it does not take is an ArgumentTypeError
    with the nearest name.

    A class stays the one that it is: the ``__init__`` that it has is wrapped, calls of its
    instances are not. Signature, documentation and pickled name are those of what is wrapped."""
    cls = called if isinstance(called, type) else None
    function: Callable[..., Any] = called if cls is None else vars(cls)["__init__"]

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        try:
            return function(*args, **named)
        except TypeError as error:
            if isinstance(error, Error):
                raise
            if cls is None or not args:
                words = not_bound(_name_of(function), function, args, named)
            else:  # a class that has its own names the arguments of its base
                own = type(args[0]) if type(args[0]).__init__ is call else cls
                words = not_bound(own.__name__, function, args[1:], named, first=1)
            if words is None:
                raise
            raise words from None

    if cls is not None:
        cls.__init__ = call  # type: ignore[misc]
    made: Any = call if cls is None else cls
    return cast(_Called, made)
