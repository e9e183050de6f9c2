"""Names that a new operator may have: none that Python, dlblas or torch.ops.dlblas needs.

In: the names of its forms and arguments, before anything is registered. Beside each form torch
gets ``<form>_out``, and ``_<form>`` where it has a gradient: one clash there, and torch would have
no operator at all. Read next: _operator.py, ../torch/_register.py.
"""

from __future__ import annotations

import keyword
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from .. import _native
from ._words import refuse

_TORCH = frozenset({"name", "_dir"})  # attributes of every namespace of torch.ops


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
        or name in _TORCH
        or name in {file.partition(".")[0] for file in files}
    )


def check(op: str, forms: Iterable[tuple[str, str]], arguments: Sequence[str]) -> None:
    """Raises ArgumentError. ``forms``: the argument of register_operator that each is of, and its
    name."""
    for name in arguments:
        if keyword.iskeyword(name):
            raise refuse(
                op, "schema", "names an argument by a keyword", "a name that Python's calls take",
                name, "choose another one",
            )  # fmt: skip
    taken = {torch: form for form in _native.FUNCTIONS for torch in _in_torch(form)}
    for argument, name in forms:
        if keyword.iskeyword(name):
            raise refuse(
                op, argument, "is a keyword", "a name that Python can call", name,
                "choose another one",
            )  # fmt: skip
        if name not in _native.FUNCTIONS and reserved(name):
            raise refuse(
                op, argument, "would hide what dlblas has", "a new name", name, "choose another one"
            )
        for torch in _in_torch(name):
            if torch in taken:
                raise refuse(
                    op, argument, "is taken", f"a name apart from {taken[torch]}, "
                    f"{taken[torch]}_out and _{taken[torch]}", name, "choose another one",
                )  # fmt: skip
        taken.update(dict.fromkeys(_in_torch(name), name))


def _in_torch(form: str) -> tuple[str, str, str]:
    return form, f"{form}_out", f"_{form}"
