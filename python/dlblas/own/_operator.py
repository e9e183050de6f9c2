"""``register_operator``: a new operator from its schema and a reference.

Out: ``dlblas.<name>``; if torch is loaded, ``torch.ops.dlblas.<name>`` and ``<name>_out`` with
fakes; cases for the harness, and a row for every command. The reference is called with f64 arrays
(integers unchanged) and returns its results. Read next: bindings/c/register_operator.cpp.
"""

from __future__ import annotations

import math
import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .. import _dims, _dtypes, _functions, _native, _specs, _torch_bridge
from .._arguments import hinted
from . import _arrays, _function, _judge, _names, _source
from . import _cases as _case_rows
from ._problem import Operator, Problem, of_schema
from ._space import Knobs
from ._words import refuse, refuse_type, text_of

_NAME = re.compile(r"\s*([A-Za-z_]\w*)\s*\(")
_cases: dict[str, list[dict[str, Any]]] = {}
_announcing = threading.Lock()
_MAX_ELEMENTS = 1 << 20  # of a tensor in a default case

Bound = tuple[float, float, float]
Judged = Callable[[Any, Any, Any], Any]


@hinted
def register_operator(
    schema: str,
    reference: Callable[..., Any],
    bound: Bound | Callable[[Problem, str], Bound] | None = None,
    *,
    inplace: Iterable[str] = (),
    formula: str = "",
    cases: Iterable[Mapping[str, Any]] | None = None,
    version: str = "",
    judge: Judged | None = None,
) -> Callable[..., Any]:
    """Adds an operator; returns the function ``dlblas.<name>``.

    ``schema``: as in docs/add_an_operator.md. ``reference``: called with keyword arguments, f64
    NumPy arrays and scalars; returns one array, or a tuple in result order. It writes inputs that
    the operator writes (``!`` in the schema) in place, or returns them after the results.
    ``bound``: the allowed error of an element, as (factor of its row's largest value, factor of its
    own value, absolute term), or a function of a ``Problem`` and a result's name that returns
    these; by default derived from the schema.
    ``judge``: says which elements are wrong, if no bound can (ids with ties, permutations,
    samples): a function of the inputs, the results and the reference's results, each with its
    arrays and scalars under the schema's names. For each result it returns a bool array, True where
    an element is wrong, or the number of wrong elements. An exception is an error, not a pass.
    ``inplace``: in-place forms. ``cases``: rows as in ops/*/*/cases.json, without "op"; by default
    a few of every kind. Registering the same schema again replaces reference, bound, judge and
    cases; a different formula or in-place form is an error, leaving them out keeps them; a judge
    cannot be added or removed. Raises ArgumentError.
    """
    found = _NAME.match(schema) if isinstance(schema, str) else None
    if found is None:
        raise refuse(
            "register_operator", "schema", "is malformed", "name(x: f[*T, C], …) -> y: …",
            repr(schema), "see docs/add_an_operator.md",
        )  # fmt: skip
    name = found[1]
    if not callable(reference):
        raise refuse_type(name, "reference", "a function", reference, "pass one")
    text_of(name, "schema", schema)
    text_of(name, "formula", formula)
    texts = _forms(name, inplace)
    allowed = _source.text_of(bound) if callable(bound) else bound
    judges = () if judge is None else (_source.text_of(judge),)
    digest = _source.digest(_source.text_of(reference), allowed, version, *judges)
    facts = of_schema(schema)
    known = _functions.FUNCTIONS.get(name)
    if known is None or (known.operator, known.family) != (name, "own"):  # no repetition
        named = [("inplace", form[1]) for form in map(_NAME.match, texts) if form]
        _names.check(name, [("name", name), *named])
    rows = None if cases is None else _case_rows.read(facts, schema, cases)
    shell = _Reference(facts, reference)
    ask = None if bound is None else _Bound(facts, bound)
    says = None if judge is None else _judge.Judge(facts, judge)
    judged = len(facts.judged)
    _functions.native["own_register_operator"](
        schema, texts, formula, digest, shell, ask, judged, says
    )
    _source.note(name, _source.place_of(name))
    announce()
    made = _default_cases(facts) if rows is None else rows
    _cases[name] = [{**row, "op": name} for row in made]
    return _functions.FUNCTIONS[name].call  # type: ignore[no-any-return]


