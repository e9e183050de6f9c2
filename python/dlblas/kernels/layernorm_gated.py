"""``dlblas.kernels.layernorm_gated``: gated norms under DLBlas's and Mamba's names.

Read next: ../../../ops/norm/api.py.
"""

from __future__ import annotations

from typing import Any

from .._arguments import hinted
from .._faces import layernorm_gated


@hinted
def layernorm_fn(
    x: Any, weight: Any, bias: Any, z: Any = None, eps: float = 1e-6,
    group_size: int | None = None, norm_before_gate: bool = True, is_rms_norm: bool = False,
) -> Any:  # fmt: skip
    """``norm(x) · silu(z)``, or ``norm(x · silu(z))`` without ``norm_before_gate``."""
    return layernorm_gated(x, weight, bias, z, eps, group_size, norm_before_gate, is_rms_norm)


@hinted
def rmsnorm_fn(
    x: Any, weight: Any, bias: Any, z: Any = None, eps: float = 1e-6,
    group_size: int | None = None, norm_before_gate: bool = True,
) -> Any:  # fmt: skip
    """``layernorm_fn`` with RMS norm: divided by the root mean square, no mean subtracted."""
    return layernorm_gated(x, weight, bias, z, eps, group_size, norm_before_gate, True)


__all__ = ["layernorm_fn", "layernorm_gated", "rmsnorm_fn"]
