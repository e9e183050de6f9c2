"""``dlblas.kernels.selective_scan``: the argument order of mamba_ssm's selective_scan_fn.

Read next: ../../../ops/ssm/selective_scan/selective_scan.py.
"""

from __future__ import annotations

from typing import Any

from .._arguments import hinted
from .._functions import FUNCTIONS
from .._spread import spread

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
    """Mamba's selective scan: y, or ``(y, last state)`` if ``return_last_state``.

    ``h_t = e^(δ_t·A)·h_{t−1} + δ_t·u_t·B_t``, ``y_t = (Σ C_t·h_t + D·u_t)·silu(z_t)``, ``δ =
    softplus(delta + delta_bias)``, from h = 0.

    u, delta and z ``[batch, dim, L]``, A ``[dim, dstate]``, B and C ``[batch, dstate, L]``,
    ``[batch, ngroups, dstate, L]`` or ``[dim, dstate]`` (constant in time), D and delta_bias
    ``[dim]``; y as u, the state ``[batch, dim, dstate]`` f32. Any strides; only a B or C with
    several groups is copied, if the other is ``[dim, dstate]``. mamba_ssm's complex A is refused.
    Dtypes, numerics and errors are those of ``dlblas.selective_scan``, which takes an initial
    state. Source: mamba_ssm's selective_scan_fn, 2023.
    """
    b, c = (t[:, None] if len(t.shape) == 3 else t for t in (B, C))
    if len(u.shape) == 3 and 2 in (len(b.shape), len(c.shape)):
        b, c = (_each_channel(t, *u.shape) for t in (b, c))
    y, state = _scan(u, delta, A, b, c, D, None, z, delta_bias, delta_softplus)
    return (y, state) if return_last_state else y


def _each_channel(t: Any, batch: int, dim: int, length: int) -> Any:
    """B or C as ``[batch, dim, dstate, L]``: one group per channel."""
    if len(t.shape) == 2:
        return spread(t[None, :, :, None], (batch, *t.shape, length))
    groups = int(t.shape[1])
    if len(t.shape) != 4 or groups == 0 or dim % groups:
        return t  # the operator says what is wrong
    if groups == 1:
        return spread(t, (int(t.shape[0]), dim, *t.shape[2:]))
    each = spread(t[:, :, None], (*t.shape[:2], dim // groups, *t.shape[2:]))
    return each.reshape((int(t.shape[0]), dim, *t.shape[2:]))


selective_scan_fn = selective_scan
