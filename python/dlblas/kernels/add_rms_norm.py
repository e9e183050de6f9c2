"""``dlblas.kernels.add_rms_norm.call``: DLBlas's form, which rounds before the weight.

The norm in f32 is rounded to hidden_states' dtype, then multiplied by the weight, as in Hugging
Face's Llama; ``dlblas.add_rms_norm`` rounds once. Read next: rms_norm.py.
"""

from __future__ import annotations

from typing import Any

from .._arguments import hinted
from .._functions import FUNCTIONS

_rms_norm, _add_rms_norm = FUNCTIONS["rms_norm"].call, FUNCTIONS["add_rms_norm"].call


@hinted
def call(hidden_states: Any, weight: Any, eps: float = 1e-6, residual: Any = None) -> Any:
    """RMS norm: y, or with a ``residual`` ``(y, hidden_states + residual)``."""
    if residual is None:
        return _rms_norm(hidden_states, weight, eps, cast_before_weight=True)
    return _add_rms_norm(hidden_states, weight, residual, eps, cast_before_weight=True)
