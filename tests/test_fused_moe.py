"""``dlblas.grouped_gemm`` and ``dlblas.fused_moe``: every form against plain loops, empty groups,
experts of other ranks, gradients. Read next: ../ops/moe/api.py, ../ops/gemm/api.py.
"""

from __future__ import annotations

import dlblas
import numpy as np
import pytest
from dlblas.errors import ArgumentError, ShapeMismatchError

DTYPES = ("float32", "float16", "bfloat16")
TOLERANCE = {"float32": 2e-6, "float16": 4e-3, "bfloat16": 2e-2}


def offsets_of(counts):
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)


def closeness(got, expected) -> float:
    return float(np.linalg.norm(got - expected) / max(1e-30, np.linalg.norm(expected)))


def test_grouped_gemm_tells_its_forms_by_shape() -> None:
    rng = np.random.default_rng(1)
    offsets = offsets_of([3, 0, 5, 1])
    a = rng.standard_normal((9, 16), "f")
    w = rng.standard_normal((4, 8, 16), "f")
    y = dlblas.grouped_gemm(a, w, offsets)
    for e in range(4):
        rows = slice(offsets[e], offsets[e + 1])
        np.testing.assert_allclose(y[rows], a[rows] @ w[e].T, rtol=1e-5, atol=1e-5)
    turned = np.ascontiguousarray(w.transpose(0, 2, 1)).transpose(0, 2, 1)
    np.testing.assert_allclose(dlblas.grouped_gemm(a, turned, offsets), y, rtol=1e-5, atol=1e-5)
    sums = dlblas.grouped_gemm(y, a, offsets)
    assert sums.shape == (4, 8, 16)
    assert not sums[1].any()
    np.testing.assert_allclose(sums[2], y[3:8].T @ a[3:8], rtol=1e-5, atol=1e-4)
    a = rng.standard_normal((4, 3, 16), "f")
    y = dlblas.grouped_gemm(a, w, masked_m=np.array([3, 0, 2, 1]))
    np.testing.assert_allclose(y[2, :2], a[2, :2] @ w[2].T, rtol=1e-5, atol=1e-5)
    for wrong in ({}, {"offsets": offsets, "masked_m": offsets}):
        with pytest.raises(ArgumentError, match="offsets is ambiguous"):
            dlblas.grouped_gemm(a, w, **wrong)


def test_grouped_gemm_takes_codes_with_scales() -> None:
    f8 = pytest.importorskip("ml_dtypes").float8_e4m3fn
    rng = np.random.default_rng(2)
    offsets = offsets_of([3, 0, 6])
    a, w = (rng.standard_normal(s).astype("f").astype(f8) for s in ((9, 200), (3, 130, 200)))
    a_scale = rng.uniform(0.5, 2, (9, 2)).astype("f")
    b_scale = rng.uniform(0.5, 2, (3, 2, 2)).astype("f")
    wide = a.astype("d") * np.repeat(a_scale, 128, 1)[:, :200]
    blocks = np.repeat(np.repeat(b_scale, 128, 1)[:, :130], 128, 2)[:, :, :200] * w.astype("d")
    want = np.concatenate([wide[offsets[e] : offsets[e + 1]] @ blocks[e].T for e in range(3)])
    y = dlblas.grouped_gemm(a, w, offsets, a_scale=a_scale, b_scale=b_scale, out_dtype="f32")
    assert closeness(y, want) < 1e-6
    y = dlblas.grouped_gemm(
        a[None, :6], w[2:], masked_m=np.array([4]), a_scale=a_scale[None, :6], b_scale=b_scale[2:],
        out_dtype="f32",
    )  # fmt: skip
    assert closeness(y[0, :4], wide[:4] @ blocks[2].T) < 1e-6
    with pytest.raises(ArgumentError, match="b_scale is missing"):
        dlblas.grouped_gemm(a, w, offsets, a_scale=a_scale)


@pytest.mark.parametrize("offsets", [[-5, 2, 100], [3, 1, 2], [7, 7, 7]])
def test_offsets_out_of_range_are_refused(offsets) -> None:
    a, w = np.ones((4, 8), "f"), np.ones((2, 3, 8), "f")
    room = np.full((6, 3), 7, "f")
    with pytest.raises(ArgumentError, match="offsets is out of bounds at element"):
        dlblas.grouped_gemm(a, w, np.array(offsets), out=room[1:5])
    assert (room == 7).all()
    with pytest.raises(ArgumentError, match="offsets is out of bounds at element"):
        dlblas.grouped_gemm(a, np.ones((4, 3), "f"), np.array(offsets))


def test_gradients_of_grouped_gemm() -> None:
    torch = pytest.importorskip("torch")
    offsets = torch.tensor([0, 4, 4, 9])
    a = torch.randn(9, 6, dtype=torch.float32, requires_grad=True)
    w = torch.randn(3, 5, 6, requires_grad=True)
    weight = torch.randn(9, 5)
    (dlblas.grouped_gemm(a, w, offsets) * weight).sum().backward()
    got = a.grad.clone(), w.grad.clone()
    a.grad = w.grad = None
    plain = torch.cat([a[offsets[e] : offsets[e + 1]] @ w[e].T for e in range(3)])
    (plain * weight).sum().backward()
    torch.testing.assert_close(got[0], a.grad)
    torch.testing.assert_close(got[1], w.grad)


