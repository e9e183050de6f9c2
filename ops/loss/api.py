"""``dlblas.cross_entropy``: the loss of a model's logits, reduced as torch reduces it; and
``dlblas.fused_linear_cross_entropy``, which computes the logits a few rows at a time.

In: arrays of any package that the operators accept. Out: a loss, or one per row; gradients and
torch.compile go through ``cross_entropy_rows``. Read next: cross_entropy_rows/,
linear_cross_entropy.py.
"""

from __future__ import annotations

from typing import Any

from .._dtypes import name_of
from .._empty import empty
from .._functions import FUNCTIONS
from .._given import as_matrix, functions_of, is_numpy
from .._results import check_loss
from ..errors import (
    ArgumentError,
    ArgumentTypeError,
    DeviceError,
    Error,
    ShapeMismatchError,
    UnsupportedDtypeError,
)

__all__ = ["cross_entropy", "fused_linear_cross_entropy"]

MADE_OF = {
    "fused_linear_cross_entropy": ("matmul", "cross_entropy_rows", "cross_entropy_rows_backward_")
}
CALLED = {
    "cross_entropy": {"class_weight": "weight", "weight_sum": "weight"},
    "fused_linear_cross_entropy": {
        "a": "x", "b": "weight", "bias": "bias", "class_weight": "ce_weight",
        "weight_sum": "ce_weight",
    },
}  # fmt: skip

OPERATORS_IN_TORCH = ("linear_cross_entropy",)

_rows = FUNCTIONS["cross_entropy_rows"].call
_matmul = FUNCTIONS["matmul"].call
_REDUCTIONS = ("mean", "sum", "none")


def _check_options(op: str, reduction: str, ignore_index: int, lse_square_scale: float) -> None:
    if reduction not in _REDUCTIONS:
        expected = ", ".join(_REDUCTIONS)
        raise ArgumentError.from_library(
            f"{op}: reduction is not offered; expected {expected}, got {reduction!r}",
            op, "reduction", expected, repr(reduction),
        )  # fmt: skip
    if ignore_index is None or lse_square_scale is None:
        name, expected = (
            ("ignore_index", "an integer") if ignore_index is None
            else ("lse_square_scale", "a number")
        )  # fmt: skip
        raise ArgumentTypeError.from_library(
            f"{op}: {name} is of another type; expected {expected}, got None",
            op, name, expected, "None",
        )  # fmt: skip
    if isinstance(ignore_index, int) and not -(2**63) <= ignore_index < 2**63:
        expected, got = "a 64-bit integer", "an integer beyond 2^63"
        raise ArgumentError.from_library(
            f"{op}: ignore_index is too large; expected {expected}, got {got}",
            op, "ignore_index", expected, got,
        )  # fmt: skip


def _class_weight(op: str, name: str, weight: Any, logits: Any) -> Any:
    """Converts weights of the logits' dtype to f32, which the operator reads; keeps others."""
    dtype = getattr(weight, "dtype", None)
    known = dtype is not None and hasattr(logits, "dtype")  # else the operator refuses logits
    if known and hasattr(weight, "new_empty") != hasattr(logits, "new_empty"):
        got, expected = (type(x).__name__ for x in (weight, logits))
        raise ArgumentTypeError.from_library(
            f"{op}: {name} is of another package; expected {expected}, got {got}",
            op, name, expected, got,
        )  # fmt: skip
    if dtype is None or dtype != getattr(logits, "dtype", None):
        return weight
    if hasattr(weight, "new_empty"):
        return weight.float()
    return weight.astype("float32", copy=False) if hasattr(weight, "astype") else weight


def _masked(values: Any, counts: Any) -> Any:
    """Zeroes the rows that do not count, whatever they hold: multiplying by 0 would keep NaN."""
    if hasattr(values, "masked_fill"):
        return values.masked_fill(~counts, 0.0)
    return functions_of(values).where(counts, values, values.dtype.type(0))


