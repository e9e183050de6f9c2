"""``judge=`` of ``register_operator``: a user's function that says which elements are wrong.

In: a call's tensors before and after it, and the reference's values. Out: for each result, the
number of wrong elements and the index of the first. An exception in the function is reported as an
error of the judge, never as a pass. Read next: _operator.py, bindings/c/register_operator.cpp.
"""

from __future__ import annotations

import ctypes
import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from . import _arrays, _function
from ._problem import Operator
from ._words import refuse, refuse_type


class Judge:
    """The callable that gives the library a verdict on all rows."""

    def __init__(self, facts: Operator, fn: Callable[..., Any]) -> None:
        self._facts, self._fn = facts, fn
        expected = "a function of (inputs, results, reference)"
        if not callable(fn):
            raise refuse_type(facts.name, "judge", expected, fn, "see docs/own.md")
        try:
            inspect.signature(fn).bind(None, None, None)
        except ValueError:
            pass  # a builtin without a signature
        except TypeError as error:
            raise refuse(
                facts.name, "judge", "does not take three arguments", expected, str(error),
                "see docs/own.md",
            ) from None  # fmt: skip

    def __call__(
        self,
        before: Any,
        after: Any,
        scalars: Any,
        values: Any,
        magnitudes: Any,
        wrong: int,
        first_wrong: int,
    ) -> str | None:
        try:
            facts = self._facts
            inputs = dict(zip(facts.inputs, map(_values, before), strict=False))
            inputs.update(zip(facts.scalars, scalars, strict=True))
            there = dict(zip(facts.tensors, after, strict=True))
            got = {name: _values(there[name]) for name in facts.judged}
            rows = [there[name] for name in facts.judged]
            shapes = [row and row[3] for row in rows]
            want = dict(zip(facts.judged, map(_wanted, rows, values, magnitudes), strict=True))
            answer = self._fn(
                SimpleNamespace(**inputs), SimpleNamespace(**got), SimpleNamespace(**want)
            )
            self._put(answer, shapes, wrong, first_wrong)
        except Exception as error:
            return _function.words_of(error)
        return None

    def _put(self, answer: Any, shapes: Any, wrong: int, first_wrong: int) -> None:
        names = self._facts.judged
        several = isinstance(answer, (tuple, list))
        answers = list(answer) if several else [answer]
        if len(answers) != len(names):
            raise ValueError(
                f"returned {len(answers)} answers; expected {len(names)} ({', '.join(names)})"
            )
        found = [_found(*row) for row in zip(names, shapes, answers, strict=True)]
        size = ctypes.c_int64 * len(names)
        size.from_address(wrong)[:] = [count for count, _ in found]
        size.from_address(first_wrong)[:] = [first for _, first in found]


def _values(row: Any) -> Any:
    """A copy that the function may write: floating types as f64, others unchanged."""
    import numpy as np

    view = _arrays.numpy_view(row, True)
    exact = view is None or view.dtype.kind in "iub"
    return view if view is None else view.copy() if exact else view.astype(np.float64)


def _wanted(row: Any, value: int, magnitude: int) -> Any:
    """The reference's values, as exact integers for an i64; a masked array hides undefined ones."""
    import numpy as np

    if row is None:
        return None
    sizes = tuple(row[3])
    count = int(np.prod(sizes, dtype=np.int64))

    def read(address: int) -> Any:
        flat = (ctypes.c_double * count).from_address(address) if count else ()
        return np.array(flat, np.float64).reshape(sizes)

    values, rest = read(value), read(magnitude)
    undefined = rest < 0
    if row[1:3] == (0, 64) and (np.abs(values) < 2.0**63).all():
        split = np.abs(values) >= 2.0**53
        values = values.astype(np.int64) + np.where(split, rest, 0).astype(np.int64)
    return np.ma.MaskedArray(values, undefined) if undefined.any() else values


def _found(name: str, shape: Any, answer: Any) -> tuple[int, int]:
    """The number of wrong elements and the index of the first; -1 if it is unknown or none is."""
    import numpy as np

    if answer is None and shape is None:  # of an absent input there is nothing to say
        return 0, -1
    if isinstance(answer, (int, np.integer)) and not isinstance(answer, bool):
        return int(answer), -1
    array = np.ma.filled(answer, False) if isinstance(answer, np.ma.MaskedArray) else answer
    if not isinstance(array, np.ndarray) or array.dtype != np.bool_ or array.shape != shape:
        what = type(answer).__name__
        if isinstance(answer, np.ndarray):
            what = f"{answer.dtype}{list(answer.shape)}"
        raise TypeError(
            f"returned {what} for {name}; expected a count of wrong elements, or an array of bool "
            f"of shape {shape} that is True where one is"
        )
    places = np.flatnonzero(array)
    return len(places), int(places[0]) if len(places) else -1
