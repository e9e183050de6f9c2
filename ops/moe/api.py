"""``dlblas.topk_gating``: GShard's capacity gating, with the capacity computed from the batch's
sizes; and ``dlblas.fused_moe``: the gated experts of each token, as calls of five operators.

In: arrays of any package that the operators take. Out: what the operators return. This file only
computes the capacity and maps ids to local experts. Read next: topk_gating_slots/,
topk_gating_backward/, moe_sort/, moe_permute/, ../gemm/grouped_gemm_gathered/.
"""

from __future__ import annotations

import math
import sys
from typing import Any, NoReturn

from .._dtypes import name_of
from .._empty import empty
from .._functions import FUNCTIONS
from .._given import (
    as_matrix,
    asks_for_gradients,
    check_dense,
    check_place,
    grad_error,
    integer,
    need,
)
from .._overlap import check_apart
from ..errors import (
    ArgumentError,
    ArgumentTypeError,
    DeviceError,
    ShapeMismatchError,
    UnsupportedDtypeError,
)

__all__ = ["fused_moe", "topk_gating"]

_topk_gating_slots = FUNCTIONS["topk_gating_slots"].call
_moe_sort = FUNCTIONS["moe_sort"].call
_moe_permute = FUNCTIONS["moe_permute"].call
_moe_unpermute = FUNCTIONS["moe_unpermute"].call
_grouped_gemm = FUNCTIONS["grouped_gemm_rows"].call
_grouped_gathered = FUNCTIONS["grouped_gemm_gathered"].call
_silu_and_mul = FUNCTIONS["silu_and_mul"].call
_quantize = FUNCTIONS["quantize_group"].call
_grouped_block = FUNCTIONS["grouped_gemm_rows_block"].call
_silu_and_mul_quant = FUNCTIONS["silu_and_mul_quant_group"].call


def topk_gating(
    logits: Any,
    k: int,
    capacity_factor: float = 1.0,
    min_capacity: int = 2,
    higher_precision: bool = False,
    *,
    out: Any = None,
) -> tuple[Any, Any, Any, Any]:
    """Assigns tokens to experts of limited capacity: ``(l_aux, token_rearranged_ec_idx,
    token_exp_weights, expert_select_token_idx)``.

    ``capacity = max(ceil(T / E · capacity_factor · k), min_capacity)``, in f32, and at most T.
    ``g = softmax_E(logits)``; each token chooses the experts of its k largest logits, ties in
    favour of the lower expert. Choices take the slots of their experts: all first choices in token
    order, then all second ones, and so on. Choices that find no free slot are dropped. ``l_aux =
    E · Σ_e mean_T(g)_e · mean_T(first choice is e)``.

    logits ``[*T, E]`` (T counts the tokens of all leading dimensions) -> l_aux ``[]``;
    token_rearranged_ec_idx ``[k·T]`` i32, choice j of token t at ``j·T + t``: ``expert · capacity +
    place``, 0 where dropped; token_exp_weights ``[k·T]``: g over the sum of g of the token's kept
    choices (at least the dtype's eps), 0 where dropped; expert_select_token_idx ``[E · capacity]``
    i64: the token in each slot, 0 in empty slots. l_aux and weights have logits' dtype, or f32 with
    ``higher_precision``. Any E; k up to E.

    ``out``, a tuple of the four results, is written. In torch, l_aux and the weights have gradients
    unless ``out`` is given. Never waits for a GPU; results are the same in every run. Under
    torch.compile and in torch.export the number of tokens may be dynamic. Errors: ArgumentError for
    a k above E or below 0, for a capacity_factor that is below 0 or not finite, and for a
    min_capacity below 0; those of ``topk_gating_slots``. Source: Lepikhin et al., GShard, 2020.
    """
    shape = logits.shape
    if len(shape) < 2:
        raise ShapeMismatchError.from_library(
            f"topk_gating: logits has another shape; expected [*T, E], got {tuple(shape)}",
            "topk_gating", "logits", "[*T, E]", str(tuple(shape)),
        )  # fmt: skip
    if len(shape) > 2:
        logits = as_matrix(logits)
    tokens, experts = logits.shape
    if not isinstance(k, int) and hasattr(k, "shape"):  # NumPy's, or an array without dimensions
        k = integer("topk_gating", "k", k)
    if not isinstance(capacity_factor, (int, float)) and hasattr(capacity_factor, "shape"):
        capacity_factor = _factor(capacity_factor)
    if not 0 <= k <= experts:
        raise _wrong("k", f"0 to {experts} choices, one of each expert", k)
    if not 0 <= capacity_factor < math.inf:  # nor NaN
        raise _wrong("capacity_factor", "a finite number, 0 or more", capacity_factor)
    min_capacity = integer("topk_gating", "min_capacity", min_capacity)
    if min_capacity < 0:
        raise _wrong("min_capacity", "0 or more places", min_capacity)
    capacity = _capacity(tokens, experts, capacity_factor * k, min_capacity)
    places = None
    if out is not None and (not isinstance(out, tuple) or len(out) != 4):
        got = f"{len(out)}" if isinstance(out, tuple) else type(out).__name__
        raise _wrong("out", "a tuple of 4, in result order", got)
    if out is not None:
        kept, firsts = (
            empty(logits, (size,), "i32", "topk_gating") for size in (k * tokens, experts)
        )
        places = (*out, kept, firsts)
    dtype = _f32_of(logits) if higher_precision else None
    results = _topk_gating_slots(logits, k, capacity, dtype, out=places)
    return results[:4] if out is None else out  # type: ignore[no-any-return]