def _forms(op: str, inplace: Any) -> tuple[str, ...]:
    given = (inplace,) if isinstance(inplace, str) else inplace
    if not isinstance(given, Iterable):
        raise refuse_type(op, "inplace", "texts of in-place forms", inplace, 'write "name_(x!y)"')
    return tuple(text_of(op, "inplace", form) for form in given)


def announce() -> None:
    """Adds the functions of new operators to ``dlblas`` and to torch. On return all of them exist,
    whichever thread added them."""
    package: Any = sys.modules["dlblas"]
    with _announcing:  # no user's code runs in it, and no import of torch
        for function in _functions.add_functions(_functions.native["own_functions"]()):
            if not _names.reserved(function.name):  # a shared object's may be
                setattr(package, function.name, function.call)
                package.__all__ += [function.name]
    if hasattr(sys.modules.get("torch"), "library"):  # as after `import dlblas`
        _torch_bridge.attach_torch()
        register = sys.modules.get("dlblas.torch._register")
        if register is not None:  # else torch is too old
            register.extend()


@hinted
def cases(op: str, use: str | None = None) -> list[dict[str, Any]]:
    """The harness's rows of the registered operator ``op``; only those of ``use``, if given."""
    return [row for row in _cases.get(op, []) if use is None or use in row["use"]]


class _Reference:
    """The callable that gives the library the oracle's values of some rows."""

    def __init__(self, facts: Operator, fn: Callable[..., Any]) -> None:
        self._facts, self._fn = facts, fn
        declared, rest = _function.declared_by(facts.name, fn, "reference")
        given = facts._replace(results=(), letters=())  # sizes are its arrays'
        no_knobs = Knobs(facts.name, {})
        self._names = _function.match(given, no_knobs, declared, rest, "reference").names

    def __call__(
        self, rows: Any, scalars: Any, address: int, count: int, values: Any, magnitudes: Any
    ) -> str | None:
        try:
            facts = self._facts
            made = self._run(rows, scalars)
            there = dict(zip(facts.tensors, rows, strict=True))
            judged = [(name, there[name]) for name in facts.judged]
            _write(judged, made, (address, count), values, magnitudes)
        except Exception as error:
            return _function.words_of(error)
        return None

    def _run(self, rows: Any, scalars: Any) -> list[Any]:
        import numpy as np

        facts = self._facts
        named: dict[str, Any] = {}
        for name, row in zip(facts.inputs, rows, strict=False):
            view = _arrays.numpy_view(row, True)
            exact = view is None or view.dtype.kind in "iub"
            # Copies: the function may keep them, and writes some in place.
            named[name] = view if view is None else view.copy() if exact else view.astype(float)
        named.update(zip(facts.scalars, scalars, strict=True))
        with np.errstate(all="ignore"):
            made = self._fn(**{n: v for n, v in named.items() if n in self._names})
        several = isinstance(made, (tuple, list))
        results = [] if made is None and not facts.results else list(made) if several else [made]
        if len(results) == len(facts.results):  # the written ones were written in place
            results += [named[name] for name in facts.written]
        if len(results) != len(facts.judged):
            news = f", or {len(facts.judged)} with the new values of {', '.join(facts.written)}"
            raise ValueError(
                f"returned {len(results)} results; expected {len(facts.results)} "
                f"({', '.join(facts.results)})" + (news if facts.written else "")
            )
        return results


