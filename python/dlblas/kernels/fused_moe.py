"""``dlblas.kernels.fused_moe``: gated experts with DLBlas's argument order.

A thin wrapper of ``dlblas.fused_moe``. Read next: ../../../ops/moe/api.py.
"""

from __future__ import annotations

from typing import Any

from .._arguments import hinted
from .._faces import fused_moe as _fused_moe
from ..errors import ArgumentError, Error, renamed

__all__ = ["fused_moe"]

_CALLED = {"x": "hidden_states", "w13": "w1"}


@hinted
def fused_moe(
    hidden_states: Any,
    w1: Any,
    w2: Any,
    topk_weights: Any,
    topk_ids: Any,
    topk: int,
    expert_offset: int = 0,
    num_experts: int | None = None,
    renormalize: bool = False,
) -> Any:
    """Calls ``dlblas.fused_moe`` (see there); ``w1 [E, 2F, C]`` is its w13.

    ``topk``: experts per token, topk_ids' last dimension. ``num_experts``: the number on all ranks;
    this rank has the E experts from ``expert_offset`` on. Errors: ArgumentError for another topk,
    and if these E are not all within num_experts.
    """
    if topk != topk_ids.shape[-1]:
        _refuse("topk", str(topk_ids.shape[-1]), topk)
    experts = int(w1.shape[0])
    if expert_offset < 0 or (num_experts is not None and expert_offset + experts > num_experts):
        expected = "0 or more" if num_experts is None else f"0 to {num_experts - experts}"
        _refuse("expert_offset", expected, expert_offset)
    try:
        return _fused_moe(
            hidden_states, w1, w2, topk_weights, topk_ids,
            renormalize=renormalize, expert_offset=expert_offset,
        )  # fmt: skip
    except Error as error:
        if error.argument not in _CALLED:
            raise
        raise renamed(error, "fused_moe", _CALLED[error.argument], _CALLED) from error


def _refuse(argument: str, expected: str, got: int) -> None:
    raise ArgumentError.from_library(
        f"fused_moe: {argument} does not fit; expected {expected}, got {got}",
        "fused_moe", argument, expected, str(got),
    )  # fmt: skip
