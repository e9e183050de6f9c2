"""The oracle from Python: f64 reference values with the error allowed for each element, and
verification.

Needs NumPy. Read next: src/registry/operator.hpp (Bound), harness/__init__.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from . import _functions
from ._arguments import hinted
from ._functions import resolve
from ._search import check_tuple


class OracleResult(NamedTuple):
    """One result, or one input that the operator writes, with its allowed error.

    An element may have an error of ``bound[0]·magnitude + bound[1]·|value| + bound[2]``. Where
    ``magnitude`` is negative the element is undefined and may have any value. ``value`` and
    ``magnitude`` are f64 arrays of the result's shape or, for chosen rows, [rows, columns] of those
    that the result has. A row is the last dimension (a result without leading dimensions is row 0),
    or one element where the oracle computes element by element (attention's ``lse``). An i64 from
    2^53 on, of either sign, is ``value + magnitude``.
    """

    name: str
    value: Any
    magnitude: Any
    bound: tuple[float, float, float]

    def allowed(self) -> Any:
        a, r, absolute = self.bound
        return a * self.magnitude + r * abs(self.value) + absolute


class Verdict(NamedTuple):
    """The outcome of ``verify``.

    ``worst`` is the largest ratio of an error to the allowed one: at most 1 is right. ``result``:
    the index of the result that ``first_wrong`` is in; the inputs that the operator writes count
    after the results. For an operator with a judge, ``worst`` is 0 or infinite, and ``first_wrong``
    is -1 if the judge only counts. ``mistrusted``: the comparison says little; ``note`` says why.
    """

    worst: float
    relative: float
    wrong: int
    checked: int
    first_wrong: int
    result: int
    mistrusted: bool

    @property
    def ok(self) -> bool:
        return self.wrong == 0 and self.worst <= 1

    @property
    def note(self) -> str:
        """Why ``ok`` does not mean much; empty if it does."""
        if not self.mistrusted:
            return ""
        if self.checked == 0:
            return "no element could be judged: the reference defines none, as where f32 overflows"
        return (
            "a result's reference is constant, mostly zero or NaN, or defines none of its elements"
        )

    def __str__(self) -> str:
        return f"{self!r}{': ' * bool(self.note)}{self.note}"

    def __bool__(self) -> bool:
        """``ok``: otherwise a tuple of fields would always be true."""
        return self.ok


def _rows(rows: Sequence[int] | None, num_rows: int) -> Any:
    import numpy as np

    return (
        np.arange(num_rows, dtype=np.int64)
        if rows is None
        else np.ascontiguousarray(rows, np.int64)
    )


def _row_count(shape: Sequence[int], width: int) -> int:
    """The number of rows of ``width`` columns, where ``width`` is the last dimension or 1."""
    last = shape[-1] if shape else 1
    return math.prod(shape[:-1]) * (1 if width == last else last)


@hinted
def reference(
    name: str,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    rows: Sequence[int] | None = None,
) -> list[OracleResult]:
    """Reference values in f64, computed by plain loops.

    Covers every row of the flattened leading dimensions, or the chosen ``rows``. Returns the
    results, then the inputs that the operator writes, as a call leaves them.
    """
    import numpy as np

    function, fixed = resolve(name)
    check_tuple("reference", name, args)
    named = {**fixed, **(kwargs or {})}
    rows_of = _functions.native["judged"](function.name, args, named)
    specs = [row or (None, 0, 0, (0, 0), 0) for row in rows_of]  # absent ones: nothing
    widths = [width for *_, width in specs]
    leading = [_row_count(shape, width) for _, _, _, shape, width in specs]
    index = _rows(rows, max(leading))
    values = [np.empty((len(index), width)) for width in widths]
    magnitudes = [np.empty((len(index), width)) for width in widths]
    addresses = [tuple(a.ctypes.data for a in arrays) for arrays in (values, magnitudes)]
    bounds = _functions.native["reference"](
        function.name, args, named, index.ctypes.data, len(index), *addresses,
        tuple(tuple(shape) for _, _, _, shape, _ in specs),
    )  # fmt: skip
    for arrays in (values, magnitudes):  # results may differ in rows
        for i, count in enumerate(leading):
            arrays[i] = arrays[i][index < count]
            if rows is None:
                arrays[i] = arrays[i].reshape(specs[i][3])
    return [
        OracleResult(spec[0], value, magnitude, bound)
        for spec, value, magnitude, bound in zip(specs, values, magnitudes, bounds, strict=True)
        if spec[0] is not None
    ]


@hinted
def verify(
    name: str,
    args: tuple[Any, ...],
    out: Any,
    kwargs: Mapping[str, Any] | None = None,
    *,
    rows: Sequence[int] | None = None,
) -> Verdict:
    """Compares results with the oracle.

    ``out``: one array, or a tuple in result order, followed by the inputs that the operator writes,
    as the call left them (None for an absent one); ``args``: the inputs as they were before the
    call. ``name`` is the functional form.
    """
    function, fixed = resolve(name)
    check_tuple("verify", name, args)
    index = None if rows is None else _rows(rows, 0)
    address, count = (0, 0) if index is None else (index.ctypes.data, len(index))
    fields = _functions.native["verify"](
        function.name, args, {**fixed, **(kwargs or {})}, out, address, count
    )
    return Verdict(*fields)
