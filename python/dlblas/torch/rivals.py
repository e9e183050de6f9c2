"""torch's own functions as candidates, for a shell that has not loaded torch: ``dlblas --import
dlblas.torch.rivals tune flash_attention_lse …``; a worker imports this module, too.

They are in the registry of every process that has torch, where they are queried, searched, checked
by the oracle, timed and explained like any other. Read next: _rivals.py, ops/attention/rivals.py.
"""

from __future__ import annotations

from ..own import _source
from . import _rivals

for _rival in _rivals.rivals():  # so that a worker imports this, whatever it searches
    _source.note(f"{_rival.op}.{_rival.name}", _rivals.MODULE)