def _beside(loss: Any, target: Any) -> Any:
    """The target in the package of the loss, where one is torch's and the other NumPy's."""
    if is_numpy(target) and hasattr(loss, "new_empty"):
        import torch

        return torch.from_numpy(target)
    if is_numpy(loss) and hasattr(target, "new_empty"):
        return target.numpy()
    return target


def _sum_of_weights(weight: Any, target: Any, counts: Any) -> Any:
    """Σ w of the targets that count. An invalid target reads some weight: its loss is NaN."""
    classes = weight.shape[0]
    each = weight[target.clip(0, classes - 1)] if classes else weight.sum()
    return (each * counts).sum()


def _no_arithmetic(target: Any) -> Error:
    """The error for an array without arithmetic, such as dlblas.Array."""
    expected, got = "a torch tensor or a NumPy array", type(target).__name__
    return ArgumentTypeError.from_library(
        f"cross_entropy: target has no arithmetic; expected {expected}, got {got}; pass "
        "numpy.asarray() of the arrays, or call cross_entropy_rows",
        "cross_entropy", "target", expected, got,
    )  # fmt: skip


def _reduced(
    loss: Any, lse: Any, target: Any, weight: Any, ignore_index: int, lse_square_scale: float,
    reduction: str, wants_z: bool,
) -> tuple[Any, Any]:  # fmt: skip
    """(loss, z_loss) of the rows' losses and lse; z_loss is None if it is not wanted."""
    target = _beside(loss, target)
    counts = target != ignore_index
    if isinstance(counts, bool):
        raise _no_arithmetic(target)
    z_loss = None
    if lse_square_scale or wants_z:
        lse = _masked(lse, counts)
        z_loss = lse_square_scale * lse * lse
    if reduction != "none":
        rows = counts.sum() if reduction == "mean" else 1
        if not hasattr(loss, "new_empty"):  # NumPy would divide by an integer in f64
            rows = loss.dtype.type(rows)
        weights = rows
        if reduction == "mean" and weight is not None:
            weights = _sum_of_weights(weight, target, counts)
        loss = loss.sum() / weights
        z_loss = z_loss.sum() / rows if z_loss is not None else None
    if lse_square_scale:
        loss = loss + z_loss
    return loss, z_loss


def cross_entropy(
    logits: Any, target: Any, weight: Any = None, *, ignore_index: int = -100,
    label_smoothing: float = 0.0, lse_square_scale: float = 0.0, reduction: str = "mean",
    softcap: float | None = None, return_z_loss: bool = False, out: Any = None,
) -> Any:  # fmt: skip
    """Cross entropy of rows of logits, with class weights, label smoothing, z-loss and a soft cap.

    ``x = softcap · tanh(logits / softcap)`` if softcap is given, ``lse = log sum_C exp(x)``,
    ``loss = (1 − ε) · w_y · (lse − x_y) + ε/C · sum_C w · (lse − x) + lse_square_scale · lse²`` for
    the row's target y, and 0 where y is ignore_index. ``"mean"`` divides the sum by ``sum w_y``
    over the rows that count (by their number without weights), as torch does, and the z-losses by
    their number. Returns the loss; with ``return_z_loss`` a tuple of it and its part
    ``lse_square_scale · lse²``. An ignored row adds nothing to either and has a gradient of 0,
    whatever its logits are.

    logits ``[*T, C]`` f32, f16 or bf16, target ``[*T]`` i32 or i64, weight ``[C]`` f32 or logits'
    dtype. The loss is f32, ``[]`` or, with ``"none"``, ``[*T]``. One read of the logits forward,
    one read and one write backward; 16-bit logits are never stored as f32. ``out`` gets a copy of
    the loss (a tuple: of both results), without gradients. Errors: ArgumentError for another
    reduction, and those of ``cross_entropy_rows``. A target outside 0 … C − 1 that is not
    ignore_index gives NaN. Source: torch's and Liger Kernel's functions of this name.
    """
    _check_options("cross_entropy", reduction, ignore_index, lse_square_scale)
    if out is not None:
        names = ("loss", "z_loss") if return_z_loss else ("loss",)
        shape = tuple(target.shape) if reduction == "none" else ()
        inputs = {"logits": logits, "target": target, "weight": weight}
        places = check_loss("cross_entropy", out, names, shape, inputs)
    weight = _class_weight("cross_entropy", "weight", weight, logits)
    total = weight.sum() if weight is not None and label_smoothing else None
    loss, lse = _rows(logits, target, weight, total, ignore_index, label_smoothing, softcap or 0.0)
    loss, z_loss = _reduced(
        loss[..., 0], lse[..., 0], target, weight, ignore_index, lse_square_scale, reduction,
        return_z_loss,
    )  # fmt: skip
    if out is not None:
        for place, value in zip(places, (loss, z_loss), strict=False):
            place[...] = value
        return out
    return (loss, z_loss) if return_z_loss else loss


