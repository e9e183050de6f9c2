"""Python functions as implementations: which arguments they take, and the call itself.

A function is called with keyword arguments, those that it declares: the operator's tensors and
scalars, results to write into, knobs and letters. A problem with an optional tensor or key scalar
that the function does not declare is refused, and the refusal names it. Read next: _register.py,
_arrays.py.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from .._nested import Nested
from .._text import cut
from . import _arrays
from ._problem import Operator, Problem, operator
from ._space import Knobs, read_space
from ._words import refuse

Supports = Callable[[Problem], Any]
_MAX_WORDS = 2000  # characters of an exception that a failure's record keeps


class Signature(NamedTuple):
    """Which arguments of a call a callable takes."""

    names: tuple[str, ...]  # ours, in schema order: tensors, scalars, letters, knobs
    untaken: tuple[str, ...]  # optional tensors and key scalars that a problem may not have
    needed: tuple[str, ...] = ()  # usual tensors that a problem must have: declared without None


def declared_by(op: str, fn: Callable[..., Any], argument: str) -> tuple[dict[str, bool], bool]:
    """Each parameter → whether it is required; and whether ``fn`` takes any other keyword."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return {}, True  # a builtin without a signature: gets everything
    kinds = inspect.Parameter
    rest = any(p.kind is kinds.VAR_KEYWORD for p in parameters)
    for p in parameters:
        if p.kind is kinds.POSITIONAL_ONLY:
            raise refuse(
                op, argument, f"takes {p.name} by position only", "parameters by name", p.name,
                "wrap it in a function",
            )  # fmt: skip
    named = {
        p.name: p.default is kinds.empty
        for p in parameters
        if p.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)
    }
    return named, rest


def bind(op: Operator, fn: Callable[..., Any], knobs: Knobs) -> Signature:
    declared, rest = declared_by(op.name, fn, "fn")
    return match(op, knobs, declared, rest, "fn")


def match(
    op: Operator, knobs: Knobs, declared: dict[str, bool], rest: bool, argument: str
) -> Signature:
    """Matches declared names with the operator's; raises an error that explains a mismatch."""
    every = (*op.tensors, *op.scalars, *op.letters, *knobs.domains)
    twice = set(knobs.domains) & {*op.tensors, *op.scalars, *op.letters}
    if twice:
        raise refuse(
            op.name, "space", "names a knob like an argument", "other names",
            ", ".join(sorted(twice)), "rename it",
        )  # fmt: skip
    for name, needed in declared.items():
        if needed and name not in every:
            raise refuse(
                op.name, argument, "takes an argument that is not there", ", ".join(every), name,
                "give it a default, or add it to space",
            )  # fmt: skip
    missing = _needed(op, knobs) if not rest else ()
    for name in missing:
        if name not in declared:
            raise refuse(
                op.name, argument, f"does not take {name}", ", ".join(missing),
                ", ".join(declared) or "nothing", "it is called by name with each of these",
            )  # fmt: skip
    # **kwargs receives all arguments except letters, which must be declared by name.
    taken = [n for n in every if n in declared or (rest and n not in op.letters)]
    untaken = [n for n in (*op.optional, *op.keys) if n not in taken]
    always = [n for n in op.inputs if n in op.usual and n in taken and declared.get(n, True)]
    return Signature(tuple(taken), tuple(untaken), tuple(always))


def _needed(op: Operator, knobs: Knobs) -> tuple[str, ...]:
    """Required inputs, scalars outside the key or without a default, results, knobs."""
    inputs = [n for n in op.inputs if n not in op.optional]
    scalars = [n for n in op.scalars if n not in op.keys or n in op.required]
    return (*inputs, *scalars, *op.results, *knobs.domains)


def _refusal(answer: Any) -> str:
    """The reason in a predicate's answer; "" for yes."""
    if answer is None or answer is True:
        return ""
    return answer if isinstance(answer, str) else "its supports() said no without a reason"


def supports_of(
    op: Operator, signature: Signature, own: Supports | None, contiguous: bool = False
) -> Callable[[tuple[Any, ...]], str | None] | None:
    """The predicate that the library calls: first what the signature rules out, then the user's."""
    may_lack = bool(op.usual and signature.names)  # the library refuses where no one is asked
    if own is None and not signature.untaken and not contiguous and not may_lack:
        return None

    asked = Nested()

    def ask(row: tuple[Any, ...]) -> str | None:
        problem = Problem(op, row)
        for name in signature.untaken:
            if name in problem.dtypes or problem.scalars.get(
                name, op.keys.get(name)
            ) != op.keys.get(name):
                return f"takes no {name}"
        for name in signature.needed:
            if name not in problem.dtypes:
                return f"needs {name}: it has no default"
        for name, layout in problem.layouts.items() if contiguous else ():
            if layout != "contiguous":
                return f"reads contiguous tensors only, and {name} is {layout}"
        if own is None:
            return None
        with asked as fine:
            return _answer(op, own, problem) if fine else "its supports() asks about itself"

    return ask


def _answer(op: Operator, own: Supports, problem: Problem) -> str | None:
    if why := _refusal(own(problem)):
        return why
    for other in problem.of_other_sizes(op):  # one decision serves them all
        if why := _refusal(own(other)):
            sizes = ", ".join(f"{name} = {other.letters[name]}" for name in sorted(op.bucketed))
            return f"{why} (asked for {sizes}, whose decision this is too)"
    return None


def words_of(error: Exception) -> str:
    """The error, and the file and line that raised it."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = f" ({last[0].filename}:{last[0].lineno})" if last else ""
    return f"{type(error).__name__}: {cut(str(error), _MAX_WORDS)}{where}"


def _picks(names: Iterable[str], wanted: tuple[str, ...]) -> list[tuple[str, int]]:
    return [(name, i) for i, name in enumerate(names) if name in wanted]


def step_of(
    op: Operator, fn: Callable[..., Any], signature: Signature, knobs: Knobs, torch: bool
) -> Callable[..., str | None]:
    """The function that the library calls; it returns None, or the text of a failure."""
    tensors = _picks(op.tensors, signature.names)
    scalars = _picks(op.scalars, signature.names)
    letters = _picks(op.letters, signature.names)
    read = _arrays.read_torch if torch else _arrays.read_numpy
    fixed = tuple(n in op.inputs and n not in op.written for n in op.tensors)
    decode, plain = knobs.decode, not knobs.domains

    def step(
        rows: Any, values: Any, sizes: Any, codes: Any, stream: int, threads: int, token: Any
    ) -> str | None:
        try:
            views = read(rows, fixed, token)
            named = {name: views[i] for name, i in tensors}
            for name, i in scalars:
                named[name] = values[i]
            for name, i in letters:
                named[name] = sizes[i]
            if not plain:
                named.update(decode(codes))
            device = next(v for v in views if v is not None).device if torch else None
            gpu = device is not None and device.type == "cuda"
            side = _arrays.on_stream(stream, device) if gpu else None
            if side is None:
                fn(**named)
            else:
                with side:
                    fn(**named)
        except Exception as error:
            return words_of(error)
        return None

    return step


def torch_step(op: str, fn: Callable[..., Any]) -> Callable[..., str | None]:
    """The function that the library calls for one of torch's own: tensors are torch's, no knobs."""
    facts, knobs = operator(op), read_space(op, None)
    return step_of(facts, fn, bind(facts, fn, knobs), knobs, torch=True)
