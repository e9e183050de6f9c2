"""Rotations as models call them: mrope (Qwen-VL), partial_rotary_emb (DeepSeek) with its gradients,
and qk_norm_rope with k written into its cache (Qwen3).

Shapes, layouts and special values are in ops/rope/*/cases.json. Every test runs on the CPU and,
where there is one, on a GPU. Read next: ops/rope/api.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402
import dlblas.torch  # noqa: E402
from dlblas import errors  # noqa: E402
from dlblas.kernels.partial_rotary_emb import PartialRotaryEmb  # noqa: E402
from torch_gradients import DTYPES, every_device  # noqa: E402, F401


def check(got: Any, want: Any) -> None:
    """A few f32 roundings of terms below 3·|x|, and one rounding to the dtype."""
    size = want.abs().amax() if want.numel() else 0.0
    bound = torch.finfo(got.dtype).eps / 2 * want.abs() + 1e-6 * size + 1e-7
    assert got.shape == want.shape and ((got.double() - want).abs() <= bound).all()


def turned(x: Any, cos: Any, sin: Any) -> Any:
    """The neox rotation of all channels; cos and sin are [T, 1, pairs]."""
    low, high = x.chunk(2, -1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), -1)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))
@pytest.mark.parametrize("sections", [(16, 24, 24), (0, 1, 63), (11, 13, 40), (64, 0, 0)])
def test_mrope_of_a_projection(sections: tuple[int, int, int], dtype: Any, device: str) -> None:
    whole = torch.randn(19, 6 * 128, device=device).to(dtype)
    q, k = (x.unflatten(-1, (-1, 128)) for x in (whole[:, :512], whole[:, 512:]))
    positions = torch.randint(0, 50, (3, 19), device=device)
    table = torch.cat(dlblas.rope_tables(50, 128), -1).to(device)
    cos, sin = table.double().chunk(2, -1)
    parts = torch.tensor(sections).cumsum(0).tolist()
    row = torch.tensor([sum(i >= end for end in parts[:2]) for i in range(64)], device=device)
    mine = positions[row].T  # [T, 64]
    cos, sin = (half.gather(0, mine)[:, None] for half in (cos, sin))
    wants = [turned(x.double(), cos, sin) for x in (q, k)]
    for got, want in zip(dlblas.mrope(q, k, positions, table, sections), wants, strict=True):
        check(got, want)
    dlblas.mrope(q, k, positions, table, sections, out=(q, k))
    check(q, wants[0]), check(k, wants[1])


def test_mrope_with_one_position_is_rope() -> None:
    q, k = torch.randn(7, 3, 32), torch.randn(7, 1, 32)
    positions, table = torch.arange(7), torch.cat(dlblas.rope_tables(8, 32), -1)
    for style in ("neox", "interleaved", "interleaved_to_half"):
        same = dlblas.mrope(q, k, positions.expand(3, 7), table, (4, 6, 6), style)
        for got, want in zip(same, dlblas.rope(q, k, positions, table, style=style), strict=True):
            assert torch.equal(got, want)


@pytest.mark.parametrize(
    ("positions", "sections", "words"),
    [((2, 7), (4, 6, 6), "positions"), ((3, 7), (4, 6, 7), "three that add up to 16"),
     ((3, 7), (4, 12), "three that add up to 16")],
)  # fmt: skip
def test_mrope_refuses(positions: Any, sections: Any, words: str) -> None:
    q, k, table = torch.randn(7, 3, 32), torch.randn(7, 1, 32), torch.ones(8, 32)
    with pytest.raises(errors.ShapeMismatchError, match=words):
        dlblas.mrope(q, k, torch.zeros(positions, dtype=torch.int64), table, sections)


def latent(q: Any, k_pe: Any, kv: Any, cos: Any, sin: Any) -> tuple[Any, Any]:
    """The contract's formula, for torch to differentiate."""
    rotary = cos.shape[-1]
    plain, half = q.shape[-1] - rotary, rotary // 2
    cos, sin = cos.unsqueeze(-2), sin.unsqueeze(-2)

    def y(x: Any) -> Any:
        x0, x1 = x[..., 0::2], x[..., 1::2]
        low = x0 * cos[..., :half] - x1 * sin[..., :half]
        return torch.cat((low, x1 * cos[..., half:] + x0 * sin[..., half:]), -1)

    k = torch.cat((kv[..., :plain], y(k_pe).expand(*q.shape[:-1], rotary)), -1)
    v = torch.nn.functional.pad(kv[..., plain:], (0, q.shape[-1] - kv.shape[-1] + plain))
    return torch.cat((q[..., :plain], y(q[..., plain:])), -1), torch.stack((k, v), -3)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))
