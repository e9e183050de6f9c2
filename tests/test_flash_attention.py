"""flash_attention and its relatives in torch: gradients against torch's own in f64, opcheck,
torch.compile, keys hidden from every query, and calls that are refused.

The harness covers values of every shape (tests/test_cases.py). Read next: ops/attention/api.py.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import dlblas
import numpy as np
import pytest
from attention_wgmma import on_wgmma

torch = pytest.importorskip("torch")

CPU = pytest.param("cpu")
GPU = pytest.param("cuda", marks=pytest.mark.gpu)


def drawn(*shapes: tuple[int, ...], device: str = "cpu", dtype: Any = None) -> list[Any]:
    made = torch.Generator().manual_seed(sum(map(sum, shapes)))
    return [
        torch.randn(shape, generator=made).to(device, dtype or torch.float32) for shape in shapes
    ]


def attention(q: Any, k: Any, v: Any, causal: bool, window: int | None, softcap: float) -> Any:
    """The torch formula for [S, H, D] or a batch of it: o and lse."""
    q, k, v = (t.transpose(-3, -2) for t in (q, k, v))
    group = q.shape[-3] // k.shape[-3]
    k, v = (t.repeat_interleave(group, -3) for t in (k, v))
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    length, keys = scores.shape[-2:]
    ahead = torch.arange(keys) - torch.arange(length)[:, None] - (keys - length)
    hidden = torch.zeros_like(ahead, dtype=torch.bool)
    if causal:
        hidden |= ahead > 0
    if window is not None:
        hidden |= ahead.abs() > window
    scores = scores.masked_fill(hidden.to(scores.device), float("-inf"))
    lse = scores.logsumexp(-1)
    return (scores.softmax(-1) @ v).transpose(-3, -2), lse


OPTIONS = [(False, None, 0.0), (True, None, 0.0), (True, 7, 0.0), (False, 9, 3.0)]


@pytest.mark.parametrize("device", [CPU, GPU])
@pytest.mark.parametrize(("causal", "window", "softcap"), OPTIONS)
def test_gradients_are_torchs(device: str, causal: bool, window: int, softcap: float) -> None:
    shapes = (2, 33, 4, 24), (2, 41, 2, 24), (2, 41, 2, 16)
    ours = [t.requires_grad_() for t in drawn(*shapes, device=device)]
    theirs = [t.detach().double().requires_grad_() for t in ours]
    o, lse = dlblas.flash_attention(
        *ours, causal=causal, window=window, softcap=softcap, return_lse=True
    )
    wanted, wanted_lse = attention(*theirs, causal, window, softcap)
    weights, more = drawn(o.shape, lse.shape, device=device)
    (o * weights).sum().add((lse * more).sum()).backward()
    (wanted * weights.double()).sum().add((wanted_lse * more.double()).sum()).backward()
    torch.testing.assert_close(o.double(), wanted, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(lse.double(), wanted_lse, rtol=1e-5, atol=1e-5)
    for mine, its in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.grad.double(), its.grad, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("device", [CPU, GPU])
def test_gradients_of_packed_sequences_are_those_of_each(device: str) -> None:
    lengths, keys = [5, 0, 17, 3], [9, 4, 0, 11]
    of_q, of_k = (
        torch.tensor([0, *np.cumsum(each)], dtype=torch.int32, device=device)
        for each in (lengths, keys)
    )
    shapes = (27, 4, 24), (26, 2, 24), (26, 2, 16)  # two rows of each belong to no sequence
    ours = [t.requires_grad_() for t in drawn(*shapes, device=device)]
    theirs = [t.detach().double().requires_grad_() for t in ours]
    o = dlblas.flash_attention_varlen(*ours, of_q, of_k, 17, 11, causal=True)
    (weights,) = drawn(o.shape, device=device)
    (o * weights).sum().backward()
    wanted = torch.zeros_like(o, dtype=torch.float64)
    for n in range(4):
        rows, its = (slice(int(at[n]), int(at[n + 1])) for at in (of_q, of_k))
        if lengths[n] and keys[n]:
            skipped = max(0, lengths[n] - keys[n])  # queries before all keys see none
            part = attention(theirs[0][rows], theirs[1][its], theirs[2][its], True, None, 0.0)[0]
            wanted[rows][skipped:] = part[skipped:]
    (wanted * weights.double()).sum().backward()
    torch.testing.assert_close(o.double(), wanted, rtol=1e-5, atol=1e-5)
    for mine, its in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.grad.double(), its.grad, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("device", [CPU, GPU])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("wide", [(True, False), (False, True), (True, True)], ids=str)
def test_offsets_of_i64(device: str, dtype: str, wide: tuple[bool, bool]) -> None:
    """What torch's cumsum gives; results have the bits of i32 offsets, gradients too."""
    kind = getattr(torch, dtype)
    given = drawn((27, 4, 64), (26, 2, 64), (26, 2, 64), device=device, dtype=kind)
    lists = [torch.tensor(x, device=device) for x in ([0, 5, 5, 22, 25], [0, 9, 13, 13, 24])]

    def outcome(*offsets: Any) -> list[Any]:
        leaves = [t.clone().requires_grad_() for t in given]
        o, lse = dlblas.flash_attention_varlen(*leaves, *offsets, causal=True, return_lse=True)
        (o.float() ** 2).sum().backward()
        return [o, lse, *(t.grad for t in leaves)]

    with dlblas.deterministic():
        expected = outcome(*(x.int() for x in lists))
        got = outcome(*(x if yes else x.int() for x, yes in zip(lists, wide, strict=True)))
        assert all(map(torch.equal, got, expected))
        spread = [x.repeat_interleave(2)[::2] for x in lists]
        assert all(map(torch.equal, outcome(*spread), expected))


