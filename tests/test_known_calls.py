"""Calls that users of DLBlas and Triton Fused Operators have in their code: every old name takes
its old arguments, by position and by name, and both forms give the same bits.

Other files check whether the results are right (test_dlblas_kernels.py, test_triton_kernels.py …).
Read next: test_known_names.py, python/dlblas/_other_forms.py, docs/names.md.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import dlblas
import pytest
from test_known_names import KERNELS

torch = pytest.importorskip("torch")

Named = dict[str, Any]


def randn(*shape: int, dtype: Any = None) -> Any:
    torch.manual_seed(sum(shape))
    return torch.randn(*shape).to(dtype or torch.float32)


def norm(**more: Any) -> Named:
    return {"hidden_states": randn(3, 8), "weight": randn(8), "eps": 1e-5, **more}


def heads() -> Named:
    return {"q": randn(2, 5, 4, 16), "k": randn(2, 5, 2, 16)}


def tables() -> Named:
    return {"cos": randn(2, 5, 16), "sin": randn(2, 5, 16)}


def attention() -> Named:
    return {"q": randn(2, 5, 4, 16), "k": randn(2, 5, 4, 16), "v": randn(2, 5, 4, 16)}


def latent() -> Named:
    kv = {"k_pe": randn(2, 5, 1, 8), "kv": randn(2, 5, 4, 24)}
    return {"q": randn(2, 5, 4, 16), **kv, "cos": randn(2, 5, 8), "sin": randn(2, 5, 8)}


def gated_norm(**more: Any) -> Named:
    return {"x": randn(3, 8), "weight": randn(8), "bias": None, "z": randn(3, 8), "eps": 1e-5,
            "group_size": 4, "norm_before_gate": False, **more}  # fmt: skip


def scan() -> Named:
    u = {"u": randn(2, 6, 9), "delta": randn(2, 6, 9).abs(), "A": -randn(6, 4).abs()}
    return {**u, "B": randn(2, 4, 9), "C": randn(2, 4, 9), "D": randn(6), "z": randn(2, 6, 9),
            "delta_bias": randn(6), "delta_softplus": True}  # fmt: skip


def update() -> Named:
    x = {"state": randn(2, 6, 4), "x": randn(2, 6), "dt": randn(2, 6).abs()}
    return {**x, "A": -randn(6, 4).abs(), "B": randn(2, 4), "C": randn(2, 4), "D": randn(6),
            "z": randn(2, 6), "dt_bias": randn(6), "dt_softplus": True}  # fmt: skip


def experts() -> Named:
    ids = torch.tensor([[0, 2], [3, 1], [1, 2]], dtype=torch.int32)
    return {"hidden_states": randn(3, 8), "w1": randn(4, 12, 8), "w2": randn(4, 8, 6),
            "topk_weights": randn(3, 2).abs(), "topk_ids": ids, "topk": 2, "expert_offset": 0,
            "num_experts": 4, "renormalize": True}  # fmt: skip


def scaled() -> Named:
    codes = {name: randn(128, 128).to(torch.float8_e4m3fn) for name in ("a", "b")}
    return {**codes, "a_s": randn(128, 1).abs(), "b_s": randn(1, 1).abs()}


def feed_forward() -> Named:
    weights = {name: randn(48, 32, dtype=torch.float16) for name in ("w1", "w3")}
    return {"x": randn(4, 32, dtype=torch.float16), **weights,
            "rms_w": randn(32, dtype=torch.float16)}  # fmt: skip


def gating() -> Named:
    return {"logits": randn(16, 4), "k": 2, "capacity_factor": 1.5, "min_capacity": 3,
            "higher_precision": True}  # fmt: skip


def positions() -> Named:
    return {"q": randn(5, 4, 16), "k": randn(5, 2, 16), "position_ids": torch.arange(5),
            "inv_freq": randn(8).abs(), "scaling_factor": 0.5}  # fmt: skip


CALLS: dict[str, Callable[[], Named]] = {
    "rms_norm": norm,
    "add_rms_norm": functools.partial(norm, residual=None),
    "flash_attention_v2": attention,
    "fused_rotary_and_fa": lambda: {**attention(), **tables()},
    "layernorm_gated": functools.partial(gated_norm, is_rms_norm=True),
    "topk_gating": gating,
    "matmul": lambda: {"a": randn(3, 8), "b": randn(8, 4), "activation": "relu"},
    "apply_rotary_pos_emb": lambda: {**heads(), **tables()},
    "kernels.activation.silu_and_mul": lambda: {"gate_up": randn(3, 8), "out": None},
    "kernels.add_rms_norm.call": functools.partial(norm, residual=None),
    "kernels.rms_norm.rms_norm": functools.partial(norm, residual=randn(3, 8)),
    "kernels.apply_rotary_pos_emb.apply_rotary_pos_emb": lambda: {**heads(), **tables()},
    "kernels.flash_attention_v2.FlashAttentionV2.apply": attention,
    "kernels.fp8_gemm.fp8_gemm": scaled,
    "kernels.fp8_gemm.call": scaled,
    "kernels.fused_moe.fused_moe": experts,
    "kernels.fused_rotary_and_fa.FusedRotaryAndFA.apply": lambda: {**attention(), **tables()},
    "kernels.ffn.call": feed_forward,
    "kernels.fused_rotary_emb.fused_rotary_emb": positions,
    "kernels.layernorm_gated.layernorm_fn": functools.partial(gated_norm, is_rms_norm=True),
    "kernels.layernorm_gated.rmsnorm_fn": gated_norm,
    "kernels.layernorm_gated.layernorm_gated": functools.partial(gated_norm, is_rms_norm=True),
    "kernels.matmul.matmul": lambda: {"a": randn(3, 8), "b": randn(8, 4), "activation": "relu"},
    "kernels.matmul.call": lambda: {"a": randn(3, 8), "b": randn(8, 4), "activation": "relu"},
    "kernels.partial_rotary_emb.PartialRotaryEmb.apply": latent,
    "kernels.selective_scan.selective_scan": lambda: {**scan(), "return_last_state": True},
    "kernels.selective_scan.selective_scan_fn": lambda: {**scan(), "return_last_state": True},
    "kernels.selective_state_update.selective_state_update": update,
    "kernels.selective_state_update.call": update,
    "kernels.topk_gating.TopKGatingFunc.apply": gating,
    "triton_ops.fused_rmsnorm_rope": lambda: {
        "x": randn(2, 5, 32), "weight": randn(32), "cos": randn(5, 8), "sin": randn(5, 8),
        "eps": 1e-5, "num_heads": None,
    },
    "triton_ops.fused_gated_mlp": lambda: {
        "x": randn(2, 5, 32), "gate_weight": randn(16, 32), "up_weight": randn(16, 32),
        "activation": "gelu",
    },
    "triton_ops.fp8_gemm": lambda: {
        "a": randn(16, 32, dtype=torch.float16), "b": randn(32, 8, dtype=torch.float16),
        "a_scale": None, "b_scale": None, "output_dtype": torch.float16,
    },
    "triton_ops.quantize_fp8": lambda: {"tensor": randn(3, 8, dtype=torch.float16), "scale": None},
}  # fmt: skip
# torch gives the arguments of an autograd function's apply no names.
BY_PLACE_ALONE = {"kernels.partial_rotary_emb.PartialRotaryEmb.apply"}


def found(path: str) -> Callable[..., Any]:
    return functools.reduce(getattr, path.split("."), dlblas)  # type: ignore[arg-type]


def tensors(result: Any) -> list[Any]:
    parts = result if isinstance(result, tuple) else (result,)
    return [part for part in parts if isinstance(part, torch.Tensor)]


@pytest.mark.parametrize("path", CALLS)
def test_arguments_by_place_and_by_name(path: str) -> None:
    for module in ("kernels", "triton_ops"):
        importlib.import_module(f"dlblas.{module}")
    call, make = found(path), CALLS[path]
    first = call(*in_order(path, make()))
    assert tensors(first)
    for part in tensors(first):
        assert part.float().isfinite().all()
    if path in BY_PLACE_ALONE:
        return
    named = call(**make())
    for one, other in zip(tensors(first), tensors(named), strict=True):
        assert torch.equal(one.float(), other.float())


def in_order(path: str, named: Named) -> list[Any]:
    if path == "add_rms_norm":  # at top level the residual comes before eps
        return [named[n] for n in ("hidden_states", "weight", "residual", "eps")]
    return list(named.values())


def test_every_name_of_kernels_is_called() -> None:
    called = {path.removesuffix(".apply") for path in CALLS}
    for module, names in KERNELS.items():
        assert {f"kernels.{module}.{name}" for name in names} <= called


# ---- add_rms_norm, whose residual may be absent --------------------------------------------------


def test_without_a_residual_add_rms_norm_is_rms_norm() -> None:
    x, w, r = randn(3, 8), randn(8), randn(3, 8)
    for y in (
        dlblas.add_rms_norm(x, w),  # type: ignore[call-arg, unused-ignore]
        dlblas.add_rms_norm(x, w, None),
        dlblas.add_rms_norm(hidden_states=x, weight=w, residual=None),
    ):
        assert torch.equal(y, dlblas.rms_norm(x, w))
    arrays = x.numpy(), w.numpy()
    assert (dlblas.add_rms_norm(*arrays, eps=1e-3) == dlblas.rms_norm(*arrays, 1e-3)).all()
    own = dlblas.add_rms_norm(x, w, r)
    for y in (
        dlblas.add_rms_norm(hidden_states=x, weight=w, residual=r, eps=1e-6),
        dlblas.add_rms_norm(weight=w, residual=r, hidden_states=x),
    ):
        assert all(torch.equal(a, b) for a, b in zip(y, own, strict=True))
    out = torch.empty_like(x)
    assert dlblas.add_rms_norm(x, w, out=out) is out and torch.equal(out, dlblas.rms_norm(x, w))


def test_what_is_wrong_in_it_stays_an_error() -> None:
    x, w, r = randn(3, 8), randn(8), randn(3, 8)
    with pytest.raises(dlblas.errors.ShapeMismatchError, match="weight"):
        dlblas.add_rms_norm(x, randn(7), r)
    with pytest.raises(dlblas.errors.ShapeMismatchError, match="weight"):
        dlblas.add_rms_norm(x, randn(7))
    with pytest.raises(dlblas.errors.ArgumentError, match="hidden_states"):
        dlblas.add_rms_norm(x, w, r, hidden_states=x)
    with pytest.raises(dlblas.errors.ArgumentError, match="hidden_state"):
        dlblas.add_rms_norm(hidden_state=x, weight=w, residual=r)
    with pytest.raises(dlblas.errors.ArgumentError, match="x is missing"):
        dlblas.add_rms_norm(weight=w, residual=r)


def test_a_traced_call_without_a_residual() -> None:
    x, w = randn(3, 8), randn(8)

    def program(x: Any, w: Any) -> Any:
        return dlblas.add_rms_norm(x, w) + dlblas.add_rms_norm(hidden_states=x, weight=w)

    traced = torch.compile(program, backend="eager", fullgraph=True)
    assert torch.equal(traced(x, w), 2 * dlblas.rms_norm(x, w))