def experts_one_by_one(x, w13, w2, weights, ids, first=0, table=None):
    y = np.zeros_like(x)
    for t, j in np.ndindex(ids.shape):
        e = int(ids[t, j])
        if table is not None:
            e = int(table[e]) if e >= 0 else -1
        e -= first
        if not 0 <= e < len(w13):
            continue
        gate, up = np.split(w13[e] @ x[t], 2)
        y[t] += weights[t, j] * (w2[e] @ (gate / (1 + np.exp(-gate)) * up))
    return y


def made(rng, tokens, experts, of_all, topk):
    x = rng.standard_normal((tokens, 24))
    w13 = rng.standard_normal((experts, 32, 24)) / 5
    w2 = rng.standard_normal((experts, 24, 16)) / 4
    ids = np.stack([rng.permutation(of_all)[:topk] for _ in range(tokens)] or [np.zeros(topk)])
    weights = rng.uniform(0.1, 1, (tokens, topk))
    return x, w13, w2, weights, ids[:tokens].astype(np.int32)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tokens", [0, 1, 37])
@pytest.mark.parametrize("way", ["all", "renormalized", "offset", "map", "none_here"])
def test_fused_moe_is_its_experts_one_by_one(dtype: str, tokens: int, way: str) -> None:
    torch = pytest.importorskip("torch")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rng = np.random.default_rng(tokens)
    experts, of_all, topk = (5, 5, 3) if way in ("all", "renormalized") else (4, 12, 3)
    x, w13, w2, weights, ids = made(rng, tokens, experts, of_all, topk)
    if tokens > 3:
        ids[1, 2] = -1
    options, plain = {}, {}
    if way == "renormalized":
        options["renormalize"] = True
        weights_used = weights / weights.sum(-1, keepdims=True)
    else:
        weights_used = weights
    if way in ("offset", "none_here"):
        options["expert_offset"] = plain["first"] = 6 if way == "offset" else 50
    if way == "map":
        table = np.full(of_all, -1, np.int32)
        table[[1, 8, 3, 11]] = range(4)
        options["expert_map"], plain["table"] = torch.from_numpy(table).to(device), table
    as_torch = [torch.from_numpy(v).to(device, getattr(torch, dtype)) for v in (x, w13, w2)]
    exact = [t.double().cpu().numpy() for t in as_torch]
    y = dlblas.fused_moe(
        *as_torch, torch.from_numpy(weights).float().to(device), torch.from_numpy(ids).to(device),
        **options,
    )  # fmt: skip
    assert y.dtype == as_torch[0].dtype
    expected = experts_one_by_one(*exact, weights_used, ids, **plain)
    if not expected.any():
        assert not y.any()
    else:
        assert closeness(y.double().cpu().numpy(), expected) < TOLERANCE[dtype]


def test_dlblas_name_has_its_argument_order() -> None:
    from dlblas.kernels.fused_moe import fused_moe

    x, w13, w2, weights, ids = made(np.random.default_rng(3), 6, 4, 8, 2)
    x, w13, w2, weights = (v.astype("f") for v in (x, w13, w2, weights))
    y = fused_moe(x, w13, w2, weights, ids, 2, expert_offset=4, num_experts=8, renormalize=True)
    weights = weights / weights.sum(-1, keepdims=True)
    expected = experts_one_by_one(x, w13, w2, weights, ids, first=4)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(ArgumentError, match="topk does not fit"):
        fused_moe(x, w13, w2, weights, ids, 3)
    with pytest.raises(ArgumentError, match="expert_offset does not fit"):
        fused_moe(x, w13, w2, weights, ids, 2, expert_offset=5, num_experts=8)


def test_shapes_that_do_not_fit_are_refused() -> None:
    x, w13, w2, weights, ids = made(np.random.default_rng(4), 6, 4, 4, 2)
    for wrong in ((x[:, 1:], w13, w2), (x, w13[1:], w2), (x, w13[:, 1:], w2), (x, w13, w2[0])):
        with pytest.raises(ShapeMismatchError, match="another shape"):
            dlblas.fused_moe(*wrong, weights, ids)
    with pytest.raises(ShapeMismatchError, match="topk_weights"):
        dlblas.fused_moe(x, w13, w2, weights[:, :1], ids)


@pytest.mark.gpu
def test_nothing_waits_and_a_graph_follows_the_offsets() -> None:
    torch = pytest.importorskip("torch")
    x, w13, w2 = (
        torch.randn(s, device="cuda", dtype=torch.bfloat16) / 8
        for s in ((64, 256), (8, 256, 256), (8, 256, 128))
    )
    ids = torch.stack([torch.randperm(8)[:2] for _ in range(64)]).int().cuda()
    weights = torch.rand(64, 2, device="cuda")
    torch.cuda.set_sync_debug_mode("error")
    try:
        dlblas.fused_moe(x, w13, w2, weights, ids)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = dlblas.fused_moe(x, w13, w2, weights, ids)
    ids.copy_(torch.stack([torch.randperm(8)[:2] for _ in range(64)]).int())
    graph.replay()
    assert torch.equal(y, dlblas.fused_moe(x, w13, w2, weights, ids))


