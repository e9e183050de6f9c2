"""``dlblas.kernels.activation``: silu_and_mul under DLBlas's path and argument names.

Read next: ../../../ops/activation/silu_and_mul/silu_and_mul.py.
"""

from __future__ import annotations

from typing import Any

from .._arguments import hinted
from .._functions import FUNCTIONS

_silu_and_mul = FUNCTIONS["silu_and_mul"].call


@hinted
def silu_and_mul(gate_up: Any, out: Any = None) -> Any:
    """``silu(gate_up[..., :F]) · gate_up[..., F:]``, written to ``out`` if given."""
    return _silu_and_mul(gate_up, out=out)
