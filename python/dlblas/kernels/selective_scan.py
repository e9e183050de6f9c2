"""``dlblas.kernels.selective_scan``: the argument order of mamba_ssm's selective_scan_fn.

Read next: ../../../ops/ssm/selective_scan/selective_scan.py.
"""

from __future__ import annotations

from typing import Any

from .._arguments import hinted
from .._functions import FUNCTIONS

__all__ = ["selective_scan", "selective_scan_fn"]

_scan = FUNCTIONS["selective_scan"].call


@hinted
def selective_scan(
    u: Any,
    delta: Any,
    A: Any,  # noqa: N803 - the names of callers
    B: Any,  # noqa: N803
    C: Any,  # noqa: N803
    D: Any = None,  # noqa: N803
    z: Any = None,
    delta_bias: Any = None,
    delta_softplus: bool = False,
    return_last_state: bool = False,
) -> Any:
    """y, or ``(y, last state)`` where ``return_last_state``.

    ``h_t = e^(δ_t·A)·h_{t−1} + δ_t·u_t·B_t``, ``y_t = (Σ C_t·h_t + D·u_t)·silu(z_t)``, ``δ =
    softplus(delta + delta_bias)``, from h = 0.

    u, delta and z ``[batch, dim, L]``, A ``[dim, dstate]``, B and C ``[batch, dstate, L]`` or
    ``[batch, ngroups, dstate, L]``, D and delta_bias ``[dim]``; y as u, the state ``[batch, dim,
    dstate]`` f32. Any strides, nothing is copied. mamba_ssm's complex A and its B and C ``[dim,
    dstate]`` are refused. Dtypes, numerics and errors are those of ``dlblas.selective_scan``, which
    takes an initial state. Source: mamba_ssm's selective_scan_fn, 2023.
    """
    b, c = (t[:, None] if len(t.shape) == 3 else t for t in (B, C))
    y, state = _scan(u, delta, A, b, c, D, None, z, delta_bias, delta_softplus)
    return (y, state) if return_last_state else y


selective_scan_fn = selective_scan