def test_tokens_of_a_batch() -> None:
    x, w13, w2, weights, ids = made(np.random.default_rng(4), 6, 4, 4, 2)
    x, w13, w2, weights = (v.astype("f") for v in (x, w13, w2, weights))
    want = dlblas.fused_moe(x, w13, w2, weights, ids, renormalize=True)
    batch = [v.reshape(2, 3, -1) for v in (x, weights, ids)]
    got = dlblas.fused_moe(batch[0], w13, w2, *batch[1:], renormalize=True)
    assert got.shape == batch[0].shape
    np.testing.assert_array_equal(got.reshape(want.shape), want)


def blocks(weight):
    """Codes and scales [E, …] of E matrices, and what they stand for."""
    made = [dlblas.quantize(w, "block128") for w in weight]
    back = [dlblas.dequantize(*one, out_dtype="f32") for one in made]
    torch = pytest.importorskip("torch")
    return *(torch.stack(x) for x in zip(*made, strict=True)), torch.stack(back).double().numpy()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tokens", [0, 1, 37])
def test_codes_with_scales_of_blocks(dtype: str, tokens: int) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(tokens)
    width, depth, experts = 200, 136, 4
    x = torch.randn(tokens, width).to(getattr(torch, dtype))
    w13, w13_scale, exact13 = blocks(torch.randn(experts, 2 * depth, width) / width**0.5)
    w2, w2_scale, exact2 = blocks(torch.randn(experts, width, depth) / depth**0.5)
    ids = torch.stack([torch.randperm(experts)[:2] for _ in range(tokens)] or [torch.zeros(2)])
    ids, weights = ids[:tokens].int(), torch.rand(tokens, 2)
    options = {"w13_scale": w13_scale, "w2_scale": w2_scale}
    y = dlblas.fused_moe(x, w13, w2, weights, ids, **options)
    assert y.dtype == x.dtype and y.shape == x.shape
    exact = experts_one_by_one(x.double().numpy(), exact13, exact2, weights.numpy(), ids.numpy())
    if tokens:  # e4m3 rounds x and silu(g) · u to 3 bits behind the first
        assert closeness(y.double().numpy(), exact) < 6e-2
    shifted = dlblas.fused_moe(x, w13, w2, weights, ids + 3, expert_offset=3, **options)
    torch.testing.assert_close(shifted, y, rtol=0, atol=0)
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda *a: dlblas.fused_moe(*a, **options), backend="aot_eager", fullgraph=True
    )
    torch.testing.assert_close(compiled(x, w13, w2, weights, ids), y, rtol=0, atol=0)


def test_errors_name_what_does_not_fit() -> None:
    torch = pytest.importorskip("torch")
    x, w13, w2, weights, ids = (
        torch.from_numpy(np.ascontiguousarray(v))
        for v in made(np.random.default_rng(4), 6, 4, 4, 2)
    )
    x, w13, w2, weights = x.float(), w13.float(), w2.float(), weights.float()
    codes13, scale13, _ = blocks(w13)
    codes2, scale2, _ = blocks(w2)
    scales = {"w13_scale": scale13, "w2_scale": scale2}
    for argument, args, options in (
        ("x", (x[0], w13, w2), {}),
        ("x", (x.int(), w13, w2), {}),
        ("w13", (x, w13[:, :, 1:], w2), {}),
        ("w13", (x, w13.half(), w2), {}),
        ("w13", (x, None, w2), {}),
        ("w2", (x, w13, w2[1:]), {}),
        ("w2", (x, w13, w2.half()), {}),
        ("w13", (x, codes13, codes2), {}),
        ("w2_scale", (x, codes13, codes2), {"w13_scale": scale13}),
        ("w13", (x, w13, w2), scales),
        ("w2_scale", (x, codes13, codes2), {**scales, "w2_scale": scale2[:1]}),
        ("w13_scale", (x, codes13, codes2), {**scales, "w13_scale": scale13.half()}),
        ("expert_offset", (x, w13, w2), {"expert_offset": 1.5}),
        ("expert_map", (x, w13, w2), {"expert_map": torch.ones(4)}),
        ("expert_map", (x, w13, w2), {"expert_map": "all"}),
    ):
        with pytest.raises(dlblas.Error, match=f"fused_moe: {argument} ") as refused:
            dlblas.fused_moe(*args, weights, ids, **options)
        assert refused.value.argument == argument
    beyond = dlblas.fused_moe(x, w13, w2, weights, ids, expert_map=torch.arange(2))
    hidden = dlblas.fused_moe(x, w13, w2, weights, torch.where(ids < 2, ids, -1))
    torch.testing.assert_close(beyond, hidden, rtol=0, atol=0)
    assert not dlblas.fused_moe(x, w13, w2, weights, ids, expert_map=torch.arange(0)).any()
