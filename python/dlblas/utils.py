"""The names that users of DLBlas know: ``from dlblas.utils import get_op``.

Thin wrappers of the real functions; nothing inside the library depends on this file. Read next:
tuning.py.
"""

from __future__ import annotations

import inspect
import os
import typing as _typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from . import _made_of, _options, _unknown, tuning
from ._arguments import hinted
from ._functions import FUNCTIONS, resolve
from ._reports import ProgressEvent
from .own._dlblas import AutotuneConfig, SymVar, Tensor, register_dlblas_op
from .spaces import (
    ChoiceSpace,
    DictSpace,
    DiscreteSpace,
    FixedSpace,
    PowerOfTwoSpace,
    RangeSpace,
)
from .tuning import Operation, list_operators

RangeSapce = RangeSpace  # as DLBlas spells it

__all__ = [
    "AutotuneConfig",
    "ChoiceSpace",
    "DictSpace",
    "DiscreteSpace",
    "FixedSpace",
    "PowerOfTwoSpace",
    "RangeSapce",
    "RangeSpace",
    "SymVar",
    "Tensor",
    "get_args_from_op_name",
    "get_list_op_names",
    "get_op",
    "register_dlblas_op",
]


@hinted
@_options.knows_its_options
def get_op(
    name: str,
    args: tuple[Any, ...],
    config: AutotuneConfig | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    seconds: float | None = None,
    effort: Literal["quick", "normal", "thorough"] | None = None,
    strategy: str | None = None,
    seed: int = 0,
    max_evaluations: int | None = None,
    force: bool = False,
    implementations: str | Iterable[str] | None = None,
    space: Mapping[str, Any] | None = None,
    where: Any = None,
    progress: bool | Callable[[ProgressEvent], Any] | None = None,
    worker: bool | None = None,
    log: str | os.PathLike[str] | None = None,
) -> Operation:
    """As ``dlblas.get_op``; ``config`` provides the search options that are not given as
    arguments."""
    given = locals()
    options = {key: given[key] for key in _OPTIONS if given[key] is not _OPTIONS[key]}
    return tuning.get_op(name, args, **{**(config.options() if config else {}), **options})


_OPTIONS = {
    key: parameter.default
    for key, parameter in inspect.signature(tuning.get_op).parameters.items()
    if parameter.kind is parameter.KEYWORD_ONLY
}


def get_list_op_names() -> list[str]:
    """Names that ``get_op`` takes: all operators, and the functions that are made of them."""
    return sorted([*list_operators(), *_made_of.names()])


@hinted
def get_args_from_op_name(name: str) -> list[str]:
    """Names of an operator's arguments, in call order; also of a function made of operators."""
    function = None if name in FUNCTIONS else _made_of.function_named(name)
    if function is not None:
        from inspect import signature

        return list(signature(function).parameters)
    return [parameter.name for parameter in resolve(name)[0].params]


if not _typing.TYPE_CHECKING:  # checkers know the names above, and no others
    __getattr__ = _unknown.of(__name__)