def fused_linear_cross_entropy(
    x: Any, weight: Any, target: Any, bias: Any = None, ce_weight: Any = None,
    ignore_index: int = -100, lse_square_scale: float = 0.0, label_smoothing: float = 0.0,
    reduction: str = "mean", softcap: float | None = None, return_z_loss: bool = False, *,
    out: Any = None,
) -> Any:  # fmt: skip
    """Cross entropy of ``x · weightᵀ + bias``, without ever storing all of the logits.

    ``logits = round(x · weightᵀ + bias)`` in x's dtype, then as ``cross_entropy``: the same loss,
    z-loss and reductions. Rows are processed in parts of at most 256 MB of logits (at least 128
    rows). Each part computes its products, its losses and, where x, weight or bias require grad,
    their gradients, so that backward only scales them. With ``"none"`` each row has its own factor,
    and backward recomputes the logits. Nothing waits for the device.

    torch tensors, or NumPy arrays, which have no gradients. x ``[*T, H]`` f32, f16 or bf16, weight
    ``[V, H]`` of x's dtype (a layer's ``nn.Linear.weight``), target ``[*T]`` i32 or i64, bias
    ``[V]`` of x's dtype or f32, ce_weight ``[V]`` f32 or x's dtype, one weight per class. The loss
    is f32, ``[]`` or ``[*T]``; with ``return_z_loss`` a tuple of it and its part ``lse_square_scale
    · lse²``, which carries no gradient. dlogits have x's dtype; the weight's gradient is summed in
    f32 over the parts, rounded once, and then scaled by the loss's gradient: several parts need a
    temporary f32 copy of its size. No gradient of a gradient. ``out`` gets a copy of the loss (a
    tuple: of both results), without gradients. Errors: ArgumentTypeError for other arrays,
    ArgumentError for another reduction, ShapeMismatchError; those of ``matmul`` and
    ``cross_entropy_rows``. Source: Liger Kernel's function of this name.
    """
    op = "fused_linear_cross_entropy"
    _check_options(op, reduction, ignore_index, lse_square_scale)
    of_numpy = is_numpy(x)
    kind = "NumPy array" if of_numpy else "torch tensor"
    for name, value in (("x", x), ("weight", weight), ("target", target)):
        if not (is_numpy(value) if of_numpy else hasattr(value, "new_empty")):
            got = type(value).__name__
            raise ArgumentTypeError.from_library(
                f"{op}: {name} is no {kind}; expected one, got {got}", op, name, f"a {kind}", got
            )
    width = tuple(x.shape[-1:])
    if not width:
        raise ShapeMismatchError.from_library(
            f"{op}: x has no dimensions; expected [*T, H], got ()", op, "x", "[*T, H]", "()"
        )
    if len(weight.shape) != 2 or tuple(weight.shape[1:]) != width:
        expected, got = f"[V, {width[0]}]", str(tuple(weight.shape))
        raise ShapeMismatchError.from_library(
            f"{op}: weight does not fit x {tuple(x.shape)}; expected {expected}, got {got}",
            op, "weight", expected, got,
        )  # fmt: skip
    if tuple(target.shape) != tuple(x.shape[:-1]):
        expected, got = str(tuple(x.shape[:-1])), str(tuple(target.shape))
        raise ShapeMismatchError.from_library(
            f"{op}: target does not fit x; expected {expected}, got {got}",
            op, "target", expected, got,
        )  # fmt: skip
    if out is not None:
        names = ("loss", "z_loss") if return_z_loss else ("loss",)
        shape = tuple(target.shape) if reduction == "none" else ()
        inputs = {
            "x": x, "weight": weight, "target": target, "bias": bias, "ce_weight": ce_weight,
        }  # fmt: skip
        places = check_loss(op, out, names, shape, inputs)
    _check_rows(op, x, weight, target, ce_weight)
    classes = _class_weight(op, "ce_weight", ce_weight, x)
    if of_numpy:
        loss, lse = _rows_in_parts(
            x, weight, target, bias, classes, (ignore_index, label_smoothing, softcap or 0.0)
        )
        loss, z_loss = _reduced(
            loss, lse, target, classes, ignore_index, lse_square_scale, reduction, return_z_loss
        )
    else:
        from .loss_linear_cross_entropy import Call, linear_cross_entropy

        call = Call(ignore_index, lse_square_scale, label_smoothing, reduction, softcap or 0.0)
        loss, z_loss = linear_cross_entropy(x, weight, target, bias, classes, call)
    if out is not None:
        for place, value in zip(places, (loss, z_loss), strict=False):
            place[...] = value
        return out
    return (loss, z_loss) if return_z_loss else loss


