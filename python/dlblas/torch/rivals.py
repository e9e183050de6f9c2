"""torch's own attention as candidates, for a shell that has not loaded torch: ``dlblas --import
dlblas.torch.rivals tune flash_attention_lse …``; a worker imports this module, too.

They are in the registry of every process that has torch, where they are queried, searched, checked
by the oracle, timed and explained like any other. Read next: _rivals.py, _attention.py.
"""

from __future__ import annotations

from ..own import _source
from . import _rivals
from ._attention import torch_cudnn, torch_flash, torch_sdpa

__all__ = ["torch_cudnn", "torch_flash", "torch_sdpa"]

for _op, _name, *_rest in _rivals.ROWS:  # so that a worker imports this, whatever it searches
    _source.note(f"{_op}.{_name}", _rivals.MODULE)
