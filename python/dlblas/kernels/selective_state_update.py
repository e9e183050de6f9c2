"""``dlblas.kernels.selective_state_update``: DLBlas's and mamba_ssm's form, with or without heads.

Read next: ../../../ops/ssm/selective_state_update/selective_state_update.py.
"""

from __future__ import annotations

from typing import Any

from .._arguments import hinted
from .._functions import FUNCTIONS

__all__ = ["call", "selective_state_update"]

_update = FUNCTIONS["selective_state_update"].call


@hinted
def selective_state_update(
    state: Any,
    x: Any,
    dt: Any,
    A: Any,  # noqa: N803 - the names of callers
    B: Any,  # noqa: N803
    C: Any,  # noqa: N803
    D: Any = None,  # noqa: N803
    z: Any = None,
    dt_bias: Any = None,
    dt_softplus: bool = False,
) -> Any:
    """Advances ``state`` in place by one token and returns y, shaped as x.

    ``state = e^(dt'·A)·state + dt'·x·B``, ``y = (Σ C·state + D·x)·silu(z)``, ``dt' = softplus(dt +
    dt_bias)``.

    state ``[batch, dim, dstate]`` or ``[batch, nheads, dim, dstate]``; x, dt and z ``[batch, dim]``
    or ``[batch, nheads, dim]``; A ``[dim, dstate]`` or ``[nheads, dim, dstate]``; B and C ``[batch,
    dstate]`` or ``[batch, ngroups, dstate]``; D and dt_bias ``[dim]`` or ``[nheads, dim]``. Any
    strides; nothing is copied. Dtypes, numerics and errors are those of
    ``dlblas.selective_state_update``. Source: mamba_ssm, 2024.
    """
    b, c = (t[:, None] if len(t.shape) == 2 else t for t in (B, C))
    if len(x.shape) != 2:
        return _update(state, x, dt, A, b, c, D, z, dt_bias, dt_softplus)
    # Non-arrays pass through unchanged: the operator reports them.
    skip, bias = (t[None] if hasattr(t, "shape") else t for t in (D, dt_bias))
    gate = z[:, None] if hasattr(z, "shape") else z
    y = _update(
        state[:, None], x[:, None], dt[:, None], A[None], b, c, skip, gate, bias, dt_softplus
    )
    return y[:, 0]


call = selective_state_update