@pytest.mark.parametrize("device", [CPU, GPU])
def test_offsets_of_i64_beside_codes(device: str) -> None:
    codes = [t.to(torch.float8_e4m3fn) for t in drawn((9, 4, 64), (9, 2, 64), (9, 2, 64))]
    given = [t.to(device) for t in codes]
    offsets = torch.tensor([0, 3, 9], device=device)
    expected = dlblas.flash_attention_varlen(*given, offsets.int(), offsets.int())
    assert torch.equal(dlblas.flash_attention_varlen(*given, offsets, offsets), expected)


@pytest.mark.parametrize("device", [CPU, GPU])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_hidden_keys_change_nothing(device: str, dtype: str) -> None:
    kind = getattr(torch, dtype)
    q, k, v = drawn((1, 90, 4, 64), (1, 90, 2, 64), (1, 90, 2, 64), device=device, dtype=kind)
    clean = dlblas.flash_attention(q, k, v, causal=True)
    k[:, 60:], v[:, 60:], v[:, 70] = float("nan"), float("inf"), float("nan")
    dirty = dlblas.flash_attention(q, k, v, causal=True)
    assert torch.equal(dirty[:, :60], clean[:, :60])
    assert dirty[:, 60:].isnan().all()
    empty, lse = dlblas.flash_attention(q, k[:, :40], v[:, :40], causal=True, return_lse=True)
    assert (empty[:, :50] == 0).all() and lse[..., :50].isneginf().all()  # before all keys
    assert lse[..., 50:].isfinite().all()


def test_opcheck() -> None:
    q, k, v = drawn((2, 5, 4, 16), (2, 7, 2, 16), (2, 7, 2, 8))
    of_q, of_k = (torch.tensor(at, dtype=torch.int32) for at in ([0, 3, 5], [0, 1, 7]))
    dense, packed = (
        torch.ops.dlblas.flash_attention_lse,
        torch.ops.dlblas.flash_attention_varlen_lse,
    )
    torch.library.opcheck(dense.default, [t.requires_grad_() for t in (q, k, v)])
    few = [t.detach()[0].requires_grad_() for t in (q, k, v)]
    torch.library.opcheck(packed.default, [*few, of_q, of_k])


