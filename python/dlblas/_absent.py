"""Names that users of DLBlas and Triton Fused Operators know, and this version does not have.

In: the full name requested. Out: an error that names the nearest equivalent: an ImportError for
``from … import …``, which shows the text of no other error; else an AttributeError, as hasattr()
needs. Read next: kernels/, triton_ops/api.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from . import _native, _planned, _unknown

_MOE = "dlblas.fused_moe of the experts of one GPU"

# Last part of the name of a missing package, module or function -> its nearest equivalent.
_NEAREST = {
    "FP8Linear": "dlblas.nn.FP8Linear",
    "FusedGatedMLP": "dlblas.nn.FusedGatedMLP",
    "ep_moe": f"{_MOE}; nothing here sends rows between GPUs",
}


def knows(name: str) -> bool:
    """Whether the table has this name."""
    return name in _NEAREST


def refuse(name: str, part: str) -> NoReturn:
    """Raises the error of a module's ``__getattr__``, which calls this itself. ``name`` as
    requested; ``part``: the part of it that the table has."""
    words = f"{name} is not in dlblas {_native.version()}; nearest: {_NEAREST[part]}"
    if _unknown.imported_by(2):
        raise ImportError(words, name=name)
    raise AttributeError(words)


def whole(module: str) -> Callable[[str], Any]:
    """``__getattr__`` of a module that exists only for its name."""
    part = module.rpartition(".")[2]

    def getattr_of(name: str) -> NoReturn:
        if name.startswith("__"):  # asked for by import machinery and tools
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        refuse(f"{module}.{name}", part)

    return getattr_of


def some(module: str) -> Callable[[str], Any]:
    """``__getattr__`` of a module that lacks a few names."""

    def getattr_of(name: str) -> NoReturn:
        if name in _NEAREST:
            refuse(f"{module}.{name}", name)
        _unknown.refuse(module, name)

    return getattr_of


_NEAREST.update(_planned.NEAREST)
