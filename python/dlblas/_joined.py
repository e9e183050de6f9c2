"""Products on rows ``[*T, K]`` whose leading dimensions no view can merge, such as a transposed
batch: called on a contiguous copy, as torch.nn.functional.linear does; and results in such a place,
which are copied there.

In: a call that the operator has refused, or that torch.compile sees. Out: its result; None for
tensors that lie as the operator needs them. Used by: ops/<family>/api.py. Read next:
_other_forms.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._array import Spec
from ._functions import FUNCTIONS
from ._given import as_rows, check_writable, flattens, is_numpy, strides_of
from ._overlap import address_of, check_apart
from ._spread import beside


def is_apart(x: Any) -> bool:
    """Whether x has leading dimensions that no view can merge."""
    try:
        shape = () if type(x) is Spec else x.shape
        if not isinstance(shape, tuple) or len(shape) < 3 or strides_of(x) is None:
            return False
        return not flattens(x, 1)
    except Exception:  # whatever a foreign object raises: the refusal stands
        return False


def form(name: str, *inputs: str) -> Callable[[tuple[Any, ...], dict[str, Any]], Any]:
    """The older form of an operator that needs the rows of ``inputs``, and of its results, at one
    stride."""
    function = FUNCTIONS[name]
    names = tuple(p.name for p in function.params)

    def of(args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        given = {**dict(zip(names, args, strict=False)), **named}
        if len(given) < len(args) + len(named):
            return None
        copies = {key: as_rows(given[key]) for key in inputs if is_apart(given.get(key))}
        out = given.get("out")
        places = out if isinstance(out, tuple) else (out,)
        if not any(map(_is_place_apart, places)):
            return function.call(**{**given, **copies}) if copies else None
        others = {key: value for key, value in given.items() if key != "out"}
        for place in places:
            check_writable(name, "out", place)
            if _is_same(others.get("residual"), place):
                others.pop("residual")  # read before the result is copied to its place
            check_apart(name, place, **others)
        made = tuple(beside(p) if _is_place_apart(p) else p for p in places)
        function.call(**{**given, **copies, "out": made if isinstance(out, tuple) else made[0]})
        for place, one in zip(places, made, strict=True):
            if place is not None and one is not place:
                place[...] = one
        return out

    return of


def _is_place_apart(x: Any) -> bool:
    """Whether a result for x needs another place, from which it is copied to x."""
    return is_apart(x) and (is_numpy(x) or hasattr(x, "new_empty"))


def _is_same(x: Any, place: Any) -> bool:
    """Whether each element of x is where the same element of ``place`` is."""
    return (
        getattr(x, "dtype", None) == place.dtype
        and tuple(x.shape) == tuple(place.shape)
        and strides_of(x) == strides_of(place)
        and address_of(x) == address_of(place)
    )
