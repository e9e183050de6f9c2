"""Names that a new operator may have in Python: none that the package needs for itself.

In: the names of its forms, before anything is registered. Keywords and clashes with operators that
are there are the library's to refuse. Read next: _operator.py, src/registry/names.cpp.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any

from .. import _functions
from ._words import refuse


def reserved(name: str) -> bool:
    """Of a name that is no operator's: what dlblas holds, says that it has, or would find in its
    folder once asked."""
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
    """Raises ArgumentError. ``forms``: the argument of register_operator that each is of, and its
    name."""
    for argument, name in forms:
        if name not in _functions.FUNCTIONS and reserved(name):
            raise refuse(
                op, argument, "would hide what dlblas has", "a new name", name, "choose another one"
            )