def fused_moe(
    x: Any,
    w13: Any,
    w2: Any,
    topk_weights: Any,
    topk_ids: Any,
    *,
    w13_scale: Any = None,
    w2_scale: Any = None,
    renormalize: bool = False,
    expert_offset: int = 0,
    expert_map: Any = None,
    out: Any = None,
) -> Any:
    """Weighted sum of each token's experts: ``y[t] = Σ_j weight[t, j] · expert(id[t, j], x[t])``.

    ``expert(e, x) = w2[e] · (silu(g) · u)``, ``[g, u] = w13[e] · x``. The gate's F rows come first.

    x ``[*T, C]``, w13 ``[E, 2F, C]``, w2 ``[E, C, F]``, all f32, f16 or bf16; topk_weights
    ``[*T, topk]``, f32 or x's dtype; topk_ids ``[*T, topk]``, i32 or i64 -> y ``[*T, C]``, x's
    dtype. With ``renormalize``, each token's weights are divided by their sum.

    Or w13 and w2 are f8e4m3 codes with ``w13_scale`` ``[E, ceil(2F/128), ceil(C/128)]`` and
    ``w2_scale`` ``[E, ceil(C/128), ceil(F/128)]``, f32, one per block of 128 × 128: then each 128
    values of a row of x, and of ``silu(g) · u``, are quantised with a scale of their own.

    Experts of other ranks contribute nothing. This rank has as many experts as w13, from
    ``expert_offset`` on; or, with ``expert_map`` ``[experts of all ranks]`` i32 or i64, expert e is
    ``expert_map[e]`` on this rank, −1 if it is elsewhere. An id of −1, or beyond the map, is no
    expert either.

    Calls ``moe_sort``, ``grouped_gemm``, which gathers the rows of x, ``silu_and_mul``,
    ``grouped_gemm``, ``moe_unpermute``. Where x or w13 requires grad, ``moe_permute`` copies the
    rows instead. With codes ``quantize`` comes first, ``moe_permute`` copies codes and scales, and
    ``silu_and_mul_quant`` follows. Values between them are rounded to x's dtype; sums are f32.
    Results are the same in every run. Never waits for a GPU and can be captured in a CUDA graph.
    ``out``: where y goes; it shares no memory with the inputs. In torch, x, w13, w2 and
    topk_weights have gradients, unless experts are codes or ``out`` is given. Errors:
    ShapeMismatchError and others of the operators. Source: Gale et al., MegaBlocks, 2022.
    """
    op = "fused_moe"
    need(op, x=x, w13=w13, w2=w2, topk_weights=topk_weights, topk_ids=topk_ids)
    tensors = {
        "x": x, "w13": w13, "w2": w2, "topk_weights": topk_weights, "topk_ids": topk_ids,
        "w13_scale": w13_scale, "w2_scale": w2_scale, "expert_map": expert_map,
    }  # fmt: skip
    experts = _experts(x, w13, w2)
    expert_offset = integer(op, "expert_offset", expert_offset)
    if tuple(topk_weights.shape) != tuple(topk_ids.shape):
        expected, got = str(tuple(topk_ids.shape)), str(tuple(topk_weights.shape))
        raise ShapeMismatchError.from_library(
            f"fused_moe: topk_weights has another shape than topk_ids; expected {expected}, got "
            f"{got}",
            "fused_moe", "topk_weights", expected, got,
        )  # fmt: skip
    _check_weights(x, {"w13": w13, "w2": w2}, {"w13_scale": w13_scale, "w2_scale": w2_scale})
    _check_ids(topk_ids)
    _check_placed(x, tensors, differentiable=w13_scale is None and out is None)
    if out is not None:
        check_place("fused_moe", "out", out, (tuple(x.shape),), name_of(x.dtype), x)
        check_apart("fused_moe", out, **tensors)
    if renormalize:
        topk_weights = topk_weights / topk_weights.sum(axis=-1, keepdims=True)
    if expert_map is not None:
        topk_ids = _local(expert_map, topk_ids)
    if expert_offset:
        topk_ids = topk_ids - expert_offset
    if w13_scale is None:
        if asks_for_gradients(x, w13):  # those of a copy are simpler, and faster
            rows, offsets, inverse = _moe_permute(x, topk_ids, experts)
            rows = _grouped_gemm(rows, w13, offsets)
        else:
            listed, offsets, inverse = _moe_sort(topk_ids, experts)
            rows = _grouped_gathered(as_matrix(x), w13, offsets, listed)
        rows = _grouped_gemm(_silu_and_mul(rows), w2, offsets)
        return _moe_unpermute(rows, inverse, topk_weights, out=out)
    codes, scale = _quantize(x, 128)
    codes, offsets, inverse = _moe_permute(codes, topk_ids, experts)
    scale = _moe_permute(scale, topk_ids, experts)[0]
    rows = _grouped_block(codes, w13, offsets, scale, w13_scale, out_dtype=x.dtype)
    codes, scale = _silu_and_mul_quant(rows, 128)
    rows = _grouped_block(codes, w2, offsets, scale, w2_scale, out_dtype=x.dtype)
    return _moe_unpermute(rows, inverse, topk_weights, out=out)


