"""Fused transformer operators: chosen, tuned, remembered and explained.

Every operator is a function here, ``dlblas.rms_norm(x, w)``, on NumPy arrays, torch tensors and
anything with DLPack; in-place forms end in an underscore. ``get_op`` and ``tune`` measure,
operator calls never do, and ``explain`` says what runs and why. NumPy and torch are never imported
by this package's import. Read next: tuning.py (choosing), _functions.py (the callables).
"""

import sys as _sys
import typing as _typing

from . import _early

if _early.is_command():
    _early.watch()

from . import _functions, _native, _torch_bridge, cache, errors
from ._array import Array, Spec
from ._faces import *  # noqa: F403 - of families, ops/<family>/api.py; written by the build
from ._faces import __all__ as _face_names
from ._native import counters, info
from .errors import Error
from .oracle import OracleResult, Verdict, reference, verify
from .tuning import (
    Explanation,
    Operation,
    ProgressEvent,
    TuningReport,
    deterministic,
    explain,
    get_op,
    list_operators,
    pin,
    pinned,
    tune,
    warmup,
)

if _typing.TYPE_CHECKING:
    from . import nn as nn
    from . import own as own
    from . import spaces
    from ._ops import *  # noqa: F403 - stubs of the operators, written by the build
    from .own import register, register_operator, unregister

__version__ = _native.version()

__all__ = [
    "Array",
    "Error",
    "Explanation",
    "Operation",
    "OracleResult",
    "ProgressEvent",
    "Spec",
    "TuningReport",
    "Verdict",
    "cache",
    "counters",
    "deterministic",
    "errors",
    "explain",
    "get_op",
    "info",
    "list_operators",
    "pin",
    "pinned",
    "reference",
    "register",
    "register_operator",
    "spaces",
    "tune",
    "unregister",
    "verify",
    "warmup",
]
__all__ += _face_names


def _export() -> None:
    for function in _functions.FUNCTIONS.values():
        if globals().get(function.name, function.call) is function.call:
            globals()[function.name] = function.call
            __all__.append(function.name)
        elif function.family != "own":  # a shared object's may be called anything
            raise ImportError(
                f"dlblas: operator {function.name} would hide dlblas.{function.name}; rename it"
            )


_export()

# Imported again, under the same name or a fresh one: what was registered, errors' types and torch's
# operators are those of the first time, and so is the package.
_first = _functions.native.get("package")
_functions.native.setdefault("package", _sys.modules[__name__])
if _first is None:
    _torch_bridge.connect()
elif _first is not _sys.modules[__name__]:
    _native.restore(_first)


def __getattr__(name: str) -> _typing.Any:
    from importlib import import_module

    if name in ("nn", "own", "spaces"):  # nn brings torch
        return import_module(f"dlblas.{name}")
    if name in ("register", "register_operator", "unregister"):
        return getattr(import_module("dlblas.own"), name)
    raise AttributeError(f"module 'dlblas' has no attribute {name!r}")
