"""Weights that are packed once for many products on CPUs.

In: a weight, or x and a weight that was packed. Out: the packed weight, or the product; typed
errors for a GPU's tensors and for other weights. Used by: api.py, ../../python/dlblas/nn/. Read
next: weight_panels/weight_panels.cpp, linear_panels/linear_panels.cpp.
"""

from __future__ import annotations

from typing import Any

from .._dtypes import name_of
from .._empty import viewed
from .._functions import FUNCTIONS
from .._given import as_rows, need
from ..errors import DeviceError, UnsupportedDtypeError

# As in api.py: the arguments of operators by the names that callers use.
CALLED = {"linear_packed": {"panels": "packed", "y": "out"}}

_weight_panels, _linear_panels = (
    FUNCTIONS[name].call for name in ("weight_panels", "linear_panels")
)

# Dtype of a weight -> of its packed form: integers, which no cast of a module's floats changes, and
# which cannot be taken for a weight.
_PACKED = {"f32": "int32", "bf16": "int16", "f16": "uint16"}


def pack_weight(weight: Any) -> Any:
    """A linear layer's weight, packed once for many calls of ``linear_packed`` on CPUs.

    weight ``[N, K]``, f32, bf16 or f16, of any strides -> packed ``[N, K]``, int32, int16 or
    uint16: the bits of its elements in the order in which products read them, as many bytes as
    weight has. The order is the same on every CPU, so packed may be saved and loaded elsewhere; its
    dtype says what it was made of. A slice of it is no packed weight: slice the weight. Calls
    ``weight_panels``. On a GPU use ``linear`` and the weight itself. Errors: ShapeMismatchError,
    UnsupportedDtypeError; DeviceError on a GPU. No gradient. Source: Goto and van de Geijn, Anatomy
    of High-Performance Matrix Multiplication, 2008.
    """
    need("pack_weight", weight=weight)
    _on_cpu("pack_weight", "weight", weight)
    panels = _weight_panels(weight)
    return viewed("pack_weight", "weight", panels, _PACKED[_dtype_of(panels)])


def linear_packed(
    x: Any, packed: Any, bias: Any = None, activation: str = "", *, out_dtype: Any = None,
    out: Any = None,
) -> Any:  # fmt: skip
    """A linear layer on CPUs whose weight was packed beforehand: ``y = act(x · weightᵀ + bias)``.

    x ``[*T, K]``, packed ``[N, K]`` from ``pack_weight`` of a weight of x's dtype, bias ``[N]`` ->
    y ``[*T, N]``. Activations, dtypes of bias and result, numerics and ``out`` are those of
    ``linear``; the bits are those of its blocked implementations, so other than ``linear``'s where
    that takes another form. Worth it for 8 to 128 rows: one row takes up to a tenth longer than
    with ``linear``, and so do 500 and more, for which that may take oneDNN. Calls
    ``linear_panels``. Leading dimensions are rows; where no view joins them x is copied. On a GPU
    use ``linear`` and the weight itself. Errors: UnsupportedDtypeError for a weight that is not
    packed, and for one of another dtype than x's; ShapeMismatchError; DeviceError on a GPU. No
    gradient. Source: Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication,
    2008.
    """
    need("linear_packed", x=x, packed=packed)
    _on_cpu("linear_packed", "packed", packed)
    _on_cpu("linear_packed", "x", x)
    of, got = _dtype_of(x), str(getattr(packed, "dtype", "")).rpartition(".")[2]
    if of in _PACKED and got not in (_PACKED[of], ""):
        expected = f"{_PACKED[of]}, which pack_weight returns for {of}"
        made = next((one for one, name in _PACKED.items() if name == got), None)
        hint = f"; it was packed from {made}, x is {of}" if made else ""
        raise UnsupportedDtypeError.from_library(
            f"linear_packed: packed is of another dtype; expected {expected}, got {got}{hint}",
            "linear_packed", "packed", expected, got,
        )  # fmt: skip
    if of in _PACKED:
        packed = viewed("linear_packed", "packed", packed, of)
    return _linear_panels(as_rows(x), packed, activation, bias=bias, out_dtype=out_dtype, out=out)


def _on_cpu(op: str, name: str, x: Any) -> None:
    """Refuses a GPU's tensors: its products read a weight as it is."""
    kind = getattr(getattr(x, "device", None), "type", "cpu")
    if kind in ("cpu", "meta"):
        return
    expected = "a CPU, whose order packed weights have"
    raise DeviceError.from_library(
        f"{op}: {name} is on another device; expected {expected}, got {kind}; use linear and the "
        "weight itself there",
        op, name, expected, kind,
    )  # fmt: skip


def _dtype_of(x: Any) -> str:
    return name_of(getattr(x, "dtype", "")) or ""
