"""torch.autocast for modules with matrix products: torch casts the arguments of its own linear
layers there, while our operators keep the dtypes that they are given.

Used by: linear.py, gated_mlp.py, fp8_linear.py, fused_linear_cross_entropy.py. Read next:
docs/torch.md.
"""

from __future__ import annotations

from typing import Any

import torch


def cast(*tensors: Any) -> tuple[Any, ...]:
    """Inside ``torch.autocast``, casts floats other than f64 to its dtype; else changes nothing. If
    the first is no tensor, the function behind the module refuses it."""
    if not isinstance(tensors[0], torch.Tensor):
        return tensors
    device = tensors[0].device.type
    if device not in ("cpu", "cuda") or not torch.is_autocast_enabled(device):
        return tensors
    dtype = torch.get_autocast_dtype(device)
    return tuple(t.to(dtype) if _is_cast(t, device) else t for t in tensors)


def _is_cast(t: Any, device: str) -> bool:
    if t is None or t.device.type != device:
        return False
    return bool(t.is_floating_point() and t.dtype is not torch.float64)
