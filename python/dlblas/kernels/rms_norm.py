"""``dlblas.kernels.rms_norm``: the norm under DLBlas's path, f32 throughout.

Read next: add_rms_norm.py, which rounds before the weight.
"""

from __future__ import annotations

from typing import Any

from .._arguments import hinted
from .._functions import FUNCTIONS
from ..errors import ArgumentError

_rms_norm, _add_rms_norm = FUNCTIONS["rms_norm"].call, FUNCTIONS["add_rms_norm"].call


@hinted
def rms_norm(
    hidden_states: Any,
    weight: Any,
    eps: float = 1e-6,
    residual: Any = None,
    out: Any = None,
    out_residual: Any = None,
) -> Any:
    """``rms_norm(x, weight, eps)``, or ``add_rms_norm`` where a residual is given.

    y alone without a residual, else ``(y, residual_out)``. ``out`` and ``out_residual`` are where
    they are written; with a residual, both or none. Errors: ArgumentError for one of the two, and
    for ``out_residual`` without a residual; those of the operators.
    """
    if residual is None:
        if out_residual is not None:
            _refuse("out_residual is given", "None without a residual")
        return _rms_norm(hidden_states, weight, eps, out=out)
    if (out is None) != (out_residual is None):
        missing = "out" if out is None else "out_residual"
        _refuse(f"{missing} is missing", "out and out_residual, or neither", missing)
    both = None if out is None else (out, out_residual)
    return _add_rms_norm(hidden_states, weight, residual, eps, out=both)


def _refuse(what: str, expected: str, argument: str = "out_residual") -> None:
    raise ArgumentError.from_library(
        f"rms_norm: {what}; expected {expected}", "rms_norm", argument, expected, what
    )