def _check_rows(op: str, x: Any, weight: Any, target: Any, ce_weight: Any) -> None:
    """Refuses targets and class weights with which the sums around the operators would fail."""
    kind = name_of(target.dtype) or str(target.dtype)
    if kind not in ("i32", "i64"):
        raise UnsupportedDtypeError.from_library(
            f"{op}: target has dtype {kind}; expected i32, i64, got {kind}",
            op, "target", "i32, i64", kind,
        )  # fmt: skip
    shape = getattr(ce_weight, "shape", None)
    if shape is not None and len(shape) != 1:
        expected, got = str(tuple(weight.shape[:1])), str(tuple(shape))
        raise ShapeMismatchError.from_library(
            f"{op}: ce_weight does not fit weight; expected {expected}, got {got}",
            op, "ce_weight", expected, got,
        )  # fmt: skip
    there = str(getattr(x, "device", "cpu"))
    for name, tensor in (("weight", weight), ("target", target), ("ce_weight", ce_weight)):
        here = str(getattr(tensor, "device", there))
        if here != there:
            raise DeviceError.from_library(
                f"{op}: {name} is on another device; expected {there}, got {here}",
                op, name, there, here,
            )  # fmt: skip


_PART, _LEAST_ROWS = (
    256 << 20,
    128,
)  # bytes of logits at a time, and the rows that they are at least


def _rows_in_parts(
    x: Any, weight: Any, target: Any, bias: Any, classes: Any, options: tuple[Any, ...]
) -> tuple[Any, Any]:
    """(losses, lse) of NumPy's rows, with the logits of a part of them at a time."""
    rows, targets = as_matrix(x), target.reshape((-1,))
    count, size = int(rows.shape[0]), int(weight.shape[0]) * x.itemsize
    each = max(_LEAST_ROWS, _PART // max(1, size))
    total = classes.sum() if classes is not None and options[1] else None
    loss, lse = (empty(x, (count, 1), "f32", "fused_linear_cross_entropy") for _ in range(2))
    for first in range(0, max(1, count), each):
        part = slice(first, first + each)
        logits = _matmul(rows[part], weight.T, bias=bias)
        _rows(logits, targets[part], classes, total, *options, out=(loss[part], lse[part]))
    return loss.reshape(target.shape), lse.reshape(target.shape)
