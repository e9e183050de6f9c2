"""Fused transformer operators: chosen, tuned, remembered and explained.

Every operator is a function here: ``dlblas.rms_norm(x, w)``. It takes NumPy arrays, torch tensors
and any array with DLPack; names of in-place forms end in an underscore. ``get_op`` and ``tune``
measure; operator calls never do. ``explain`` says what runs and why. Importing this package imports
neither NumPy nor torch. Read next: tuning.py (choosing), _functions.py (the callables).
"""

from . import _early

if _early.is_command():
    _early.watch()

import sys as _sys
import typing as _typing

from . import (
    _absent,
    _functions,
    _log,
    _native,
    _other_forms,  # noqa: F401 - registers itself
    _torch_bridge,
    _unknown,
    cache,
    errors,
)
from ._array import Array, Spec
from ._autotune import MissedKey, ModelReport, autotune, missed
from ._faces import *  # noqa: F403 - of families, ops/<family>/api.py; written by the build
from ._faces import __all__ as _face_names  # type: ignore[attr-defined]  # the stub has none
from ._native import counters, info
from ._paths import get_include
from ._ranges import profiler_ranges
from ._reports import Explanation, ProgressEvent, TuningReport
from .errors import Error
from .oracle import OracleResult, Verdict, reference, verify
from .tuning import (
    Operation,
    allow_tf32,
    deterministic,
    explain,
    get_op,
    list_operators,
    pin,
    pinned,
    repeatable,
    tune,
    warmup,
)

if _typing.TYPE_CHECKING:
    from . import _ops, spaces
    from . import hf as hf
    from . import kernels as kernels
    from . import layers as layers
    from . import nn as nn
    from . import own as own
    from . import torch as torch
    from . import triton_ops as triton_ops
    from . import utils as utils
    from . import vllm as vllm

    # mypy keeps the first definition of a name, pyright the last.
    from ._calls import *  # noqa: F403
    from ._ops import *  # type: ignore[no-redef, assignment]  # isort: skip  # noqa: F403
    from ._calls import *  # isort: skip  # noqa: F403
    from .own import register, register_operator, unregister

__version__ = _native.version()

__all__ = [
    "Array",
    "Error",
    "Explanation",
    "MissedKey",
    "ModelReport",
    "Operation",
    "OracleResult",
    "ProgressEvent",
    "Spec",
    "TuningReport",
    "Verdict",
    "allow_tf32",
    "autotune",
    "cache",
    "counters",
    "deterministic",
    "errors",
    "explain",
    "get_include",
    "get_op",
    "info",
    "list_operators",
    "missed",
    "pin",
    "pinned",
    "profiler_ranges",
    "reference",
    "register",
    "register_operator",
    "repeatable",
    "spaces",
    "tune",
    "unregister",
    "verify",
    "warmup",
]
__all__ += _face_names
if _typing.TYPE_CHECKING:
    __all__ += _ops.__all__  # checkers read no loop

# Imported on first use: some of them import torch.
_SUBMODULES = (
    "hf", "kernels", "layers", "nn", "own", "spaces", "torch", "triton_ops", "utils",
    "vllm",
)  # fmt: skip
_FROM_OWN = ("register", "register_operator", "unregister")


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

# A second import, under the same or another name, restores the first package: registrations, error
# types and torch's operators exist once per process.
_first = _functions.native.get("package")
_functions.native.setdefault("package", _sys.modules[__name__])
if _first is None:
    _log.connect()
    _torch_bridge.connect()
elif _first is not _sys.modules[__name__]:
    _native.restore(_first)


if not _typing.TYPE_CHECKING:  # checkers know the names above, and no others

    def __getattr__(name: str) -> _typing.Any:
        from importlib import import_module

        if name in _SUBMODULES:
            try:
                return import_module(f"dlblas.{name}")
            except (ImportError, Error) as why:  # hasattr() and completion ask, too
                raise AttributeError(f"dlblas.{name} cannot be imported here: {why}") from why
        if name in _FROM_OWN:
            return getattr(import_module("dlblas.own"), name)
        if _absent.knows(name):
            _absent.refuse(f"{__name__}.{name}", name)
        if f"dlblas.{name}" not in _sys.modules and _unknown.imported_by(1):
            raise _unknown.import_error(name, _unknown.public(__name__), __file__)
        _unknown.refuse(__name__, name, 0)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES})
