"""``out=`` of functions made of operators: the same values as without it, in the caller's memory;
wrong destinations are refused before anything is written.

Read next: python/dlblas/_results.py, test_places.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dlblas
import numpy as np
import pytest
from dlblas import errors

torch = pytest.importorskip("torch")
torch.manual_seed(3)

R = torch.randn
Q, K = R(2, 6, 4, 16), R(2, 6, 2, 16)
TABLE = R(6, 16)
STARTS = torch.tensor([0, 5, 12], dtype=torch.int32)
PAGES = R(5, 4, 2, 16)
PAGE_TABLE = torch.tensor([[0, 1], [2, 3]], dtype=torch.int32)
LENGTHS = torch.tensor([7, 5], dtype=torch.int32)
LATENT, ROTARY = R(5, 4, 32), R(5, 4, 8)
X, W = R(6, 32), R(24, 32)
CODES = R(6, 32).to(torch.float8_e4m3fn)
INTS = torch.randint(-9, 9, (6, 32), dtype=torch.int8)
BLOCKS = dlblas.quantize(R(256, 130), "block128")
ROWS = dlblas.quantize(R(2, 3, 130), "token")
IDS = torch.tensor([[0, 1], [1, 2], [2, 0], [0, 1], [1, 0], [2, 1]], dtype=torch.int32)
MX = {kind: dlblas.quantize_mx(X, kind) for kind in ("mxfp8", "mxfp4", "nvfp4")}
F8 = Q.to(torch.float8_e4m3fn), K.to(torch.float8_e4m3fn)
TARGET = torch.tensor([1, 2, 3, 4, 5, -100])
PROBS = torch.rand(2, 3, 50)
TAPS, BEFORE = R(32, 4), R(6, 32, 3)
DELTA = R(2, 5, 2, 8), R(2, 5, 2, 8), R(2, 5, 4, 6), -torch.rand(2, 5, 4), torch.rand(2, 5, 4)
EXPERTS = [dlblas.quantize(R(n, c), "block128") for n, c in ((16, 32), (32, 8))]


def same(*shape: int) -> Any:  # the same values in every call
    return R(*shape, generator=torch.Generator().manual_seed(1))


# Name -> (the call with further arguments, an input that overlaps no result).
CALLS: dict[str, Callable[..., Any]] = {
    "flash_attention": lambda **to: dlblas.flash_attention(Q, K, K, causal=True, **to),
    "flash_attention lse": lambda **to: dlblas.flash_attention(Q, K, K, return_lse=True, **to),
    "flash_attention f8": lambda **to: dlblas.flash_attention(F8[0], F8[1], F8[1], **to),
    "flash_attention_v2": lambda **to: dlblas.flash_attention_v2(Q, K, K, **to),
    "flash_attention_varlen": lambda **to: dlblas.flash_attention_varlen(
        Q.flatten(0, 1), K.flatten(0, 1), K.flatten(0, 1), STARTS, STARTS, **to
    ),
    "flash_attention_varlen lse": lambda **to: dlblas.flash_attention_varlen(
        Q.flatten(0, 1), K.flatten(0, 1), K.flatten(0, 1), STARTS, STARTS, return_lse=True, **to
    ),
    "fused_rotary_and_fa": lambda **to: dlblas.fused_rotary_and_fa(Q, K, K, TABLE, TABLE, **to),
    "paged_attention": lambda **to: dlblas.paged_attention(
        Q[:, 0], PAGES, PAGES, PAGE_TABLE, LENGTHS, **to
    ),
    "paged_attention rows": lambda **to: dlblas.paged_attention(
        Q[:, :3], PAGES, PAGES, PAGE_TABLE, LENGTHS, return_lse=True, **to
    ),
    "mla_decode": lambda **to: dlblas.mla_decode(
        R(2, 1, 4, 32, generator=torch.Generator().manual_seed(1)), Q[:, :1, :, :8], LATENT, ROTARY,
        PAGE_TABLE, LENGTHS, **to,
    ),
    "fused_gated_mlp": lambda **to: dlblas.fused_gated_mlp(X, W, W, **to),
    "fp8_gemm": lambda **to: dlblas.fp8_gemm(X, W.T, **to),
    "int8_scaled_mm": lambda **to: dlblas.int8_scaled_mm(
        INTS, INTS.T, torch.rand(6).fill_(0.5), torch.ones(6), **to
    ),
    "dequantize tensor": lambda **to: dlblas.dequantize(CODES, 0.5, **to),
    "dequantize one": lambda **to: dlblas.dequantize(CODES[0, 0], 0.5, **to),
    "dequantize token": lambda **to: dlblas.dequantize(*ROWS, **to),
    "dequantize channel": lambda **to: dlblas.dequantize(CODES, torch.ones(32), **to),
    "dequantize block128": lambda **to: dlblas.dequantize(*BLOCKS, **to),
    "dequantize_mx mxfp8": lambda **to: dlblas.dequantize_mx(*MX["mxfp8"], "mxfp8", **to),
    "dequantize_mx mxfp4": lambda **to: dlblas.dequantize_mx(*MX["mxfp4"], "mxfp4", **to),
    "dequantize_mx nvfp4": lambda **to: dlblas.dequantize_mx(
        *MX["nvfp4"][:2], "nvfp4", MX["nvfp4"][2], **to
    ),
    "quantize_mx mxfp8": lambda **to: dlblas.quantize_mx(X, "mxfp8", **to),
    "quantize_mx nvfp4": lambda **to: dlblas.quantize_mx(X, "nvfp4", **to),
    "quantize_mx nvfp4 given": lambda **to: dlblas.quantize_mx(
        X, "nvfp4", torch.tensor(0.01), **to
    ),
    "fused_moe": lambda **to: dlblas.fused_moe(
        X, R(3, 16, 32, generator=torch.Generator().manual_seed(1)), torch.ones(3, 32, 8),
        torch.ones(6, 2), IDS, **to,
    ),
    "fused_moe codes": lambda **to: dlblas.fused_moe(
        X, EXPERTS[0][0].expand(3, 16, 32), EXPERTS[1][0].expand(3, 32, 8), torch.ones(6, 2), IDS,
        w13_scale=EXPERTS[0][1].expand(3, 1, 1), w2_scale=EXPERTS[1][1].expand(3, 1, 1), **to,
    ),
    "sample": lambda **to: dlblas.sample(PROBS, 0.7, 20, seed=3, **to),
    "top_k_renorm": lambda **to: dlblas.top_k_renorm(PROBS, 5, **to),
    "top_p_renorm": lambda **to: dlblas.top_p_renorm(PROBS, 0.7, **to),
    "top_k_mask_logits": lambda **to: dlblas.top_k_mask_logits(PROBS, 5, **to),
    "causal_conv1d": lambda **to: dlblas.causal_conv1d(same(2, 32, 6), TAPS, **to),
    "causal_conv1d varlen": lambda **to: dlblas.causal_conv1d(
        same(32, 12), TAPS, cu_seqlens=STARTS, **to
    ),
    "causal_conv1d_update": lambda **to: dlblas.causal_conv1d_update(X, BEFORE.clone(), TAPS, **to),
    "gated_delta_rule": lambda **to: dlblas.gated_delta_rule(*DELTA, **to),
    "gated_delta_rule varlen": lambda **to: dlblas.gated_delta_rule(
        *(x.flatten(0, 1) for x in DELTA), cu_seqlens=torch.tensor([0, 4, 10]), **to
    ),
    "fused_linear_cross_entropy": lambda **to: dlblas.fused_linear_cross_entropy(
        X, W, TARGET, **to
    ),
    "fused_linear_cross_entropy z": lambda **to: dlblas.fused_linear_cross_entropy(
        X, W, TARGET, lse_square_scale=0.1, reduction="none", return_z_loss=True, **to
    ),
    "cross_entropy": lambda **to: dlblas.cross_entropy(X, TARGET, **to),
    "cross_entropy none": lambda **to: dlblas.cross_entropy(X, TARGET, reduction="none", **to),
    "cross_entropy z": lambda **to: dlblas.cross_entropy(
        X, TARGET, lse_square_scale=0.1, return_z_loss=True, **to
    ),
}  # fmt: skip


def bits(x: Any) -> Any:
    return x.contiguous().reshape(-1).view(torch.uint8)


def filled(x: Any) -> Any:
    """Memory of the same kind, with other values."""
    place = torch.empty_like(x)
    place.reshape(-1).view(torch.uint8).fill_(0x5A)
    return place


@pytest.mark.parametrize("name", CALLS)
def test_the_same_values(name: str) -> None:
    made = CALLS[name]()
    several = isinstance(made, tuple)
    places = tuple(map(filled, made)) if several else filled(made)
    assert CALLS[name](out=places) is places
    for place, wanted in zip(
        places if several else (places,), made if several else (made,), strict=True
    ):
        assert torch.equal(bits(place), bits(wanted))


@pytest.mark.parametrize("name", CALLS)
def test_wrong_destinations_are_refused(name: str) -> None:
    made = CALLS[name]()
    several = isinstance(made, tuple)
    results = made if several else (made,)
    for i in range(len(results)):
        for wrong in (
            results[i].new_empty((*results[i].shape, 2)),
            torch.empty(results[i].shape, dtype=torch.int64),
        ):
            places = [*map(filled, results)]
            kept = [place.clone() for place in places]
            places[i] = wrong
            with pytest.raises((errors.Error, TypeError, ValueError), match="out") as caught:
                CALLS[name](out=tuple(places) if several else places[0])
            assert isinstance(caught.value, errors.Error)
            for j, place in enumerate(places):
                assert j == i or torch.equal(bits(place), bits(kept[j]))
    with pytest.raises(errors.Error, match="out"):
        CALLS[name](out=(*results, results[0]))
    if several:
        with pytest.raises(errors.Error, match="out"):
            CALLS[name](out=results[0])


def test_overlaps_with_inputs_are_refused() -> None:
    for call in (
        lambda: dlblas.flash_attention(Q, K, K, out=Q),
        lambda: dlblas.fused_moe(X, R(3, 16, 32), R(3, 32, 8), torch.ones(6, 2), IDS, out=X),
        lambda: dlblas.fp8_gemm(X[:, :24], W[:, :24].T, 1.0, 1.0, "f32", out=X[:, :24]),
        lambda: dlblas.cross_entropy(X, TARGET, out=X[0, 0]),
        lambda: dlblas.fused_linear_cross_entropy(X, W, TARGET, out=X[0, 0]),
        lambda: dlblas.top_k_renorm(PROBS, 5, out=PROBS),
        lambda: dlblas.gated_delta_rule(*DELTA, out=DELTA[2]),
        lambda: dlblas.mla_decode(
            LATENT[:2], R(2, 4, 8), LATENT, ROTARY, PAGE_TABLE, LENGTHS, out=LATENT[:2]
        ),
    ):
        with pytest.raises(errors.ArgumentError, match="out"):
            call()


def test_no_gradient() -> None:
    q, x = Q.clone().requires_grad_(), X.clone().requires_grad_()
    w13, w2 = R(3, 16, 32), R(3, 32, 8)
    for call in (
        lambda: dlblas.flash_attention(q, K, K, out=torch.empty_like(Q)),
        lambda: dlblas.fused_rotary_and_fa(q, K, K, TABLE, TABLE, out=torch.empty_like(Q)),
        lambda: dlblas.fused_gated_mlp(x, W, W, out=torch.empty(6, 24)),
        lambda: dlblas.fused_moe(x, w13, w2, torch.ones(6, 2), IDS, out=torch.empty(6, 32)),
        lambda: dlblas.cross_entropy(x, TARGET, out=torch.empty(())),
        lambda: dlblas.fused_linear_cross_entropy(x, W, TARGET, out=torch.empty(())),
    ):
        with pytest.raises(errors.ArgumentError, match="requires grad"):
            call()
        with torch.no_grad():
            call()


def test_numpy() -> None:
    q, k = Q.numpy(), K.numpy()
    o, lse = np.empty_like(q), np.empty((2, 4, 6), "f")
    assert dlblas.flash_attention(q, k, k, out=o) is o
    np.testing.assert_array_equal(o, dlblas.flash_attention(q, k, k))
    dlblas.flash_attention(q, k, k, return_lse=True, out=(o, lse))
    np.testing.assert_array_equal(lse, dlblas.flash_attention(q, k, k, return_lse=True)[1])
    loss = np.empty((), "f")
    assert dlblas.cross_entropy(X.numpy(), TARGET.numpy(), out=loss) is loss
    np.testing.assert_allclose(loss, dlblas.cross_entropy(X.numpy(), TARGET.numpy()), rtol=1e-6)


def test_errors_name_the_only_result() -> None:
    with pytest.raises(errors.ShapeMismatchError, match=r"flash_attention\w*: out has size") as e:
        dlblas.flash_attention(Q, K, K, out=torch.empty(2, 6, 4, 8))
    assert e.value.argument == "out" and "out[0]" not in str(e.value)
    for wrong in ("memory", torch.empty_like(Q).requires_grad_()):
        with pytest.raises(errors.Error, match="flash_attention: out ") as e:
            dlblas.flash_attention(Q, K, K, out=wrong)
        assert e.value.argument == "out"
    rows = torch.empty(3, 2, 4, 16).transpose(0, 1)
    with pytest.raises(errors.ArgumentError, match="paged_attention: out has leading dimensions"):
        dlblas.paged_attention(Q[:, :3], PAGES, PAGES, PAGE_TABLE, LENGTHS, out=rows)


def test_compiled() -> None:
    def attend(q: Any, k: Any, o: Any) -> Any:
        dlblas.flash_attention(q, k, k, out=o)
        return o + 1

    o = torch.empty_like(Q)
    made = torch.compile(attend, backend="aot_eager", fullgraph=True)(Q, K, o)
    torch.testing.assert_close(made, dlblas.flash_attention(Q, K, K) + 1)
    torch.testing.assert_close(o, made - 1)


def test_any_strides_and_a_state_of_a_refused_call() -> None:
    """Memory in which tokens are no rows at one stride; a refused call leaves the state alone."""
    made = dlblas.gated_delta_rule(*DELTA)
    for place in (torch.empty(5, 2, 4, 6).transpose(0, 1), torch.empty(2, 5, 6, 4).mT):
        assert dlblas.gated_delta_rule(*DELTA, out=place) is place
        assert torch.equal(place, made)
    state, taps = R(2, 4, 8, 6), BEFORE.clone()
    kept = state.clone()
    for wrong in (torch.empty(10, 4, 6), torch.empty(5, 2, 4, 6).half().transpose(0, 1), DELTA[2]):
        with pytest.raises(errors.Error, match="out"):
            dlblas.gated_delta_rule(*DELTA, state=state, out=wrong)
    with pytest.raises(errors.Error, match="out"):
        dlblas.causal_conv1d_update(X, taps, TAPS, out=taps[..., 0])
    assert torch.equal(state, kept) and torch.equal(taps, BEFORE)
    ids = np.empty((2, 3), "i4")
    assert dlblas.sample(PROBS.numpy(), seed=3, out=ids) is ids
    np.testing.assert_array_equal(ids, dlblas.sample(PROBS.numpy(), seed=3))
