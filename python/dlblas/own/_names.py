"""Refuses names of new operators that would hide something of the package.

In: the names of an operator's forms, before anything is registered. The library itself refuses
keywords and the names of existing operators. Read next: _operator.py, src/registry/names.cpp.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any

from .. import _functions
from ._words import refuse


def reserved(name: str) -> bool:
    """Whether dlblas uses this name: as an attribute, in ``__all__``, or as a file in its folder
    that an import would find. Precondition: no operator has the name."""
    package: Any = sys.modules["dlblas"]
    folders = filter(os.path.isdir, package.__path__)
    files = (file for folder in folders for file in os.listdir(folder))
    return (
        name.startswith("__")
        or name in vars(package)
        or name in package.__all__
        or name in {file.partition(".")[0] for file in files}
    )


def check(op: str, forms: Iterable[tuple[str, str]]) -> None:
    """Raises ArgumentError for a reserved name. ``forms``: for each form, the argument of
    register_operator that gives it, and its name."""
    for argument, name in forms:
        if name not in _functions.FUNCTIONS and reserved(name):
            raise refuse(
                op, argument, "would hide what dlblas has", "a new name", name, "choose another one"
            )
