"""``dlblas.kernels.partial_rotary_emb``: the heads of DeepSeek's latent attention, with gradients,
under DLBlas's names.

In: torch tensors. Out: torch tensors. Read next: ../../../ops/rope/partial_rotary.py.
"""

from __future__ import annotations

from .._faces import partial_rotary_emb
from ..ops.rope_partial_rotary import PartialRotaryEmb

__all__ = ["PartialRotaryEmb", "partial_rotary_emb"]
