"""The names that users of DLBlas know: ``from dlblas.utils import get_op``.

Thin calls of the real ones; nothing inside the library depends on this file. Read next: tuning.py.
"""

from __future__ import annotations

import typing as _typing
from typing import Any

from . import _made_of, _unknown, tuning
from ._arguments import hinted
from ._functions import FUNCTIONS, resolve
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
def get_op(
    name: str, args: tuple[Any, ...], config: AutotuneConfig | None = None, **options: Any
) -> Operation:
    """``dlblas.get_op``; ``config`` limits its search."""
    return tuning.get_op(name, args, **{**(config.options() if config else {}), **options})


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
