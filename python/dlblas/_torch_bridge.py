"""Connects the package to its torch half, which is imported only after torch has been imported.

Out: ``connect``, which __init__.py calls at the first import. The extension receives ``attach`` and
``torch_error``, so that no module below imports this one. Read next: torch/_register.py,
bindings/python/torch.cpp.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from typing import Any

from ._after_import import after_import
from ._functions import native
from .errors import Error, UnsupportedError


def attach(obj: Any) -> None:
    """Registers with torch at the first torch tensor of a process that imported torch after
    dlblas."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(obj, getattr(torch, "Tensor", ())):
        attach_torch()


def attach_torch() -> str:
    """Registers the operators with torch, once. Returns "", or why torch cannot have them: then its
    tensors are read through DLPack."""
    try:
        from .torch import _register
    except UnsupportedError as why:  # raised by dlblas/torch/__init__.py: torch is too old
        return str(why)
    return _register.attach()


def attach_late_torch() -> None:
    """As ``attach_torch``, as soon as torch is imported. If torch cannot have the operators, the
    first use says so; `import torch` itself never fails because of dlblas. `import dlblas.torch`
    attaches by itself."""
    if "dlblas.torch" in sys.modules:
        return
    try:
        attach_torch()
    except Exception as reason:
        with contextlib.suppress(Warning):  # where warnings are errors
            warnings.warn(f"dlblas: torch has no operators of dlblas: {reason!r}", stacklevel=2)


def torch_error(name: str, arguments: tuple[Any, ...], error: type[BaseException]) -> Error | None:
    """The typed error that an error of torch's own dispatcher means for the arguments of a call.
    ``name``: the operation's, x or x_out."""
    from .torch import _refusals

    return _refusals.typed(name, arguments, error)


def connect() -> None:
    """Gives the extension its way to torch, and registers as soon as both packages are imported.

    If torch itself is importing dlblas, the first tensor of a call registers, or
    ``import dlblas.torch`` does.
    """
    native["set_torch"](attach, torch_error)
    if "torch" not in sys.modules or hasattr(sys.modules["torch"], "library"):
        after_import("torch", attach_late_torch)
