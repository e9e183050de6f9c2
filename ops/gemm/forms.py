"""``matmul`` in forms that its operator does not take: batches of matrices that broadcast, vectors,
and rows whose leading dimensions do not flatten.

In: a call that matmul has refused, with arrays of any package. Out: its result; None if the call is
in neither form. Used by: api.py. Read next: ../../python/dlblas/_other_forms.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .._array import Array, Spec
from .._dtypes import name_of
from .._empty import empty
from .._functions import FUNCTIONS
from .._given import as_rows, asks_for_gradients, flattens
from .._joined import is_apart
from .._overlap import check_apart
from .._results import check_shape
from .._spread import spread
from ..errors import ArgumentError, Error, renamed

_matmul = FUNCTIONS["matmul"].call
_RESULTS = ("f32", "f16", "bf16")


def _rank(array: Any) -> int:
    """The number of dimensions of an array; 0 if it has no shape tuple or no data."""
    try:
        shape = () if type(array) is Spec else array.shape
        return len(shape) if isinstance(shape, tuple) else 0
    except Exception:  # whatever a foreign object raises: the refusal stands
        return 0


def result_dtype(op: str, given: Any, otherwise: Any) -> Any:
    """``given`` as a name of the library's, ``otherwise`` if it is None; refuses what the operators
    would refuse, for functions that make the result before they call one."""
    if given is None:
        return otherwise
    name = name_of(given)
    if name in _RESULTS:
        return name
    expected, got = f"one of {', '.join(_RESULTS)}", name or repr(given)[:60]
    raise ArgumentError.from_library(
        f"{op}: out_dtype is no dtype of a result; expected {expected}, got {got}",
        op, "out_dtype", expected, got,
    )  # fmt: skip


def _of_batches(bmm: Callable[..., Any], given: dict[str, Any]) -> Any:
    """Accepts batches of matrices in b, whose leading dimensions and a's broadcast, and vectors, as
    torch.matmul and NumPy's matmul do: a as a row, b as a column that the result does not have."""
    a, b, out = given.get("a"), given.get("b"), given.get("out")
    row, column = _rank(a) == 1, _rank(b) == 1
    if 0 in (_rank(a), _rank(b)) or _rank(b) == 2 or given.keys() - {
        "a", "b", "activation", "bias", "out_dtype", "out",
    }:  # fmt: skip
        return None
    if any(type(x) is Array or not hasattr(x, "reshape") for x in (a, b)) and (
        row or column or tuple(a.shape[:-2]) != tuple(b.shape[:-2])
    ):
        return None  # no views of it that broadcast
    a = a.reshape((1, a.shape[0])) if row else a
    b = b.reshape((b.shape[0], 1)) if column else b
    lead = _both(tuple(a.shape[:-2]), tuple(b.shape[:-2]))
    if lead is not None and len(b.shape) > 2:
        a, b = (spread(x, (*lead, *x.shape[-2:])) for x in (a, b))
    lead = tuple(a.shape[:-2])
    sizes = (*lead, *(() if row else a.shape[-2:-1]), *(() if column else b.shape[-1:]))
    changed = {**given, "a": a, "b": b}
    if (row or column) and out is not None:
        check_shape("matmul", out, sizes)
        changed["out"] = out.reshape((*lead, a.shape[-2], b.shape[-1]))  # a view
    try:
        made = bmm(**changed) if len(b.shape) > 2 else _matmul(**changed)
    except Error as error:
        raise renamed(error, "matmul") from None
    if out is not None:
        return out
    return made.reshape(sizes) if row or column else made


def _both(first: tuple[Any, ...], second: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Leading dimensions that both broadcast to; None if there are none."""
    rank = max(len(first), len(second))
    first, second = ((1,) * (rank - len(one)) + one for one in (first, second))
    pairs = list(zip(first, second, strict=True))
    if any(m not in (1, n) and n != 1 for m, n in pairs):
        return None
    return tuple(n if m == 1 else m for m, n in pairs)


def _of_rows(one_call: Callable[..., Any], given: dict[str, Any]) -> Any:
    """Accepts leading dimensions of a or out that do not flatten: batched products of a where it
    lies, b being the same for all; under autograd and torch.compile, matmul of a copy of a."""
    a, b, out = given.get("a"), given.get("b"), given.get("out")
    if not (is_apart(a) or is_apart(out)):
        return None
    if _rank(a) < 3 or _rank(b) != 2 or a.shape[-1] != b.shape[0]:
        return None  # wrong in another way
    sizes = (*a.shape[:-1], b.shape[-1])
    if asks_for_gradients(a, b, given.get("bias")) or _is_compiling(a):
        return _matmul(**{**given, "a": as_rows(a)}) if out is None else None
    more = {key: given[key] for key in given.keys() - {"a", "b", "out"}}
    if out is None:
        out = empty(a, sizes, result_dtype("matmul", more.get("out_dtype"), a.dtype), "matmul", "a")
    elif tuple(getattr(out, "shape", ())) != sizes:
        return None
    else:
        check_apart("matmul", out, a=a, b=b, bias=more.get("bias"))
    try:
        _multiply_rows(one_call, a, b, out, more)
    except Error as error:
        raise renamed(error, "matmul") from None
    return out


def _is_compiling(a: Any) -> bool:
    if not hasattr(a, "new_empty"):
        return False
    import torch

    return torch.compiler.is_compiling()


def _multiply_rows(
    one_call: Callable[..., Any], a: Any, b: Any, out: Any, more: dict[str, Any]
) -> None:
    """One call where the leading dimensions of a and out flatten to one or two, else one for each
    index of the first."""
    if flattens(a, 1) and flattens(out, 1):
        _matmul(a, b, **more, out=out)
        return
    lead = a.shape[:-2]
    if len(lead) > 1:
        if flattens(a, 2) and flattens(out, 2):
            a, out = (x.reshape(math.prod(lead), *x.shape[-2:]) for x in (a, out))
        elif flattens(a[0], 1) and flattens(out[0], 1):
            a, out = (x.reshape(x.shape[0], -1, x.shape[-1]) for x in (a, out))
        else:
            for i in range(lead[0]):
                _multiply_rows(one_call, a[i], b, out[i], more)
            return
    if a.shape[0] > a.shape[1]:  # few products of many rows
        a, out = a.swapaxes(0, 1), out.swapaxes(0, 1)
    each = spread(b, (a.shape[0], *b.shape))
    rest = {key: value for key, value in more.items() if key != "activation"}
    one_call(a, each, more.get("activation", ""), {**rest, "out": out})


def matmul_forms(
    bmm: Callable[..., Any], one_call: Callable[..., Any]
) -> Callable[[tuple[Any, ...], dict[str, Any]], Any]:
    """What ``older_forms`` has for matmul. ``bmm``: the function, whose errors name bmm;
    ``one_call``: the batched product of a ``[B, M, K]`` and b ``[B, K, N]``, as one call."""

    def form(args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        given = {**dict(zip(("a", "b", "activation"), args, strict=False)), **named}
        if len(given) < len(args) + len(named):  # an argument too many, or given twice
            return None
        made = _of_batches(bmm, given)
        return _of_rows(one_call, given) if made is None else made

    return form
