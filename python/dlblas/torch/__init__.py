"""The operators in torch: ``torch.ops.dlblas.*``, their fakes and gradients.

Importing this package registers them; so does the later of ``import dlblas`` and ``import torch``.
Read next: _register.py, docs/torch.md.
"""

from __future__ import annotations

from ..errors import UnsupportedError
from . import _register

if _why_not := _register.attach():
    raise UnsupportedError.from_library(_why_not, "dlblas")
