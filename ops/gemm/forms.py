"""``matmul`` in forms that its operator does not take: batches of matrices on both sides, and rows
whose leading dimensions do not flatten.

In: a call that matmul has refused, with arrays of any package. Out: its result; None if the call is
in neither form. Used by: api.py. Read next: ../../python/dlblas/_other_forms.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .._array import Spec
from .._empty import empty
from .._functions import FUNCTIONS
from .._given import as_rows, asks_for_gradients, flattens
from .._joined import is_apart
from .._overlap import check_apart
from .._spread import spread
from ..errors import Error, renamed

_matmul = FUNCTIONS["matmul"].call


def _rank(array: Any) -> int:
    """The number of dimensions of an array; 0 if it has no shape tuple or no data."""
    try:
        shape = () if type(array) is Spec else array.shape
        return len(shape) if isinstance(shape, tuple) else 0
    except Exception:  # whatever a foreign object raises: the refusal stands
        return 0


def _of_batches(bmm: Callable[..., Any], given: dict[str, Any]) -> Any:
    """Accepts batches of matrices on both sides: the batched product, as ``bmm``."""
    if min(_rank(given.get(name)) for name in ("a", "b")) < 3 or given.keys() - {
        "a", "b", "activation", "bias", "out_dtype", "out",
    }:  # fmt: skip
        return None
    try:
        return bmm(**given)
    except Error as error:
        raise renamed(error, "matmul") from None


def _of_rows(one_call: Callable[..., Any], given: dict[str, Any]) -> Any:
    """Accepts leading dimensions of a or out that do not flatten: batched products of a where it
    lies, b being the same for all; under autograd and torch.compile, matmul of a copy of a."""
    a, b, out = given.get("a"), given.get("b"), given.get("out")
    if not (is_apart(a) or is_apart(out)):
        return None
    if _rank(a) < 3 or _rank(b) != 2 or a.shape[-1] != b.shape[0] or 0 in (*a.shape, *b.shape):
        return None  # the operator's own, or wrong in another way
    sizes = (*a.shape[:-1], b.shape[-1])
    if asks_for_gradients(a, b, given.get("bias")) or _is_compiling(a):
        return _matmul(**{**given, "a": as_rows(a)}) if out is None else None
    more = {key: given[key] for key in given.keys() - {"a", "b", "out"}}
    if out is None:
        out = empty(a, sizes, more.get("out_dtype") or a.dtype, "matmul")
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
