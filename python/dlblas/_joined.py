"""Products on rows ``[*T, K]`` whose leading dimensions no view can merge, such as a transposed
batch: called on a contiguous copy, as torch.nn.functional.linear does.

In: a call that the operator has refused, or that torch.compile sees. Out: its result; None for
tensors that lie as the operator needs them. Used by: ops/<family>/api.py. Read next:
_other_forms.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._array import Spec
from ._functions import FUNCTIONS
from ._given import as_rows, flattens, strides_of


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
    """The older form of an operator that needs the rows of ``inputs`` at one stride."""
    function = FUNCTIONS[name]
    names = tuple(p.name for p in function.params)

    def of(args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        given = {**dict(zip(names, args, strict=False)), **named}
        if len(given) < len(args) + len(named):
            return None
        copies = {key: as_rows(given[key]) for key in inputs if is_apart(given.get(key))}
        return function.call(**{**given, **copies}) if copies else None

    return of