@pytest.mark.parametrize("device", [CPU, GPU])
@pytest.mark.parametrize("shape", [(1, 1, 5, 7), (2, 4, 5, 7), (1, 4, 1, 7), (2, 1, 5, 7)], ids=str)
@pytest.mark.parametrize(("causal", "window", "softcap"), [(True, 2, 0.0), (False, 3, 2.0)])
def test_a_bias_has_a_gradient(
    device: str, shape: tuple[int, ...], causal: bool, window: int, softcap: float
) -> None:
    own = drawn((2, 5, 4, 16), (2, 7, 2, 16), (2, 7, 2, 8), shape, device=device)
    own = [t.requires_grad_() for t in own]
    options = {"causal": causal, "window": window, "softcap": softcap}
    q, k, v, bias = own
    o, lse = dlblas.flash_attention(q, k, v, bias=bias, **options, return_lse=True)
    weights = drawn(o.shape, lse.shape, device=device)
    made = torch.autograd.grad((o * weights[0]).sum() + (lse * weights[1]).sum(), own)
    # Compared with a central difference of the forward along a random direction, in place of f64.
    (step,) = drawn(shape, device=device)

    def at(shift: float) -> Any:
        moved = (bias + shift * step).detach()
        o, lse = dlblas.flash_attention(
            *(t.detach() for t in (q, k, v)), bias=moved, **options, return_lse=True
        )
        return (o * weights[0]).double().sum() + (lse * weights[1]).double().sum()

    slope = (at(5e-2) - at(-5e-2)) / 1e-1
    torch.testing.assert_close((made[3] * step).double().sum(), slope, rtol=1e-2, atol=1e-2)
    assert made[3].shape == bias.shape and made[3].abs().sum() > 0
    # A bias whose gradient is summed over no dimension is also compared with torch's own.
    if shape == (2, 4, 5, 7) and not softcap:
        theirs = [t.detach().double().requires_grad_() for t in own]
        score = torch.einsum("bshd,blhd->bhsl", theirs[0], theirs[1].repeat_interleave(2, 2)) / 4
        ahead = torch.arange(7) - torch.arange(5)[:, None] - 2
        hidden = ((ahead > 0) | (ahead < -window)).to(device)
        score = (score + theirs[3]).masked_fill(hidden, float("-inf"))
        of = torch.einsum("bhsl,blhd->bshd", score.softmax(-1), theirs[2].repeat_interleave(2, 2))
        loss = (of * weights[0]).sum() + (score.logsumexp(-1) * weights[1]).sum()
        for mine, its in zip(made, torch.autograd.grad(loss, theirs), strict=True):
            torch.testing.assert_close(mine.double(), its, rtol=1e-5, atol=2e-5)


def test_a_bias_alone_may_be_learned() -> None:
    q, k, v, bias = drawn((1, 5, 2, 16), (1, 5, 2, 16), (1, 5, 2, 16), (1, 2, 5, 5))
    bias.requires_grad_()
    dlblas.flash_attention(q, k, v, bias=bias).square().sum().backward()
    eager = bias.grad.clone()
    bias.grad = None
    compiled = torch.compile(dlblas.flash_attention, backend="aot_eager", fullgraph=True)
    compiled(q, k, v, bias=bias).square().sum().backward()
    torch.testing.assert_close(bias.grad, eager)
    torch.library.opcheck(torch.ops.dlblas.flash_attention_lse.default, [q, k, v, bias])


def test_a_bias_is_added() -> None:
    q, k, v, bias = drawn((2, 5, 4, 16), (2, 7, 4, 16), (2, 7, 4, 16), (1, 4, 5, 7))
    made = dlblas.flash_attention(q, k, v, bias=bias)
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
    torch.testing.assert_close(made.transpose(1, 2), wanted, rtol=1e-5, atol=1e-5)


def test_fused_rotary_and_fa_is_both() -> None:
    from dlblas.kernels.fused_rotary_and_fa import FusedRotaryAndFA

    q, k, v, cos, sin = drawn((2, 9, 4, 16), (2, 9, 2, 16), (2, 9, 2, 16), (9, 16), (9, 16))
    before = q.clone(), k.clone()
    made = FusedRotaryAndFA.apply(q, k, v, cos, sin)
    turned = [
        x * cos[:, None] + torch.cat((-x[..., 8:], x[..., :8]), -1) * sin[:, None] for x in (q, k)
    ]
    wanted = attention(*turned, v, False, None, 0.0)[0]
    torch.testing.assert_close(made, wanted, rtol=1e-5, atol=1e-5)
    assert torch.equal(q, before[0]) and torch.equal(k, before[1])
    with pytest.raises(dlblas.errors.ShapeMismatchError, match="cos"):
        dlblas.fused_rotary_and_fa(q, k, v, cos[:4], sin)
    (weights,) = drawn(made.shape)
    grads = []
    for rotary in (False, True):
        own = [t.clone().requires_grad_() for t in (q, k, v)]
        if rotary:
            o = FusedRotaryAndFA.apply(*own, cos, sin)
        else:
            turned = [
                x * cos[:, None] + torch.cat((-x[..., 8:], x[..., :8]), -1) * sin[:, None]
                for x in own[:2]
            ]
            o = attention(*turned, own[2], False, None, 0.0)[0]
        grads.append(torch.autograd.grad((o * weights).sum(), own))
    for mine, its in zip(*grads, strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("given", "named"),
    [({"window": -3}, "window"), ({"softcap": -1.0}, "softcap"),
     ({"scale": float("nan")}, "scale"), ({"scale": torch.ones(2)}, "scale has the wrong type"),
     ({"scale": np.True_}, "scale has"),
     ({"scale": torch.ones((), requires_grad=True)}, "scale requires grad")],
)  # fmt: skip
def test_scalars_that_mean_nothing_are_refused(given: Any, named: str) -> None:
    q, k, v = drawn((1, 3, 2, 8), (1, 3, 2, 8), (1, 3, 2, 8))
    with pytest.raises(dlblas.errors.ArgumentError, match=named):
        dlblas.flash_attention(q, k, v, **given)