def _write(judged: Any, results: list[Any], chosen: Any, values: Any, magnitudes: Any) -> None:
    """Writes the chosen rows of each result and written input, and for each element its magnitude:
    the largest value of its row; -1 if a masked array hides it; for an i64 beyond 2^53, what f64
    leaves out. ``judged``: names and tensors, None for an absent input."""
    import ctypes

    import numpy as np

    def view(address: int, shape: tuple[int, ...], kind: Any) -> Any:
        size = int(np.prod(shape)) * 8
        if not size:
            return np.empty(shape, kind)
        memory = memoryview((ctypes.c_char * size).from_address(address))
        return np.frombuffer(memory, kind).reshape(shape)

    index = view(chosen[0], (chosen[1],), np.int64)
    for (_, row), made, value, magnitude in zip(judged, results, values, magnitudes, strict=True):
        if row is None:
            continue
        shape = tuple(row[3])
        hidden = np.ma.getmaskarray(made) if isinstance(made, np.ma.MaskedArray) else None
        given = np.asarray(np.ma.getdata(made))
        result = given.astype(np.float64)
        if result.shape != shape:
            raise ValueError(f"returned a result of shape {result.shape}, expected {shape}")
        width = shape[-1] if shape else 1
        flat = result.reshape(-1, width)
        there = index < len(flat)
        picked = flat[index[there]]
        finite = np.where(np.isfinite(picked), np.abs(picked), 0.0)
        if hidden is None:
            sizes_of = np.broadcast_to(finite.max(-1, keepdims=True, initial=0), picked.shape)
        else:
            here = hidden.reshape(-1, width)[index[there]]
            largest = np.where(here, 0.0, finite).max(-1, keepdims=True, initial=0)
            sizes_of = np.where(here, -1.0, largest)
        if row[1:3] == (0, 64) and given.dtype.kind in "iu":
            rest = _split(picked, given.reshape(-1, width)[index[there]].astype(np.int64))
            sizes_of = np.where((sizes_of < 0) | (rest < 0), sizes_of, rest)
        view(value, (chosen[1], width), np.float64)[there] = picked
        view(magnitude, (chosen[1], width), np.float64)[there] = sizes_of


def _split(values: Any, whole: Any) -> Any:
    """Removes from ``values``, in place, the parts that f64 cannot hold, and returns them; -1 for
    values that fit. See device/whole.hpp."""
    import numpy as np

    beyond = (whole >= 2**53) | (whole <= -(2**53))
    values[beyond] = (whole & ~1023)[beyond]
    return np.where(beyond, whole & 1023, -1).astype(np.float64)


class _Bound:
    """The callable that gives the library the allowed error of an element."""

    def __init__(self, facts: Operator, given: Any) -> None:
        self._given, self._facts = given, facts
        if not callable(given):
            fine = isinstance(given, tuple) and len(given) == 3
            if not fine or not all(isinstance(n, (int, float)) and n >= 0 for n in given):
                raise refuse(
                    facts.name, "bound", "is malformed", "three numbers from 0 on, or a function",
                    repr(given), "see docs/own.md",
                )  # fmt: skip

    def __call__(self, row: tuple[Any, ...], result: int) -> Bound:
        if not callable(self._given):
            return tuple(map(float, self._given))  # type: ignore[return-value]
        made = self._given(Problem(self._facts, row), self._facts.judged[result])
        return tuple(map(float, made))  # type: ignore[return-value]


def _default_cases(facts: Operator) -> list[dict[str, Any]]:
    """Small, odd, edge and ordinary sizes of every letter, in the floating types of the first
    tensor."""
    row = _native.operator_row(facts.name)
    first = row["tensors"][0]["dtypes"] if row["tensors"] else ["f32"]
    dtypes = [d for d in first if d in ("f32", "f16", "bf16")] or first[:1]
    every = [_dims.of_json(d) for t in row["tensors"] + row["results"] for d in t["dims"]]
    multiples = {n: d.divisor for d in every if d.whole for n in d.letters}  # of `//`
    bucketed = {letter["name"] for letter in row["letters"] if letter["bucketed"]}
    sizes = {
        "ones": (1, 1), "small": (3, 8), "odd": (7, 33), "even": (16, 64), "plain": (64, 256),
    }  # fmt: skip

    def dims(tokens: int, other: int) -> dict[str, int]:
        """The given sizes, halved until every tensor has at most ``_MAX_ELEMENTS`` elements."""
        while True:
            sizes = {n: tokens if n in bucketed else other for n in facts.letters}
            for name, by in multiples.items():
                sizes[name] = -(-sizes[name] // by) * by
            tensors = [*row["tensors"], *row["results"]]
            most = max(math.prod(_specs.shape_of(t["dims"], sizes)) for t in tensors)
            if most <= _MAX_ELEMENTS or max(tokens, other) <= 1:
                return sizes
            tokens, other = max(1, tokens // 2), max(1, other // 2)

    made: list[dict[str, Any]] = []
    for name, (tokens, other) in sizes.items():
        last = name == "plain"
        made.append({
            "name": name,
            "dims": dims(tokens, other),
            "dtypes": [d for d in dtypes if d in _dtypes.TABLE],
            "layouts": ["contiguous", "row_strided"] if last else ["contiguous"],
            "values": ["normal"],
            "use": ["test", "tune", "bench"] if last else ["test"],
        })  # fmt: skip
    return made
