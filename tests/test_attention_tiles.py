"""Attention in bf16 with AMX tiles (``cpu_amx``): sizes around tiles and blocks, every option and
layout, and batch changes that must not affect a row.

Read next: ops/attention/cpu/attention_amx.cpp, attention_tiles_cpu.hpp, test_flash_attention.py.
"""

from __future__ import annotations

from typing import Any

import dlblas
import numpy as np
import pytest

torch = pytest.importorskip("torch")

HAS_AMX = dlblas.info()["devices"][0]["amx"]
pytestmark = pytest.mark.skipif(not HAS_AMX, reason="this CPU has no AMX")
OP, UNIT = "flash_attention_lse", "cpu_amx"

# B, S, L, heads, heads of k, D, Dv: less than a tile of 32 rows, half a tile, whole tiles and more;
# less than a block of 256 keys, one, two and more; more rows than one task takes.
SHAPES = [
    (1, 1, 1, 1, 1, 1, 1), (1, 1, 300, 4, 1, 64, 64), (2, 5, 31, 4, 2, 33, 16),
    (1, 16, 257, 2, 2, 32, 48), (3, 17, 40, 6, 2, 7, 129), (1, 33, 33, 1, 1, 128, 64),
    (1, 100, 600, 8, 2, 80, 80), (2, 130, 256, 3, 3, 96, 1), (1, 1100, 513, 2, 1, 16, 31),
]  # fmt: skip
OPTIONS: list[dict[str, Any]] = [
    {}, {"causal": True}, {"causal": True, "window": 20}, {"window": 33, "softcap": 5.0},
    {"window": 0}, {"causal": True, "scale": -0.3},
]  # fmt: skip


