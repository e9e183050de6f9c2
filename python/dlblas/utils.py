"""The names that users of DLBlas know: ``from dlblas.utils import get_op``.

Thin calls of the real ones; nothing inside the library depends on this file. Read next: tuning.py.
"""

from __future__ import annotations

from .tuning import get_op, list_operators, resolve

__all__ = ["get_args_from_op_name", "get_list_op_names", "get_op"]


def get_list_op_names() -> list[str]:
    """Names of all operators."""
    return list_operators()


def get_args_from_op_name(name: str) -> list[str]:
    """Names of an operator's arguments, in call order."""
    return [parameter.name for parameter in resolve(name)[0].params]