@pytest.mark.parametrize("sizes", [(128, 64, 128), (16, 8, 13), (32, 24, 56), (0, 10, 3)])
def test_partial_rotary_emb(sizes: tuple[int, int, int], dtype: Any, device: str) -> None:
    plain, rotary, values = sizes
    shape = (2, 5, 6)
    q = torch.randn(*shape, plain + rotary, device=device).to(dtype).requires_grad_()
    kv = torch.randn(*shape, plain + values, device=device).to(dtype).requires_grad_()
    k_pe = torch.randn(2, 5, 1, rotary, device=device).to(dtype).requires_grad_()
    cos, sin = (torch.randn(2, 5, rotary, device=device).to(dtype) for _ in range(2))
    leaves = (q, k_pe, kv)
    got = PartialRotaryEmb.apply(*leaves, cos, sin)
    wide = [x.detach().double().requires_grad_() for x in leaves]
    want = latent(*wide, cos.double(), sin.double())
    shares = [torch.randn(w.shape, device=device).to(dtype) for w in want]
    for mine, right in zip(got, want, strict=True):
        check(mine, right)
    for mine, right in zip(
        torch.autograd.grad(got, leaves, shares),
        torch.autograd.grad(want, wide, [s.double() for s in shares]),
        strict=True,
    ):
        check(mine, right)
    by_name = dlblas.partial_rotary_emb(q.detach(), k_pe.detach(), kv.detach(), cos, sin)
    assert all(torch.equal(a, b) for a, b in zip(by_name, got, strict=True))


def test_partial_rotary_emb_with_shared_tables_and_in_numpy() -> None:
    rng = np.random.default_rng(4)
    q, kv = (rng.standard_normal((2, 5, 3, n), np.float32) for n in (24, 32))
    k_pe = rng.standard_normal((2, 5, 1, 8), np.float32)
    cos, sin = (rng.standard_normal((5, 8), np.float32) for _ in range(2))
    got = dlblas.partial_rotary_emb(q, k_pe, kv, cos, sin)
    tables = [torch.from_numpy(t).double().expand(2, 5, 8) for t in (cos, sin)]
    want = latent(*(torch.from_numpy(x).double() for x in (q, k_pe, kv)), *tables)
    for mine, right in zip(got, want, strict=True):
        check(torch.from_numpy(np.asarray(mine)), right)


def test_partial_rotary_emb_refuses_more_values_than_room() -> None:
    q, k_pe, table = torch.randn(2, 5, 3, 24), torch.randn(2, 5, 1, 8), torch.ones(2, 5, 8)
    with pytest.raises(errors.ShapeMismatchError, match="expected 24 or fewer, got 25"):
        dlblas.partial_rotary_emb(q, k_pe, torch.randn(2, 5, 3, 41), table, table)
    with pytest.raises(errors.ShapeMismatchError, match="k_pe"):
        dlblas.partial_rotary_emb(q, k_pe[..., 0, :], torch.randn(2, 5, 3, 32), table, table)


