"""``dlblas.kernels.rms_norm``: the norm under DLBlas's path, f32 throughout.

Read next: add_rms_norm.py, which rounds before the weight.
"""

from __future__ import annotations

from typing import Any

from .._arguments import hinted
from .._empty import empty
from .._functions import FUNCTIONS
from .._given import need_arrays
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
    """``rms_norm(x, weight, eps)``, or ``add_rms_norm`` if a residual is given.

    Returns y, or with a residual ``(y, residual_out)``. These are written to ``out`` and
    ``out_residual``; if only one is given, the other result is new (torch tensors and NumPy
    arrays). Errors: ArgumentError for ``out_residual`` without a residual; those of the operators.
    """
    if residual is None:
        if out_residual is not None:
            raise ArgumentError.from_library(
                "rms_norm: out_residual is given; expected None without a residual",
                "rms_norm", "out_residual", "None without a residual", type(out_residual).__name__,
            )  # fmt: skip
        return _rms_norm(hidden_states, weight, eps, out=out)
    if out is None and out_residual is None:
        return _add_rms_norm(hidden_states, weight, residual, eps)
    need_arrays("rms_norm", hidden_states=hidden_states)
    shape, dtype = tuple(hidden_states.shape), hidden_states.dtype
    both = (
        empty(hidden_states, shape, dtype, "rms_norm") if place is None else place
        for place in (out, out_residual)
    )
    return _add_rms_norm(hidden_states, weight, residual, eps, out=tuple(both))