def _check_weights(x: Any, weights: dict[str, Any], scales: dict[str, Any]) -> None:
    """Refuses weights of another dtype than x, or than f8e4m3 with scales of all blocks."""
    given = [name for name, scale in scales.items() if scale is not None]
    if len(given) == 1:
        missing = "w2_scale" if given == ["w13_scale"] else "w13_scale"
        raise ArgumentError.from_library(
            f"fused_moe: {missing} is missing; expected both scales or none, got one",
            "fused_moe", missing, "both scales or none", "one",
        )  # fmt: skip
    kind = name_of(x.dtype) or str(x.dtype)
    if kind not in ("f32", "f16", "bf16"):
        _refuse_dtype("x", "f32, f16, bf16", kind)
    for name, weight in weights.items():
        got = name_of(weight.dtype) or str(weight.dtype)
        if got != ("f8e4m3" if given else kind):
            _refuse_dtype(name, "f8e4m3, with scales" if given else f"{kind}, as x", got)
        scale = scales[f"{name}_scale"]
        if scale is not None and name_of(scale.dtype) != "f32":
            _refuse_dtype(f"{name}_scale", "f32", name_of(scale.dtype) or str(scale.dtype))
        blocks = (weight.shape[0], -(-weight.shape[1] // 128), -(-weight.shape[2] // 128))
        if scale is not None and tuple(scale.shape) != blocks:
            _refuse_shape(f"{name}_scale", f"{blocks}, one per block of 128 × 128", scale)


def _experts(x: Any, w13: Any, w2: Any) -> int:
    """The number of experts of this rank, from shapes that fit."""
    if len(x.shape) < 2:
        _refuse_shape("x", "[*T, C]", x)
    if len(w13.shape) != 3 or w13.shape[1] % 2 or w13.shape[2] != x.shape[-1]:
        _refuse_shape("w13", f"[E, 2F, {x.shape[-1]}]", w13)
    experts, width, depth = w13.shape
    if tuple(w2.shape) != (experts, depth, width // 2):
        _refuse_shape("w2", f"{(experts, depth, width // 2)} beside w13 {tuple(w13.shape)}", w2)
    return int(experts)


def _refuse_shape(argument: str, expected: str, x: Any) -> NoReturn:
    got = str(tuple(x.shape))
    raise ShapeMismatchError.from_library(
        f"fused_moe: {argument} has another shape; expected {expected}, got {got}",
        "fused_moe", argument, expected, got,
    )  # fmt: skip


def _check_ids(topk_ids: Any) -> None:
    kind = name_of(topk_ids.dtype) or str(topk_ids.dtype)
    if kind not in ("i32", "i64"):
        _refuse_dtype("topk_ids", "i32, i64", kind)


def _check_placed(x: Any, tensors: dict[str, Any], *, differentiable: bool) -> None:
    """Refuses tensors that require grad, unless ``differentiable``, that are not dense, or are on
    another device than x: the operators would call them by names of their own."""
    op, there = "fused_moe", str(getattr(x, "device", "cpu"))
    for name, tensor in tensors.items():
        if not differentiable and asks_for_gradients(tensor):
            raise grad_error(op, name)
        check_dense(op, name, tensor)
        here = str(getattr(tensor, "device", there))
        if here != there:
            raise DeviceError.from_library(
                f"{op}: {name} is on another device; expected {there}, got {here}",
                op, name, there, here,
            )  # fmt: skip


def _refuse_dtype(argument: str, expected: str, got: str) -> NoReturn:
    raise UnsupportedDtypeError.from_library(
        f"fused_moe: {argument} has dtype {got}; expected {expected}, got {got}",
        "fused_moe", argument, expected, got,
    )  # fmt: skip


def _local(expert_map: Any, topk_ids: Any) -> Any:
    """The experts of this rank, −1 for others and for ids that the map does not have."""
    shape = getattr(expert_map, "shape", None)
    if shape is None or len(shape) != 1 or name_of(expert_map.dtype) not in ("i32", "i64"):
        expected = "a vector of i32 or i64"
        got = type(expert_map).__name__ if shape is None else f"{expert_map.dtype} {tuple(shape)}"
        raise ArgumentTypeError.from_library(
            f"fused_moe: expert_map has another form; expected {expected}, got {got}",
            "fused_moe", "expert_map", expected, got,
        )  # fmt: skip
    if shape[0] == 0:
        return topk_ids * 0 - 1
    there = ((topk_ids >= 0) & (topk_ids < shape[0])) * 1
    return expert_map[topk_ids * there] * there + there - 1


def _f32_of(array: Any) -> Any:
    """f32 as the array's package names it, the only form that torch's gradients recognise."""
    torch = sys.modules.get("torch")
    return torch.float32 if torch and isinstance(array, torch.Tensor) else "f32"


def topk_gating_capacity(tokens: int, experts: int, factor: float, least: int) -> int:
    """``max(ceil(tokens / experts · factor), least)`` in f32, and at most tokens. Apart from the
    test for 0, no branch depends on the number of tokens."""
    wanted, times = 0, _f32(min(factor, _LARGEST)) if factor > 0 else 0.0
    if tokens and times > 0:
        wanted = math.ceil(_f32(_f32(tokens / max(1, experts)) * times))
    return _larger(0, _smaller(_larger(wanted, least), tokens))


_LARGEST = 2.0**100  # of a factor: a capacity is at most T


def _capacity(tokens: Any, *rest: Any) -> Any:
    """The capacity; for a dynamic token count, from a torch operator that stays in the graph."""
    torch = sys.modules.get("torch")
    if torch and (torch.compiler.is_compiling() or isinstance(tokens, torch.SymInt)):
        from torch.fx.experimental.symbolic_shapes import has_static_value

        if not has_static_value(tokens):
            return torch.ops.dlblas._topk_gating_capacity(tokens, *rest)
    return topk_gating_capacity(tokens, *rest)


def _f32(value: float) -> float:
    """Rounds a positive number in f32's range to the nearest f32."""
    scale = 2.0 ** (23 - _larger(math.floor(_log2(value)), -126))  # denormal below
    return round(value * scale) / scale


def _of_torch(name: str, *values: Any) -> Any:
    """torch's function for symbolic sizes; None if all values are plain numbers."""
    if all(isinstance(value, (int, float)) for value in values):
        return None
    return getattr(sys.modules["torch"], name)


def _log2(value: Any) -> Any:
    return (_of_torch("_sym_log2", value) or math.log2)(value)


def _larger(a: Any, b: Any) -> Any:
    return (_of_torch("sym_max", a, b) or max)(a, b)


def _smaller(a: Any, b: Any) -> Any:
    return (_of_torch("sym_min", a, b) or min)(a, b)


SIZES_IN_TORCH = (topk_gating_capacity,)


def _factor(value: Any) -> float:
    """The number of an array without dimensions."""
    if len(value.shape):
        raise _wrong("capacity_factor", "a finite number, 0 or more", tuple(value.shape))
    return float(value)


def _wrong(argument: str, expected: str, got: Any) -> ArgumentError:
    return ArgumentError.from_library(
        f"topk_gating: {argument} is out of range; expected {expected}, got {got}",
        "topk_gating", argument, expected, str(got),
    )  # fmt: skip