@pytest.mark.parametrize("style", ["neox", "interleaved", "interleaved_to_half"])
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))
@pytest.mark.parametrize("page", [1, 4, 16])
def test_qk_norm_rope_writes_the_cache(page: int, dtype: Any, style: str, device: str) -> None:
    q, k = (torch.randn(9, heads, 64, device=device).to(dtype) for heads in (4, 2))
    weight = torch.rand(64, device=device) + 0.5
    positions = torch.randint(0, 30, (9,), device=device)
    table = torch.cat(dlblas.rope_tables(30, 32), -1).to(device)  # partial
    cache = torch.randn(32 // page, page, 2, 64, device=device).to(dtype)
    before = cache.clone().flatten(0, 1)
    slots = torch.randperm(32, device=device)[:9]
    slots[3] = -1
    plain = dlblas.qk_norm_rope(q, k, weight, weight, positions, table, style=style)
    stored = dlblas.qk_norm_rope(
        q, k, weight, weight, positions, table, style=style, key_cache=cache, slots=slots
    )
    assert all(torch.equal(a, b) for a, b in zip(stored, plain, strict=True))
    there = slots >= 0
    before[slots[there]] = plain[1][there]
    assert torch.equal(cache.flatten(0, 1), before)


@pytest.mark.parametrize("style", ["neox", "interleaved", "interleaved_to_half"])
@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
@pytest.mark.parametrize("scale", [1.0, 2.0**-8])
def test_qk_norm_rope_writes_codes(scale: float, dtype: Any, style: str, device: str) -> None:
    """Those of the f32 results, which store_kv_cache makes as well; large ones saturate."""
    q, k = (torch.randn(9, heads, 64, device=device) for heads in (4, 2))
    weight = torch.rand(64, device=device) + 0.5
    weight[::5] *= 300
    positions = torch.randint(0, 30, (9,), device=device)
    table = torch.cat(dlblas.rope_tables(30, 32), -1).to(device)  # partial
    cache = torch.zeros(8, 4, 2, 64, device=device).to(dtype)
    expected = cache.clone()
    slots = torch.randperm(32, device=device)[:9]
    slots[3] = -1
    factor = torch.tensor(scale, device=device)
    _, k_out = dlblas.qk_norm_rope(
        q, k, weight, weight, positions, table, style=style, key_cache=cache, slots=slots,
        k_scale=scale,
    )  # fmt: skip
    dlblas.store_kv_cache(k_out, k_out, expected, expected.clone(), slots, factor)
    assert torch.equal(cache.view(torch.uint8), expected.view(torch.uint8))
    largest = torch.finfo(dtype).max
    assert (cache.float().abs() == largest).any() == (k_out.abs() / scale > largest).any()


def test_a_cache_needs_its_slots() -> None:
    q, k, weight = torch.randn(3, 2, 32), torch.randn(3, 1, 32), torch.ones(32)
    table = torch.cat(dlblas.rope_tables(8, 32), -1)
    with pytest.raises(errors.ArgumentError, match="go together"):
        dlblas.qk_norm_rope(q, k, weight, weight, torch.arange(3), table, slots=torch.arange(3))
    for scale in (0.0, -1.0, float("nan")):
        with pytest.raises(errors.ArgumentError, match="k_scale is out of range; expected above 0"):
            dlblas.qk_norm_rope(q, k, weight, weight, torch.arange(3), table, k_scale=scale)


def heads_before_attention() -> list[Any]:
    shapes = ((2, 5, 3, 24), (2, 5, 1, 8), (2, 5, 3, 28), (2, 5, 8), (2, 5, 8))
    made = [torch.randn(shape) for shape in shapes]
    return [t.requires_grad_(i < 3) for i, t in enumerate(made)]


def test_partial_rotary_emb_compiles_with_gradients() -> None:
    ours = heads_before_attention()
    theirs = [t.detach().clone().requires_grad_(t.requires_grad) for t in ours]
    run = torch.compile(dlblas.partial_rotary_emb, fullgraph=True, backend="aot_eager")
    for call, given in ((run, ours), (dlblas.partial_rotary_emb, theirs)):
        q_out, kv_out = call(*given)
        (q_out.square().sum() + kv_out.square().sum()).backward()
    for a, b in zip(ours[:3], theirs[:3], strict=True):
        torch.testing.assert_close(a.grad, b.grad)


@pytest.mark.parametrize("strict", [False, True])
def test_partial_rotary_emb_is_exported_with_gradients(strict: bool) -> None:
    class Heads(torch.nn.Module):
        def forward(self, *given: Any) -> Any:
            return dlblas.partial_rotary_emb(*given)

    given = tuple(heads_before_attention())
    made = torch.export.export(Heads(), given, strict=strict).module()
    for a, b in zip(made(*given), dlblas.partial_rotary_emb(*given), strict=True):
        torch.testing.assert_close(a, b)


def whole_tables(device: str = "cpu") -> tuple[Any, ...]:
    """Tables [B, S, Dr] whose two halves are equal."""
    angles = torch.randn(2, 2, 5, 4, device=device)
    return tuple(torch.cat((t, t), -1) for t in angles)


def test_tables_of_latent_heads_in_every_shape(device: str) -> None:
    """[S, Dr], [B, S, Dr], with a 1 before Dr, with Dr/2 columns: forward, gradients, traced."""
    leaves = [t.to(device).detach().requires_grad_() for t in heads_before_attention()[:3]]
    cos, sin = whole_tables(device)
    cases = [((cos, sin), (cos[:, :, None], sin[:, :, None]))]
    row = cos[0], sin[0]
    many = tuple(t.expand(2, 5, 8) for t in row)
    cases += [
        (many, row),
        (many, tuple(t[:, None] for t in row)),
        (many, tuple(t[None] for t in row)),
    ]
    cases += [(want, tuple(t[..., :4] for t in one)) for want, one in tuple(cases)]
    run = torch.compile(dlblas.partial_rotary_emb, fullgraph=True, backend="aot_eager")
    for want, one in cases:
        torch._dynamo.reset()  # there are many shapes
        right = dlblas.partial_rotary_emb(*leaves, *want)
        grads = torch.autograd.grad([x.square().sum() for x in right], leaves)
        for call in (dlblas.partial_rotary_emb, PartialRotaryEmb.apply, run):
            got = call(*leaves, *one)
            for mine, theirs in zip(got, right, strict=True):
                assert torch.equal(mine, theirs)
            mine = torch.autograd.grad([x.square().sum() for x in got], leaves)
            assert all(torch.equal(a, b) for a, b in zip(mine, grads, strict=True))


def test_places_of_latent_heads() -> None:
    given = [t.detach() for t in heads_before_attention()]
    q_out, kv_out = dlblas.partial_rotary_emb(*given)
    places = torch.zeros_like(q_out), torch.zeros_like(kv_out)
    assert dlblas.partial_rotary_emb(*given, out=places)[1] is places[1]
    assert torch.equal(places[0], q_out) and torch.equal(places[1], kv_out)
    right = torch.zeros_like(q_out)
    for out, kind, words in (
        ((right,), errors.ArgumentError, "out is not a place for each result; expected a tuple of"),
        ("foo", errors.ArgumentError, "out is not a place for each result; .* got str"),
        ((right, None), errors.ArgumentTypeError, r"out\[1\] is no array; .* got None"),
        ((right, "foo"), errors.ArgumentTypeError, r"out\[1\] is no array; .* got str"),
        ((right, right), errors.ShapeMismatchError, r"out\[1\] \(kv_out\) has another shape"),
        ((right[:1], kv_out), errors.ShapeMismatchError, r"out\[0\] \(q_out\) has another shape"),
        ((right, kv_out.half()), errors.UnsupportedDtypeError, r"out\[1\] \(kv_out\) has dtype "),
    ):
        with pytest.raises(kind, match=f"partial_rotary_emb: {words}"):
            dlblas.partial_rotary_emb(*given, out=out)
        assert not right.any()


@pytest.mark.parametrize("wrong", [None, [1.0], "x", 3, object(), np.ones((2, 5, 8), "f")])
def test_what_is_no_tensor_has_no_gradient(wrong: Any) -> None:
    given = heads_before_attention()
    for at, name in enumerate(("q", "k_pe", "kv", "cos", "sin")):
        args = [*given[:at], wrong, *given[at + 1 :]]
        with pytest.raises(
            errors.ArgumentTypeError, match=f"RotaryEmb.apply: {name} is no array; "
        ):
            PartialRotaryEmb.apply(*args)


def test_mrope_of_a_batch() -> None:
    q, k, positions = (
        torch.randn(2, 5, 3, 32),
        torch.randn(2, 5, 1, 32),
        torch.randint(0, 8, (3, 2, 5)),
    )
    table, sections = torch.cat(dlblas.rope_tables(8, 32), -1), (4, 6, 6)
    flat = q.flatten(0, 1), k.flatten(0, 1), positions.flatten(1)
    want = dlblas.mrope(*flat, table, sections)
    own = q.clone(), k.clone()
    assert dlblas.mrope(*own, positions, table, sections, out=own)[0] is own[0]
    torch._dynamo.reset()
    run = torch.compile(dlblas.mrope, fullgraph=True, backend="aot_eager")
    arrays = dlblas.mrope(*(x.numpy() for x in (q, k, positions, table)), sections)
    for got in (
        dlblas.mrope(q, k, positions, table, sections, rotary_dim=32), own,
        run(q, k, positions, table, sections), [torch.from_numpy(x) for x in arrays],
        torch.ops.dlblas.mrope(q, k, positions, table, sections),
    ):  # fmt: skip
        for x, y, like in zip(got, want, (q, k), strict=True):
            assert x.shape == like.shape and torch.equal(x.flatten(0, 1), y)
    with pytest.raises(errors.ShapeMismatchError, match="mrope: positions has other leading dimen"):
        dlblas.mrope(q, k, flat[2], table, sections)


@pytest.mark.parametrize("cached", [False, True])
def test_qk_norm_rope_of_a_batch(cached: bool, device: str) -> None:
    q, k = (torch.randn(2, 5, heads, 64, device=device) for heads in (4, 2))
    weight = torch.rand(64, device=device) + 0.5
    positions = torch.randint(0, 30, (2, 5), device=device)
    table = torch.cat(dlblas.rope_tables(30, 32), -1).to(device)
    slots = torch.randperm(12, device=device)[:10].view(2, 5)
    cache = [torch.zeros(3, 4, 2, 64, device=device) for _ in range(3)]
    more = [{"key_cache": c, "slots": slots} if cached else {} for c in cache]
    want = dlblas.qk_norm_rope(
        q.flatten(0, 1), k.flatten(0, 1), weight, weight, positions.flatten(), table,
        **{name: x.flatten() if name == "slots" else x for name, x in more[0].items()},
    )  # fmt: skip
    got = dlblas.qk_norm_rope(q, k, weight, weight, positions, table, rotary_dim=32, **more[1])
    dlblas.qk_norm_rope_(q, k, weight, weight, positions, table, **more[2])
    for x, y, own in zip(got, want, (q, k), strict=True):
        assert x.shape == own.shape and torch.equal(x.flatten(0, 1), y) and torch.equal(x, own)
    assert torch.equal(cache[0], cache[1]) and torch.equal(cache[0], cache[2])


def test_a_negative_position_of_fused_rotary_emb(device: str) -> None:
    q, k = (torch.randn(4, heads, 32, device=device) for heads in (3, 1))
    at, frequencies = torch.tensor([-1, 0, -9, 5], device=device), torch.rand(16, device=device)
    angles = (at.double()[:, None] * frequencies.double())[:, None]
    for x, got in zip((q, k), dlblas.fused_rotary_emb(q, k, at, frequencies), strict=True):
        torch.testing.assert_close(
            got.double(), turned(x.double(), angles.cos(), angles.sin()), rtol=0, atol=3e-5
        )