@pytest.mark.parametrize("scale", [np.float32(0.5), Fraction(1, 2), torch.tensor(0.5)], ids=repr)
def test_a_scale_is_any_packages_number(scale: Any) -> None:
    q, k, v = drawn((1, 3, 2, 8), (1, 3, 2, 8), (1, 3, 2, 8))
    wanted = dlblas.flash_attention(q, k, v, scale=0.5)
    assert torch.equal(dlblas.flash_attention(q, k, v, scale=scale), wanted)
    compiled = torch.compile(dlblas.flash_attention, backend="aot_eager")
    assert torch.equal(compiled(q, k, v, scale=scale), wanted)


@pytest.mark.parametrize("where", ["cpu", "meta"])
def test_no_heads_at_all(where: str) -> None:
    """With Hkv = 0 the number of q heads per k head is unknown, and does not matter."""
    q, k, v = (torch.zeros(2, n, 0, 16, device=where) for n in (5, 9, 9))
    for bias in (None, torch.zeros(2, 0, 5, 9, device=where), torch.zeros(1, 1, 5, 9).to(where)):
        o, lse = dlblas.flash_attention(q, k, v, bias=bias, return_lse=True)
        assert o.shape == (2, 5, 0, 16) and lse.shape == (2, 0, 5)
    of_q, of_k = (torch.tensor([0, n, 2 * n], dtype=torch.int32, device=where) for n in (5, 9))
    packed = [t.flatten(0, 1) for t in (q, k, v)]
    assert dlblas.flash_attention_varlen(*packed, of_q, of_k).shape == (10, 0, 16)
    tables = torch.zeros(2, 9, 16, device=where)
    assert dlblas.fused_rotary_and_fa(k, k, k, tables, tables).shape == (2, 9, 0, 16)
    codes = [t.to(torch.float8_e4m3fn) for t in (q, k, v)]
    assert dlblas.flash_attention(*codes).dtype == torch.bfloat16
    ours = [t.clone().requires_grad_() for t in (q, k, v)]
    dlblas.flash_attention(*ours).sum().backward()
    assert all(t.grad.shape == t.shape for t in ours)
    compiled = torch.compile(dlblas.flash_attention, backend="aot_eager", fullgraph=True)
    assert compiled(q, k, v).shape == (2, 5, 0, 16)
    for given in ((torch.zeros(2, 5, 3, 16).to(where), k, v), (q, k, v[..., :0, :, :])):
        with pytest.raises(dlblas.errors.ShapeMismatchError, match=r": [qv] (has|does not fit)"):
            dlblas.flash_attention(*given)


def test_heads_that_do_not_divide_are_refused() -> None:
    q, k, v = drawn((1, 3, 3, 8), (1, 3, 2, 8), (1, 3, 2, 8))
    with pytest.raises(dlblas.errors.ShapeMismatchError):
        dlblas.flash_attention(q, k, v)


