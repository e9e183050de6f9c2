"""Operators of this family whose functions take more than their schemas say, as editors and type
checkers see them in place of _ops.pyi's: see python/dlblas/_other_forms.py and _over_dim.py.
"""

from typing import Any, TypeAlias, TypeVar, overload

_A = TypeVar("_A")
_Array: TypeAlias = Any

@overload
def add_rms_norm(
    x: _A,
    weight: _Array,
    residual: None = None,
    eps: float = 1e-6,
    *,
    weight_offset: float = 0.0,
    cast_before_weight: bool = False,
    out: _A | None = None,
    stream: int | None = None,
) -> _A:
    """h = round(x + residual); residual_out = h; y = h · rsqrt(mean_C(h²) + eps) · (weight +
    weight_offset). Without a residual, y alone."""

@overload
def add_rms_norm(
    x: _A,
    weight: _Array,
    residual: _Array,
    eps: float = 1e-6,
    *,
    weight_offset: float = 0.0,
    cast_before_weight: bool = False,
    out: tuple[_A, _A] | None = None,
    stream: int | None = None,
) -> tuple[_A, _A]: ...
def softmax(x: _A, dim: int = -1, *, out: _A | None = None, stream: int | None = None) -> _A:
    """y = exp(x − max(x)) / sum exp(x − max(x)) over dim."""

def log_softmax(x: _A, dim: int = -1, *, out: _A | None = None, stream: int | None = None) -> _A:
    """y = x − max(x) − log sum exp(x − max(x)) over dim."""

def l2_norm(
    x: _A,
    eps: float = 1e-12,
    *,
    dim: int = -1,
    out: _A | None = None,
    stream: int | None = None,
) -> _A:
    """y = x / max(sqrt(sum x²), eps) over dim."""
