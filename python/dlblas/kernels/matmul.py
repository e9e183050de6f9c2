"""``dlblas.kernels.matmul``: the matrix product under DLBlas's path.

Read next: ../../../ops/gemm/matmul/matmul.py.
"""

from __future__ import annotations

from typing import Any

from .._arguments import hinted
from .._functions import FUNCTIONS

__all__ = ["call", "matmul"]

_matmul = FUNCTIONS["matmul"].call


@hinted
def matmul(a: Any, b: Any, activation: str = "") -> Any:
    """``act(a · b)``: ``dlblas.matmul``, which also takes ``bias`` and ``out_dtype``."""
    return _matmul(a, b, activation)


call = matmul