@pytest.mark.gpu
@pytest.mark.parametrize("values", ["finite", "some not"])
@pytest.mark.parametrize(
    ("d", "dv", "config"),
    [
        (64, 64, "groups=4 keys=64 stages=4 queries=2 turns=0"),
        (64, 64, "groups=3 keys=128 stages=3 queries=2 turns=0"),
        (64, 64, "groups=3 keys=80 stages=2 queries=1 turns=1"),
        (64, 64, "groups=2 keys=64 stages=3 queries=1 turns=1"),
        (128, 128, "groups=2 keys=128 stages=3 queries=1 turns=0"),
        (256, 256, "groups=2 keys=80 stages=2 queries=1 turns=1"),
        (192, 128, "groups=2 keys=128 stages=2 queries=1 turns=0"),
        (192, 192, "groups=2 keys=112 stages=2 queries=1 turns=1"),
        (96, 96, "groups=2 keys=176 stages=2 queries=1 turns=0"),
        (96, 96, "groups=3 keys=96 stages=2 queries=2 turns=0"),
        (80, 72, "groups=2 keys=144 stages=2 queries=2 turns=0"),
        (24, 40, "groups=3 keys=128 stages=2 queries=1 turns=0"),
        (64, 256, "groups=2 keys=80 stages=2 queries=1 turns=0"),
        (256, 8, "groups=2 keys=96 stages=2 queries=1 turns=0"),
    ],
)
def test_each_warpgroup_meets_its_own_blocks(d: int, dv: int, config: str, values: str) -> None:
    """Rows of a tile that see no key of some blocks, or none at all, beside rows that do; hidden
    values that are not finite stay hidden."""
    sizes = [(300, 300), (257, 513), (1000, 130), (64, 1000), (129, 640)]
    with on_wgmma("flash_attention_lse", config + " persistent=1 draws=0"):
        for rows, keys in sizes:
            shapes = (2, rows, 4, d), (2, keys, 2, d), (2, keys, 2, dv)
            q, k, v = drawn(*shapes, device="cuda", dtype=torch.bfloat16)
            bad = torch.zeros(keys, dtype=torch.bool, device="cuda")
            if values != "finite":
                bad[[7, keys // 2, keys - 1]] = True
                v[:, bad, :, 3] = torch.tensor([torch.nan, torch.inf, -torch.inf])[:, None].to(v)
            ahead = torch.arange(keys) - torch.arange(rows)[:, None] - (keys - rows)
            ahead = ahead.cuda()
            whole = torch.where(v.isfinite(), v, 0)
            for causal, window in [(False, None), (True, None), (True, 100), (False, 100)]:
                o, lse = dlblas.flash_attention(
                    q, k, v, causal=causal, window=window, return_lse=True
                )
                sums, logs = attention(q.double(), k.double(), whole.double(), causal, window, 0.0)
                sees = torch.ones_like(ahead, dtype=torch.bool)
                if causal:
                    sees &= ahead <= 0
                if window is not None:
                    sees &= ahead.abs() <= window
                expected = torch.where(sees.any(-1)[:, None, None], sums, 0.0)
                spoilt = torch.zeros_like(o, dtype=torch.bool)
                spoilt[..., 3] = (sees & bad).any(-1)[:, None]
                o = o.double()
                assert torch.equal(o.isfinite(), ~spoilt)
                error = torch.where(spoilt, 0.0, o - expected).norm() / expected.norm()
                assert error < 6e-3, (rows, keys, causal, window)
                torch.testing.assert_close(lse.double(), logs, atol=1e-4, rtol=1e-4)


@pytest.mark.gpu
@pytest.mark.parametrize("f32", [False, True])
@pytest.mark.parametrize(("d", "dv"), [(64, 64), (128, 128), (192, 128), (96, 96)])
@pytest.mark.parametrize("shape", [(1, 4, 1), (2, 4, 0), (1, 1, 0), (2, 1, 1)], ids=str)
def test_wgmma_adds_a_bias(shape: tuple[int, ...], d: int, dv: int, f32: bool) -> None:
    """One row for all queries or each its own, in pairs or one by one (an odd number of keys of
    f32), hidden keys, logits of hundreds, a row that is hidden as a whole."""
    kind = torch.float32 if f32 else torch.bfloat16
    for rows, keys in [(300, 514), (257, 256), (129, 643 if f32 else 642)]:
        shapes = (2, rows, 4, d), (2, keys, 2, d), (2, keys, 2, dv)
        q, k, v = drawn(*shapes, device="cuda", dtype=torch.bfloat16)
        (bias,) = drawn((*shape[:2], shape[2] or rows, keys))
        bias[..., keys // 2] = 300
        bias[..., 3::7] = -torch.inf
        if shape[2] == 0:
            bias[:, :, 5] = -torch.inf
        bias = bias.to("cuda", kind)
        ahead = torch.arange(keys) - torch.arange(rows)[:, None] - (keys - rows)
        ahead = ahead.cuda()
        for causal, window, softcap in [(False, None, 0.0), (True, None, 0.0), (True, 50, 3.0)]:
            with on_wgmma("flash_attention_lse"):
                o, lse = dlblas.flash_attention(
                    q, k, v, bias=bias, causal=causal, window=window, softcap=softcap,
                    return_lse=True,
                )  # fmt: skip
            a, b, c = (t.double().transpose(1, 2) for t in (q, k, v))
            b, c = (t.repeat_interleave(2, 1) for t in (b, c))
            scores = a @ b.transpose(-1, -2) / d**0.5
            if softcap:
                scores = softcap * torch.tanh(scores / softcap)
            hidden = torch.zeros_like(ahead, dtype=torch.bool)
            if causal:
                hidden |= ahead > 0
            if window is not None:
                hidden |= ahead.abs() > window
            scores = (scores + bias.double()).masked_fill(hidden, -torch.inf)
            logs = scores.logsumexp(-1)
            weights = (scores - logs.masked_fill(logs == -torch.inf, 0)[..., None]).exp()
            expected = (weights @ c).transpose(1, 2)
            error = (o.double() - expected).norm() / expected.norm()
            assert error < 6e-3, (rows, keys, causal, window)
            torch.testing.assert_close(lse.double(), logs, atol=1e-4, rtol=1e-4)


@pytest.mark.gpu
@pytest.mark.parametrize(("d", "dv"), [(192, 128), (192, 192), (96, 96), (80, 64), (48, 112)])
def test_wgmma_of_packed_sequences_and_of_f8(d: int, dv: int) -> None:
    lengths, keys = [5, 0, 170, 300, 64], [190, 40, 0, 301, 64]
    of_q, of_k = (torch.tensor([0, *np.cumsum(n)]).int() for n in (lengths, keys))
    shapes = (sum(lengths), 4, d), (sum(keys), 2, d), (sum(keys), 2, dv)
    f8 = ("_f8",) if dv % 16 == 0 and d % 16 == 0 else ()
    for kind in ("", *f8):
        values = drawn(*shapes, device="cuda", dtype=torch.bfloat16)
        if kind:
            values = [t.to(torch.float8_e4m3fn) for t in values]
        for causal, window in [(False, None), (True, None), (True, 33)]:
            with on_wgmma(f"flash_attention_varlen{kind}_lse"):
                o, lse = dlblas.flash_attention_varlen(
                    *values, of_q.cuda(), of_k.cuda(), causal=causal, window=window,
                    return_lse=True,
                )  # fmt: skip
            for n in range(len(lengths)):
                at = slice(of_q[n], of_q[n + 1])
                parts = values[0][at], *(t[of_k[n] : of_k[n + 1]] for t in values[1:])
                sums, logs = attention(*(t.double() for t in parts), causal, window, 0.0)
                sums = torch.where((logs > -torch.inf).T[..., None], sums, 0.0)
                error = (o[at].double() - sums).norm()
                assert error <= (2e-2 if kind else 6e-3) * sums.norm(), (kind, n, causal, window)
                torch.testing.assert_close(
                    lse[:, at].double(), logs, atol=2e-2 if kind else 1e-4, rtol=1e-3
                )


@pytest.mark.gpu
def test_a_captured_graph_serves_other_lengths() -> None:
    q, k, v = drawn(*[(200, 4, 64)] * 3, device="cuda", dtype=torch.bfloat16)
    at = torch.tensor([0, 50, 200], dtype=torch.int32, device="cuda")
    dlblas.flash_attention_varlen(q, k, v, at, at, causal=True)  # compiled before the capture
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = dlblas.flash_attention_varlen(q, k, v, at, at, causal=True)
    for middle in (0, 33, 120, 200):
        at[1] = middle
        graph.replay()
        assert torch.equal(made, dlblas.flash_attention_varlen(q, k, v, at, at, causal=True))


@pytest.mark.parametrize("device", [CPU, GPU])
@pytest.mark.parametrize(("causal", "window", "softcap"), OPTIONS)
def test_f8_is_attention_of_what_codes_stand_for(
    device: str, causal: bool, window: int, softcap: float
) -> None:
    q, k, v = (
        t.to(torch.float8_e4m3fn)
        for t in drawn((2, 33, 4, 24), (2, 41, 2, 24), (2, 41, 2, 16), device=device)
    )
    scales = [t.abs() + 0.5 for t in drawn((2, 2), (1, 2), (2, 1), device=device)]
    each = [s.expand(2, 2).double()[:, None, :, None] for s in scales]
    plain = [t.double() for t in (q, k, v)]
    plain[0] = plain[0] * each[0].repeat_interleave(2, 2)
    plain[1:] = [t * s for t, s in zip(plain[1:], each[1:], strict=True)]
    wanted, wanted_lse = attention(*plain, causal, window, softcap)
    names = ("q_descale", "k_descale", "v_descale")
    more: Any = {"causal": causal, "window": window, "softcap": softcap, "return_lse": True}
    more.update(zip(names, scales, strict=True))
    o, lse = dlblas.flash_attention(q, k, v, out_dtype=torch.float32, **more)
    bound = {"rtol": 1e-5, "atol": 2e-5} if device == "cpu" else {"rtol": 2e-3, "atol": 2e-3}
    torch.testing.assert_close(o.double(), wanted, **bound)
    torch.testing.assert_close(lse.double(), wanted_lse, rtol=1e-5, atol=2e-5)
    assert dlblas.flash_attention(q, k, v).dtype == torch.bfloat16
    # Packed: the same sequences, one after another.
    of_q, of_k = (torch.tensor([0, n, 2 * n], dtype=torch.int32, device=device) for n in (33, 41))
    flat = [t.flatten(0, 1) for t in (q, k, v)]
    packed, _ = dlblas.flash_attention_varlen(*flat, of_q, of_k, out_dtype="f16", **more)
    assert packed.dtype == torch.float16
    torch.testing.assert_close(packed.double(), wanted.flatten(0, 1), rtol=2e-3, atol=2e-3)


def test_f8_in_torch() -> None:
    q, k, v = (t.to(torch.float8_e4m3fn) for t in drawn(*[(2, 5, 4, 16)] * 3))
    of = torch.tensor([0, 3, 5], dtype=torch.int32)
    own = torch.ops.dlblas
    checks = ("test_faketensor", "test_autograd_registration")  # torch multiplies no f8
    torch.library.opcheck(own.flash_attention_f8_lse.default, [q, k, v], test_utils=checks)
    packed = [q[0], k[0], v[0], of, of]
    torch.library.opcheck(own.flash_attention_varlen_f8_lse.default, packed, test_utils=checks)
    compiled = torch.compile(dlblas.flash_attention, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(q, k, v, causal=True), dlblas.flash_attention(q, k, v, causal=True))
    with pytest.raises(dlblas.errors.ArgumentError, match="k_descale"):
        dlblas.flash_attention(*[t.float() for t in (q, k, v)], k_descale=torch.ones(1, 1))


@pytest.mark.parametrize("window", [(3, 0), "all", 2.5, [4]], ids=repr)
def test_a_window_is_a_number(window: Any) -> None:
    (q,) = drawn((1, 5, 2, 16))
    with pytest.raises(dlblas.errors.ArgumentTypeError, match="window is no number of keys; "):
        dlblas.flash_attention(q, q, q, window=window)
    lengths = torch.tensor([0, 5], dtype=torch.int32)
    with pytest.raises(dlblas.errors.ArgumentTypeError, match=r"_varlen: window is no number"):
        dlblas.flash_attention_varlen(*[q[0]] * 3, lengths, lengths, window=window)
    made = dlblas.flash_attention(q, q, q, window=np.int64(2))
    assert torch.equal(made, dlblas.flash_attention(q, q, q, window=2))


@pytest.mark.parametrize("missing", ["q", "k", "v", "cos", "sin"])
def test_none_is_no_array(missing: str) -> None:
    from dlblas.kernels.fused_rotary_and_fa import FusedRotaryAndFA

    names = ("q", "k", "v", "cos", "sin")
    shapes = (2, 9, 4, 16), (2, 9, 2, 16), (2, 9, 2, 16), (9, 16), (9, 16)
    given = {**dict(zip(names, drawn(*shapes), strict=True)), missing: None}
    for call in (dlblas.fused_rotary_and_fa, FusedRotaryAndFA.apply):
        with pytest.raises(dlblas.errors.ArgumentTypeError, match=f": {missing} is no array"):
            call(**given)


def test_tables_with_a_dimension_of_heads() -> None:
    """[S, 1, D] is not read as [B, 1, D], although the batch is as long as a sequence. Gradients
    too."""
    from dlblas.kernels.fused_rotary_and_fa import FusedRotaryAndFA

    q, k, v, cos, sin = drawn((5, 5, 4, 16), (5, 5, 2, 16), (5, 5, 2, 16), (5, 16), (5, 16))
    for call in (dlblas.fused_rotary_and_fa, FusedRotaryAndFA.apply):
        for tables in ((cos, sin), (cos[:, :8], sin[:, :8])):
            one = tuple(t[:, None] for t in tables)
            assert torch.equal(call(q, k, v, *one), call(q, k, v, *tables))
            leaf = q.clone().requires_grad_()
            grads = [
                torch.autograd.grad(call(leaf, k, v, *t).square().sum(), leaf)[0]
                for t in (one, tables)
            ]
            assert torch.equal(*grads)


@pytest.mark.parametrize("device", [CPU, GPU])
@pytest.mark.parametrize(
    "shape", [(), (9,), (1,), (5, 9), (5, 1), (4, 5, 9), (2, 1, 1, 9)], ids=str
)
def test_biases_and_masks_broadcast_as_in_torch(device: str, shape: tuple[int, ...]) -> None:
    q, k, v, bias = drawn((2, 5, 4, 8), (2, 9, 4, 8), (2, 9, 4, 8), shape, device=device)
    mask = bias > -0.5
    if len(shape) > 1:
        mask[..., -1] = True  # no row is hidden whole: torch has other words for those
    heads = [t.transpose(1, 2) for t in (q, k, v)]
    torch._dynamo.reset()
    for given in (bias, mask) if shape not in ((), (1,)) else (bias, torch.ones_like(mask)):
        wanted = torch.nn.functional.scaled_dot_product_attention(
            *heads, attn_mask=given.expand(2, 4, 5, 9)
        )
        o = dlblas.flash_attention(q, k, v, bias=given)
        torch.testing.assert_close(o, wanted.transpose(1, 2), rtol=1e-4, atol=1e-5)
        compiled = torch.compile(
            lambda q, k, v, given: dlblas.flash_attention(q, k, v, bias=given), fullgraph=True,
            backend="aot_eager",
        )  # fmt: skip
        torch.testing.assert_close(compiled(q, k, v, given), o)
        if device == "cpu":
            o = dlblas.flash_attention(q.numpy(), k.numpy(), v.numpy(), bias=given.numpy())
            np.testing.assert_allclose(o, wanted.transpose(1, 2).numpy(), rtol=1e-4, atol=1e-5)


def test_masks_of_16_bits_with_gradients_and_on_a_gpu() -> None:
    q, k, mask = drawn((2, 5, 4, 8), (2, 9, 2, 8), (5, 9))
    q, k, mask = q.bfloat16().requires_grad_(), k.bfloat16(), mask > 0
    mask[0] = False
    o = dlblas.flash_attention(q, k, k, bias=mask)
    assert (o[:, 0] == 0).all()
    o.sum().backward()
    hidden = torch.zeros(5, 9, dtype=torch.bfloat16).masked_fill(~mask, float("-inf"))
    again = q.detach().requires_grad_()
    dlblas.flash_attention(again, k, k, bias=hidden[None, None]).sum().backward()
    torch.testing.assert_close(q.grad, again.grad)
    told = dlblas.explain("flash_attention", q.detach(), k, k, bias=mask, device="sm_90a").as_dict()
    assert told["implementation"].startswith("cu") and "bias bf16" in told["problem"]
    with pytest.raises(dlblas.errors.ShapeMismatchError, match="bias"):
        dlblas.flash_attention(q.detach(), k, k, bias=torch.ones(5, 8, dtype=torch.bool))
    with pytest.raises(dlblas.errors.Error, match="bias"):
        dlblas.flash_attention(q.detach(), k, k, bias=torch.ones(1, 1, 1, 5, 9).bool())


def test_descales_of_heads_or_of_all() -> None:
    q, k = (t.to(torch.float8_e4m3fn) for t in drawn((2, 5, 4, 16), (2, 9, 2, 16)))
    each = torch.tensor([0.5, 2.0])
    wanted = dlblas.flash_attention(q, k, k, k_descale=each.expand(2, 2), v_descale=each[None])
    made = dlblas.flash_attention(q, k, k, k_descale=each, v_descale=each)
    assert torch.equal(made, wanted)
    one = torch.tensor(0.25)
    wanted = dlblas.flash_attention(q, k, k, q_descale=one.reshape(1, 1))
    assert torch.equal(dlblas.flash_attention(q, k, k, q_descale=one), wanted)
    starts = [torch.tensor([0, n, 2 * n], dtype=torch.int32) for n in (5, 9)]
    flat = q.flatten(0, 1), k.flatten(0, 1), k.flatten(0, 1)
    packed = dlblas.flash_attention_varlen(*flat, *starts, k_descale=each, v_descale=one)
    whole = dlblas.flash_attention(q, k, k, k_descale=each, v_descale=one)
    assert torch.equal(packed, whole.flatten(0, 1))
    with pytest.raises(dlblas.errors.ShapeMismatchError, match="k_descale"):
        dlblas.flash_attention(q, k, k, k_descale=torch.ones(3))
