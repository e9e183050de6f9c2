"""Users' own implementations of any operator, and their own operators, on equal terms with ours.

``register`` takes a torch or NumPy function, a Triton kernel or CUDA source text;
``register_operator`` takes a schema and a reference; ``load`` opens a shared object that registers
through the C or C++ API. A registered implementation is queried, searched, checked against the
oracle, timed, remembered and explained like a built-in one; until it is measured it ranks last.
Read next: docs/own.md, _register.py.
"""

from __future__ import annotations

import typing as _typing

from .. import _unknown
from ._load import load
from ._operator import cases, register_operator
from ._problem import Problem
from ._register import register, unregister
from ._source import modules

__all__ = [
    "Problem",
    "cases",
    "load",
    "modules",
    "register",
    "register_operator",
    "unregister",
]

if not _typing.TYPE_CHECKING:  # checkers know the names above, and no others
    __getattr__ = _unknown.of(__name__)