def drawn(*shapes: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(sum(map(sum, shapes)))
    return [torch.from_numpy(rng.standard_normal(s, np.float32)).bfloat16() for s in shapes]


def operands(shape: tuple[int, ...]) -> list[Any]:
    b, s, keys, heads, heads_k, d, dv = shape
    return drawn((b, s, heads, d), (b, keys, heads_k, d), (b, keys, heads_k, dv))


def call(q: Any, k: Any, v: Any, **options: Any) -> tuple[Any, Any]:
    with dlblas.pinned(OP, UNIT):
        o, lse = dlblas.flash_attention_lse(q, k, v, **options)
    return o, lse


def exact(
    q: Any, k: Any, v: Any, bias: Any = None, causal: bool = False, window: int = -1,
    scale: float = 0.0, softcap: float = 0.0,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """o, lse and Σ p·|v|, in f64."""
    q, k, v = (t.double().transpose(1, 2) for t in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ k.transpose(-1, -2) * (scale or q.shape[-1] ** -0.5)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias.double()
    rows, keys = scores.shape[-2:]
    ahead = torch.arange(keys) - torch.arange(rows)[:, None] - (keys - rows)
    hidden = (ahead > 0) & causal
    if window >= 0:
        hidden |= ahead.abs() > window
    scores = scores.masked_fill(hidden, float("-inf"))
    lse = scores.logsumexp(-1)
    p = (scores - lse.nan_to_num(neginf=0.0)[..., None]).exp()
    return (p @ v).transpose(1, 2), lse, (p @ v.abs()).transpose(1, 2)


def assert_right(got: tuple[Any, Any], want: tuple[Any, Any, Any]) -> None:
    o, lse = got
    assert bool(((o.double() - want[0]).abs() <= 2**-7 * want[2] + 1e-6).all())
    none = want[1] == float("-inf")
    assert torch.equal(lse == float("-inf"), none)
    assert bool(((lse.double() - want[1])[~none].abs() <= 1e-5 * (1 + want[1][~none].abs())).all())


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_sizes_and_options(shape: tuple[int, ...], options: dict[str, Any]) -> None:
    q, k, v = operands(shape)
    assert_right(call(q, k, v, **options), exact(q, k, v, **options))


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("wide", [(2, 6, 40), (1, 1, 40), (2, 1, 1)], ids=str)
def test_bias(dtype: str, wide: tuple[int, int, int]) -> None:
    q, k, v = operands((2, 40, 300, 6, 2, 40, 40))
    bias = drawn((*wide, 300))[0].to(getattr(torch, dtype))
    bias[..., 3:9] = float("-inf")
    for options in ({}, {"causal": True, "softcap": 4.0}):
        assert_right(call(q, k, v, bias=bias, **options), exact(q, k, v, bias, **options))
    bias[..., :] = float("-inf")
    o, lse = call(q, k, v, bias=bias)
    assert not bool(o.any()) and bool((lse == float("-inf")).all())


def lying(t: Any, layout: str) -> Any:
    if layout == "transposed":
        return t.transpose(1, 3).contiguous().transpose(1, 3)
    if layout == "heads first":
        return t.transpose(1, 2).contiguous().transpose(1, 2)
    wide = torch.zeros(*t.shape[:3], 3 * t.shape[3], dtype=t.dtype)
    wide[..., ::3] = t
    return wide[..., ::3]


@pytest.mark.parametrize("layout", ["transposed", "heads first", "gaps"])
def test_layouts_change_no_bit(layout: str) -> None:
    q, k, v = operands((2, 50, 290, 4, 2, 72, 40))
    want = call(q, k, v, causal=True)
    for i in range(3):
        some = [lying(t, layout) if i == j else t for j, t in enumerate((q, k, v))]
        assert all(map(torch.equal, call(*some, causal=True), want))
    out = lying(torch.zeros_like(want[0]), layout)
    with dlblas.pinned(OP, UNIT):
        dlblas.flash_attention_lse(q, k, v, causal=True, out=(out, torch.zeros_like(want[1])))
    assert torch.equal(out, want[0])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_a_row_does_not_see_changes_no_bit(value: float) -> None:
    q, k, v = operands((1, 300, 300, 4, 2, 64, 64))
    want = call(q, k, v, causal=True)
    k[:, 200], v[:, 200, :, ::7] = value, value
    o, lse = call(q, k, v, causal=True)
    assert torch.equal(o[:, :200], want[0][:, :200])
    assert torch.equal(lse[..., :200], want[1][..., :200])


def test_values_that_are_not_finite_reach_the_rows_that_see_them() -> None:
    q, k, v = operands((1, 40, 300, 2, 1, 32, 48))
    want, _ = call(q, k, v)
    v[0, 7, 0, 3], v[0, 290, 0, 5] = float("inf"), float("nan")
    v[0, 9, 0, 8], v[0, 10, 0, 8] = float("inf"), float("-inf")
    o, _ = call(q, k, v)
    assert bool((o[..., 3] == float("inf")).all())
    assert bool(o[..., 5].isnan().all()) and bool(o[..., 8].isnan().all())
    rest = [c for c in range(48) if c not in (3, 5, 8)]
    assert torch.equal(o[..., rest], want[..., rest])


def test_scores_that_are_not_finite() -> None:
    q, k, v = operands((1, 40, 70, 1, 1, 32, 32))
    q[0, 3], q[0, 4, 0, 0] = float("nan"), float("inf")
    k[..., 0] = k[..., 0].abs()
    want, _ = call(*operands((1, 40, 70, 1, 1, 32, 32))[:1], k, v)
    o, lse = call(q, k, v)
    assert bool(o[0, 3:5].isnan().all()) and bool(lse[..., 3:5].isnan().all())
    rest = [r for r in range(40) if r not in (3, 4)]
    assert torch.equal(o[:, rest], want[:, rest])


def test_a_row_has_the_same_bits_in_any_batch_on_any_threads() -> None:
    q, k, v = operands((2, 700, 700, 4, 2, 64, 64))
    want, want_lse = call(q, k, v, causal=True)
    threads = torch.get_num_threads()
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            o, lse = call(q[1:], k[1:], v[1:], causal=True)
            assert torch.equal(o, want[1:]) and torch.equal(lse, want_lse[1:])
            o, lse = call(q[:, 650:], k, v, causal=True)
            assert torch.equal(o, want[:, 650:]) and torch.equal(lse, want_lse[..., 650:])
    finally:
        torch.set_num_threads(threads)


def test_packed_sequences_are_each_alone() -> None:
    q, k, v = drawn((200, 4, 48), (500, 2, 48), (500, 2, 32))
    cu_q, cu_k = (
        torch.tensor(at, dtype=torch.int32) for at in ([0, 70, 70, 199], [0, 300, 310, 499])
    )
    with dlblas.pinned("flash_attention_varlen_lse", UNIT):
        o, lse = dlblas.flash_attention_varlen_lse(q, k, v, cu_q, cu_k, causal=True)
    for i in range(3):
        rows, keys = slice(int(cu_q[i]), int(cu_q[i + 1])), slice(int(cu_k[i]), int(cu_k[i + 1]))
        if rows.stop == rows.start:
            continue
        alone = call(q[None, rows], k[None, keys], v[None, keys], causal=True)
        assert torch.equal(o[rows], alone[0][0]) and torch.equal(lse[:, rows], alone[1][0])
    assert not bool(o[199:].any()) and bool((lse[:, 199:] == float("-inf")).all())


def test_denormal_values_count_as_zero() -> None:
    q, k, v = operands((1, 4, 40, 1, 1, 32, 32))
    o, _ = call(q, k, torch.full_like(v, 2.0**-130))
    assert not bool(o.any())


def test_when_it_is_chosen() -> None:
    q, k, v = operands((1, 512, 512, 8, 2, 128, 128))
    assert f">  {UNIT}" in str(dlblas.explain(OP, q, k, v))
    with dlblas.deterministic():
        found = str(dlblas.explain(OP, q, k, v))
    assert f">  {UNIT}" in found and "other bits than AMX" in found


def test_other_dtypes_are_refused() -> None:
    q, k, v = (t.float() for t in operands((1, 4, 4, 1, 1, 8, 8)))
    with pytest.raises(dlblas.errors.UnsupportedError, match="bf16 alone; q has another"):
        call(q, k, v)
