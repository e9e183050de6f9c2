"""Rotary embeddings on torch tensors as serving code passes them: slices of a fused projection, in
place, partial rotations, positions of both widths, dynamic batches.

Shapes, layouts and special values are in ops/rope/*/cases.json; this file tests what they cannot.
Read next: ops/rope/rotation_ref.hpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402
import dlblas.torch  # noqa: E402
from dlblas import errors  # noqa: E402
from dlpack_alone import DLPackAlone  # noqa: E402
from levels import LEVELS  # noqa: E402

STYLES = ("neox", "interleaved", "interleaved_to_half")
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def turned(x: Any, cos: Any, sin: Any, style: str) -> Any:
    """The formula in f64; cos and sin are [*T, 1, 2·pairs]."""
    x, pairs = x.double(), cos.shape[-1] // 2
    apart = slice(0, pairs), slice(pairs, 2 * pairs)
    near = slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)
    low, high = apart if style == "neox" else near
    to_low, to_high = near if style == "interleaved" else apart
    y = x.clone()
    y[..., to_low] = x[..., low] * cos[..., :pairs] - x[..., high] * sin[..., :pairs]
    y[..., to_high] = x[..., high] * cos[..., pairs:] + x[..., low] * sin[..., pairs:]
    return y


def table_of(positions: int, rotary: int, dtype: Any = torch.float32) -> Any:
    angles = torch.outer(torch.arange(positions), 1e4 ** -(torch.arange(0, rotary, 2) / rotary))
    return torch.cat([angles.cos(), angles.sin()], -1).to(dtype)


def expected(x: Any, positions: Any, table: Any, style: str) -> Any:
    cos, sin = table.double()[positions.long()][:, None].chunk(2, -1)
    return turned(x, torch.cat([cos, cos], -1), torch.cat([sin, sin], -1), style)


def check(got: Any, want: Any) -> None:
    """Three f32 roundings of terms below 2·|x|, and one rounding to the dtype."""
    size = want.abs().amax(-1, keepdim=True) if want.numel() else want
    bound = torch.finfo(got.dtype).eps / 2 * want.abs() + 8 * 2.0**-24 * size + 1e-7
    assert ((got.double() - want).abs() <= bound).all()


def projection(tokens: int, heads: int, kv: int, d: int, dtype: Any) -> tuple[Any, Any, Any, Any]:
    """A fused projection [T, (H + 2·Hkv)·D], and its views q, k, v."""
    whole = torch.randn(tokens, (heads + 2 * kv) * d).to(dtype)
    q, k, v = whole.split([heads * d, kv * d, kv * d], -1)
    return (whole, *(x.view(tokens, x.shape[1] // d, d) for x in (q, k, v)))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("d", "rotary"), [(64, 64), (80, 80), (128, 128), (256, 256), (65, 64),
                                           (128, 64), (71, 26)])  # fmt: skip
def test_slices_of_a_projection_in_place(
    d: int, rotary: int, dtype: str, style: str, level: str
) -> None:
    for tokens in (0, 1, 7, 31):
        whole, q, k, v = projection(tokens, 4, 2, d, DTYPES[dtype])
        before, table = whole.clone(), table_of(40, rotary)
        positions = torch.randint(0, 40, (tokens,))
        wants = [expected(x, positions, table, style) for x in (q, k)]
        with dlblas.pinned("rope", level):
            dlblas.rope_(q, k, positions, table, style=style)
        check(q, wants[0]), check(k, wants[1])
        assert torch.equal(v, before[:, -2 * d :].view_as(v)), "v was written"
        rest = before[:, : 6 * d].view(tokens, 6, d)[..., rotary:]
        assert torch.equal(torch.cat([q, k], 1)[..., rotary:], rest), "channels behind the pairs"


@pytest.mark.parametrize("style", STYLES)
def test_in_place_is_the_functional_form(style: str) -> None:
    for d, rotary in ((64, 64), (96, 40)):
        _, q, k, _ = projection(9, 3, 1, d, torch.bfloat16)
        table, positions = table_of(64, rotary, torch.bfloat16), torch.arange(9)
        q_out, k_out = dlblas.rope(q, k, positions, table, style=style)
        assert torch.equal(q_out[..., rotary:], q[..., rotary:])
        dlblas.rope_(q, k, positions, table, style=style)
        assert torch.equal(q, q_out) and torch.equal(k, k_out)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", ["rope", "mrope_heads", "qk_norm_rope", "fused_rotary_emb",
                                "apply_rotary_pos_emb"])  # fmt: skip
def test_pairs_that_move_may_do_so_in_place(op: str, dtype: str, level: str) -> None:
    # Heads of one access, of several, and larger than a row copy holds; more rows than parts.
    for tokens, heads, kv, d in ((300, 5, 3, 26), (65, 7, 1, 128), (3, 2, 1, 8192), (2, 0, 3, 64)):
        table, angles = table_of(40, d), torch.randn(2, 2, tokens, d)
        at = torch.randint(0, 40, (tokens,))
        rest = {
            "rope": (at, table),
            "mrope_heads": (at, at // 2, at // 3, table, d // 8, d // 4),
            "qk_norm_rope": (torch.rand(d).to(DTYPES[dtype]),) * 2 + (at, table),
            "fused_rotary_emb": (at.expand(2, tokens), torch.rand(d // 2)),
            "apply_rotary_pos_emb": tuple(angles.transpose(1, 2)),
        }[op]
        # A slice of a fused projection, or leading dimensions that no stride joins.
        whole = torch.randn(tokens, heads + kv + 1, d).to(DTYPES[dtype])
        if op == "fused_rotary_emb":
            whole = whole.repeat(2, 1, 1, 1)
        elif op == "apply_rotary_pos_emb":
            whole = whole.unsqueeze(1).repeat(1, 2, 1, 1)
        q, k, before = whole[..., :heads, :], whole[..., heads:-1, :], whole.clone()
        with dlblas.pinned(op, level):
            wants = getattr(dlblas, op)(q, k, *rest, style="interleaved_to_half")
            assert torch.equal(whole, before), "inputs were written"
            near = getattr(dlblas, op)(q, k, *rest, style="interleaved")
            for want, x in zip(wants, near, strict=True):
                assert torch.equal(want, torch.cat([x[..., 0::2], x[..., 1::2]], -1))
            mixed = (q.clone(), torch.empty_like(k))  # one of two in place
            getattr(dlblas, op)(mixed[0], k, *rest, style="interleaved_to_half", out=mixed)
            getattr(dlblas, op + "_")(q, k, *rest, style="interleaved_to_half")
        for got, want in zip((q, k, *mixed), wants * 2, strict=True):
            assert torch.equal(got, want)
        assert torch.equal(whole[..., -1, :], before[..., -1, :]), "v was written"


@pytest.mark.parametrize("wide", [torch.int32, torch.int64])
def test_positions(wide: Any) -> None:
    q, k, table = torch.randn(6, 2, 32), torch.randn(6, 1, 32), table_of(16, 32)
    for positions in ([3, 3, 3, 3, 3, 3], [15, 0, 7, 15, 1, 0]):
        at = torch.tensor(positions, dtype=wide)
        check(dlblas.rope(q, k, at, table)[0], expected(q, at, table, "neox"))
        spread = torch.stack([at, at + 1000], -1)[:, 0]  # a stride of 2
        assert torch.equal(dlblas.rope(q, k, spread, table)[0], dlblas.rope(q, k, at, table)[0])


def test_a_negative_position_leaves_its_token_alone() -> None:
    q, k, table = torch.randn(3, 2, 32), torch.randn(3, 1, 32), table_of(16, 32)
    before, positions = q.clone(), torch.tensor([4, -1, 5])
    dlblas.rope_(q, k, positions, table)
    assert torch.equal(q[1], before[1]) and not torch.equal(q[0], before[0])


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_misaligned_views_and_any_strides(dtype: str, style: str) -> None:
    table, positions = table_of(16, 48), torch.arange(5)
    flat = torch.randn(5 * 3 * 48 + 8).to(DTYPES[dtype])
    for start in (1, 3, 4):
        q = flat[start : start + 5 * 3 * 48].view(5, 3, 48)
        k = torch.randn(48, 2, 5).to(DTYPES[dtype]).permute(2, 1, 0)
        got = dlblas.rope(q, k, positions, table, style=style)
        for x, y in zip((q, k), got, strict=True):
            check(y, expected(x, positions, table, style))
        q_in, k_in = q.clone(), k.clone()
        dlblas.rope_(q, k, positions, table, style=style)
        check(q, expected(q_in, positions, table, style))
        check(k, expected(k_in, positions, table, style))


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_apply_with_tables_of_a_batch(dtype: str, style: str) -> None:
    batch, tokens, d = 3, 7, 40
    # As Hugging Face stores them: [B, H, S, D] in memory; the two halves of a table differ.
    q = torch.randn(batch, 4, tokens, d).to(DTYPES[dtype]).transpose(1, 2)
    k = torch.randn(batch, tokens, 2, d).to(DTYPES[dtype])
    cos, sin = torch.randn(2, tokens, d)
    for many in (
        (cos.expand(batch, tokens, d), sin.expand(batch, tokens, d)),
        tuple(torch.randn(2, batch, tokens, d)),
        tuple(torch.randn(2, batch, tokens, d).to(DTYPES[dtype])),
    ):
        got = dlblas.apply_rotary_pos_emb(q, k, *many, style=style)
        tables = [t.double()[..., None, :] for t in many]
        for x, y in zip((q, k), got, strict=True):
            check(y, turned(x, *tables, style))
        dlblas.apply_rotary_pos_emb_(q, k, *many, style=style)
        assert torch.equal(q, got[0]) and torch.equal(k, got[1])


def test_numpy() -> None:
    q, k = np.random.default_rng(1).standard_normal((2, 5, 2, 16), dtype=np.float32)
    table, positions = table_of(8, 16).numpy(), np.array([7, 0, 3, 3, 1], np.int64)
    want = expected(torch.tensor(q), torch.tensor(positions), torch.tensor(table), "neox")
    dlblas.rope_(q, k, positions, table)
    check(torch.tensor(q), want)


@pytest.mark.parametrize("op", ["rope", "rope_"])
def test_compiled_with_any_number_of_tokens(op: str) -> None:
    table = table_of(64, 32)

    def model(q: Any, k: Any, positions: Any) -> Any:
        q, k = q * 1, k * 1
        got = getattr(dlblas, op)(q, k, positions, table)
        return got if op == "rope" else (q, k)

    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend="aot_eager")
    for tokens in (3, 5, 17):
        q, k = torch.randn(tokens, 4, 32), torch.randn(tokens, 1, 32)
        for x, got in zip((q, k), compiled(q, k, torch.arange(tokens)), strict=True):
            check(got, expected(x, torch.arange(tokens), table, "neox"))


def test_opcheck_of_slices() -> None:
    _, q, k, _ = projection(5, 3, 1, 32, torch.float32)
    arguments = (q, k, torch.arange(5), table_of(8, 32))
    for form in ("rope", "rope_"):
        result = torch.library.opcheck(getattr(torch.ops.dlblas, form), arguments)
        assert set(result.values()) == {"SUCCESS"}


def test_wrong_shapes_are_refused() -> None:
    q, k, at = torch.randn(5, 2, 32), torch.randn(5, 1, 32), torch.arange(5)
    with pytest.raises(errors.ShapeMismatchError, match=r"^rope: cos_sin_cache has size 31 in dim"):
        dlblas.rope(q, k, at, torch.randn(9, 31))
    with pytest.raises(errors.ShapeMismatchError, match=r"^rope: q has size 32 .* at least 34"):
        dlblas.rope(q, k, at, torch.randn(9, 34))
    with pytest.raises(errors.ShapeMismatchError, match=r"^rope: positions has other leading dim"):
        dlblas.rope(q, k, torch.arange(4), torch.randn(9, 32))
    with pytest.raises(errors.UnsupportedDtypeError, match=r"^rope: positions has dtype f32; exp"):
        dlblas.rope(q, k, torch.zeros(5), torch.randn(9, 32))
    with pytest.raises(
        errors.ShapeMismatchError, match=r"^apply_rotary_pos_emb: q has size 31 in "
    ):
        dlblas.apply_rotary_pos_emb(q[..., :31], k[..., :31], *torch.randn(2, 5, 31))
    with pytest.raises(errors.ArgumentError, match=r"^rope_: q overlaps k; expected memory of its"):
        dlblas.rope_(q, q[:, :1], at, torch.randn(9, 32))


def test_tables_of_a_batch_and_results_by_name() -> None:
    """[S, D] for a batch, [T, 1, D], half the width, q_embed and k_embed; traced and in NumPy."""
    q, k = torch.randn(2, 5, 4, 16), torch.randn(2, 5, 2, 16)
    half = torch.randn(2, 5, 8)
    full = torch.cat((half, half), -1)
    want = dlblas.apply_rotary_pos_emb(q, k, *(t.expand(2, 5, 16) for t in full))

    def same(got: Any, want: Any = want) -> None:
        assert all(torch.equal(torch.as_tensor(x), y) for x, y in zip(got, want, strict=True))

    def call(*args: Any, **named: Any) -> Any:
        return dlblas.apply_rotary_pos_emb(*args, **named)

    for run in (
        call, dlblas.kernels.apply_rotary_pos_emb.apply_rotary_pos_emb,
        torch.compile(call, fullgraph=True, backend="aot_eager"),
    ):  # fmt: skip
        same(run(q, k, *full))
        same(run(q, k, *half))
        same(run(q[0], k[0], *full[:, :, None]), [x[0] for x in want])
        places = torch.empty_like(q), torch.empty_like(k)
        same(run(q, k, *half, *places))
        same(places)
        same(run(q, k, *full, q_embed=places[0]))
    same(dlblas.apply_rotary_pos_emb(*(t.numpy() for t in (q, k, *half))))
    own = q.clone(), k.clone()
    same(dlblas.apply_rotary_pos_emb(*own, *half, *own))
    same(own)
    with pytest.raises(errors.ShapeMismatchError, match="cos has another shape"):
        dlblas.apply_rotary_pos_emb(q, k, *full[:, :3])
    with pytest.raises(errors.ShapeMismatchError, match="expected 8 or 2Dh = 16"):
        dlblas.apply_rotary_pos_emb(q, k, *full[..., :6])


def test_fused_rotary_emb_takes_places() -> None:
    q, k, positions = torch.randn(2, 5, 4, 16), torch.randn(2, 5, 2, 16), torch.arange(5)[None]
    inv_freq = torch.rand(8)
    want = dlblas.fused_rotary_emb(q, k, positions.expand(2, 5), inv_freq)
    places = torch.empty_like(q), torch.empty_like(k)
    got = dlblas.fused_rotary_emb(q, k, positions, inv_freq, out_q=places[0], out_k=places[1])
    for x, y, place in zip(got, want, places, strict=True):
        assert x is place and torch.equal(x, y)


def test_in_place_forms_take_what_the_others_take() -> None:
    """Tables and positions for a whole batch, and rotary_dim; traced too."""
    q, k = torch.randn(2, 5, 4, 16), torch.randn(2, 5, 2, 16)
    cos, sin = torch.randn(2, 5, 16)
    at, table, one = torch.randint(0, 9, (2, 5)), table_of(9, 8), torch.ones(16)
    calls: list[tuple[Any, ...]] = [
        ("apply_rotary_pos_emb", {}, cos, sin),
        ("apply_rotary_pos_emb", {}, cos[:, None, :8], sin[:, None, :8]),
        ("fused_rotary_emb", {}, torch.arange(5)[None], torch.rand(8)),
        ("rope", {"rotary_dim": 8}, at, table),
        ("qk_norm_rope", {"rotary_dim": 8}, one, one, at, table),
    ]
    for op, named, *args in calls:
        want, call = getattr(dlblas, op)(q, k, *args, **named), getattr(dlblas, f"{op}_")
        for run in (call, torch.compile(lambda *a, f=call, **n: f(*a, **n), backend="aot_eager")):
            own = q.clone(), k.clone()
            assert run(*own, *args, **named) is None
            assert all(torch.equal(x, y) for x, y in zip(own, want, strict=True)), op
    with pytest.raises(errors.ShapeMismatchError, match="rotary_pos_emb_: cos has another shape"):
        dlblas.apply_rotary_pos_emb_(q, k, cos[:3], sin[:3])
    with pytest.raises(errors.ShapeMismatchError, match="rope_: rotary_dim is not the width"):
        dlblas.rope_(q, k, at, table, rotary_dim=16)


def test_rotary_dim_is_the_width_of_the_table() -> None:
    q, k, positions = torch.randn(5, 4, 16), torch.randn(5, 2, 16), torch.arange(5)
    table, one = table_of(9, 8), torch.ones(16)
    calls: list[tuple[Any, ...]] = [
        (dlblas.rope, positions, table), (dlblas.qk_norm_rope, one, one, positions, table),
        (dlblas.mrope, positions.expand(3, 5), table, (2, 1, 1)),
    ]  # fmt: skip
    for call, *args in calls:
        for x, y in zip(call(q, k, *args, rotary_dim=8), call(q, k, *args), strict=True):
            assert torch.equal(x, y)
        with pytest.raises(errors.ShapeMismatchError, match="rotary_dim is not the width of cos_s"):
            call(q, k, *args, rotary_dim=16)


@pytest.mark.parametrize("batch", [2, 5, 1])
def test_a_one_before_the_tables_columns_is_their_heads(batch: int) -> None:
    """Even if the batch is as long as a sequence, so that [S, 1, D] could be [B, 1, D]."""
    q, k = torch.randn(batch, 5, 4, 16), torch.randn(batch, 5, 2, 16)
    whole = torch.randn(2, batch, 5, 16)
    for tables in (whole, whole[..., :8]):
        row = tables[:, 0]
        for many, one in (
            (row.unsqueeze(1).expand_as(tables), row[:, :, None]),  # [S, 1, D]
            (tables, tables[:, :, :, None]),  # [B, S, 1, D]
            (row.unsqueeze(1).expand_as(tables), row[:, None, :, None]),  # [1, S, 1, D]
        ):
            want = dlblas.apply_rotary_pos_emb(q, k, *many)
            for x, y in zip(dlblas.apply_rotary_pos_emb(q, k, *one), want, strict=True):
                assert torch.equal(x, y)
    last = torch.randn(2, batch, 1, 16)  # one token of each sequence: [B, S, D] with S = 1
    want = dlblas.apply_rotary_pos_emb(q[:, 0], k[:, 0], *last[:, :, 0])
    got = dlblas.apply_rotary_pos_emb(q[:, :1], k[:, :1], *last)
    assert all(torch.equal(x[:, 0], y) for x, y in zip(got, want, strict=True))
    if batch == 2:  # no tables of every sequence, for all of its tokens
        with pytest.raises(errors.ShapeMismatchError, match=r"cos has another .* got \(2, 1, 16\)"):
            dlblas.apply_rotary_pos_emb(q, k, *last)


def test_places_by_name_are_checked_before_anything_is_written() -> None:
    q, k, cos = torch.randn(5, 4, 8), torch.randn(5, 2, 8), torch.randn(5, 8)
    at, frequencies = torch.arange(5), torch.rand(4)
    calls: list[Any] = [
        ("q_embed", "k_embed", lambda *to: dlblas.apply_rotary_pos_emb(q, k, cos, cos, *to)),
        ("out_q", "out_k", lambda *to: dlblas.fused_rotary_emb(q, k, at, frequencies, 1.0, *to)),
    ]
    for q_name, k_name, call in calls:
        want, right = call(), torch.zeros(5, 4, 8)
        for wrong, kind, words in (
            (
                torch.zeros(5, 2, 8, dtype=torch.int32),
                errors.UnsupportedDtypeError,
                "has dtype i32",
            ),
            (torch.zeros(2, 5, 2, 8), errors.ShapeMismatchError, "has other leading dimensions"),
            (torch.zeros(5, 2, 9), errors.ShapeMismatchError, "has size 9 in dimension 2"),
            (torch.zeros(5, 1, 8).expand(5, 2, 8), errors.ArgumentError, "overlaps itself"),
            ("foo", errors.ArgumentError, "is not an array"),
        ):
            for places in ((None, wrong), (right, wrong)):
                with pytest.raises(kind, match=f"emb: {k_name} {words}; ") as refused:
                    call(*places)
                assert refused.value.argument == k_name and not right.any()
        with pytest.raises(errors.UnsupportedDtypeError, match=f"emb: {q_name} has dtype i32; "):
            call(torch.zeros(5, 4, 8, dtype=torch.int32))
        one = call(right)
        assert one[0] is right
        assert all(torch.equal(x, y) for x, y in zip(one, want, strict=True))
    for missing in ((None, k, cos, cos), (q, [1.0], cos, cos), (q, k, "x", cos)):
        with pytest.raises(errors.ArgumentError) as refused:
            dlblas.apply_rotary_pos_emb(*missing, q_embed=torch.zeros(5, 4, 8))
        assert refused.value.argument in ("q", "k", "cos")
    with pytest.raises(errors.ArgumentTypeError, match="apply_rotary_pos_emb: q is no array"):
        dlblas.apply_rotary_pos_emb(
            DLPackAlone(q.numpy()), *(x.numpy() for x in (k, cos, cos)), k_embed=k.numpy()
        )


def test_a_sparse_place_is_refused_in_words() -> None:
    q, k, cos = torch.randn(5, 4, 8), torch.randn(5, 2, 8), torch.randn(5, 8)
    with pytest.raises(errors.ArgumentError, match="emb: q_embed is not a dense tensor"):
        dlblas.apply_rotary_pos_emb(q, k, cos, cos, torch.zeros(5, 4, 8).to_sparse())


@pytest.mark.parametrize("wrong", [[8], "8", 8.0, torch.ones(3), np.ones(3), object()])
def test_rotary_dim_is_an_integer(wrong: Any) -> None:
    q, k, at, table = torch.randn(5, 4, 16), torch.randn(5, 2, 16), torch.arange(5), table_of(9, 8)
    with pytest.raises(errors.ArgumentTypeError, match=r"^rope: rotary_dim .* expected an integer"):
        dlblas.rope(q, k, at, table, rotary_dim=wrong)
    with pytest.raises(errors.ArgumentTypeError, match=r"^rope: cos_sin_cache is no array"):
        dlblas.rope(
            *(x.numpy() for x in (q, k, at)), DLPackAlone(table.numpy()), rotary_dim=8
        )  # fmt: skip


# ---- more leading dimensions than one -----------------------------------------------------------


def batched(lead: tuple[int, ...] = (2, 5)) -> tuple[Any, ...]:
    return (
        torch.randn(*lead, 4, 16), torch.randn(*lead, 2, 16), torch.randint(0, 9, lead),
        table_of(9, 8),
    )  # fmt: skip


def joined(q: Any, k: Any, positions: Any, table: Any) -> tuple[Any, ...]:
    return q.reshape(-1, 4, 16), k.reshape(-1, 2, 16), positions.reshape(-1), table


def same(got: Any, want: Any) -> None:
    for x, y in zip(got, want, strict=True):
        assert torch.equal(torch.as_tensor(x).reshape(-1), y.reshape(-1))


@pytest.mark.parametrize("lead", [(2, 5), (1, 5), (3, 2, 4), (0, 5)])
def test_tokens_of_any_leading_dimensions(lead: tuple[int, ...]) -> None:
    given = batched(lead)
    want = dlblas.rope(*joined(*given))
    got = dlblas.rope(*given, rotary_dim=8)
    assert [x.shape for x in got] == [x.shape for x in given[:2]]
    same(got, want)
    same(dlblas.rope(*(x.numpy() for x in given)), want)
    q, k, *rest = given
    whole = torch.cat((q, k, torch.randn_like(k)), -2)  # slices of a fused projection
    before = whole.clone()
    dlblas.rope_(whole[..., :4, :], whole[..., 4:6, :], *rest)
    same(whole.split([4, 2, 2], -2), (*want, before[..., 6:, :]))
    # Leading dimensions that no view can flatten, for reads and for writes.
    apart = torch.contiguous_format
    turned = [x.transpose(0, -3).clone(memory_format=apart).transpose(0, -3) for x in (q, k)]
    same(dlblas.rope(*turned, *rest), want)
    places = [torch.empty_like(x) for x in turned]
    assert places[0].stride() == turned[0].stride()
    made = dlblas.rope(q, k, *rest, out=tuple(places))
    assert made[0] is places[0] and made[1] is places[1]
    same(made, want)
    dlblas.rope_(*turned, *rest)
    same(turned, want)
    arrays = [x.numpy().copy() for x in (q, k)]
    dlblas.rope_(*arrays, *(x.numpy() for x in rest))
    same(arrays, want)


def test_an_in_place_form_of_more_dimensions_returns_nothing() -> None:
    q, k, at, table = batched()
    assert dlblas.rope_(q, k, at, table) is None


@pytest.mark.parametrize("op", ["rope", "rope_"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_more_dimensions_compiled(op: str, dynamic: bool) -> None:
    def model(q: Any, k: Any, *rest: Any) -> Any:
        q, k = q * 1, k * 1
        got = getattr(dlblas, op)(q, k, *rest)
        return got if op == "rope" else (got, q, k)[1:]

    compiled = torch.compile(model, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for lead in ((2, 5), (3, 4)):
        given = batched(lead)
        same(compiled(*given), dlblas.rope(*joined(*given)))


def test_more_dimensions_on_meta_and_exported() -> None:
    class Model(torch.nn.Module):
        def forward(self, *given: Any) -> Any:
            return dlblas.rope(*given)

    given = batched()
    assert dlblas.rope(*(x.to("meta") for x in given))[0].shape == (2, 5, 4, 16)
    for strict in (False, True):
        made = torch.export.export(Model(), given, strict=strict).module()
        same(made(*given), dlblas.rope(*given))
    same(torch.ops.dlblas.rope(*given), dlblas.rope(*given))


def test_leading_dimensions_that_differ() -> None:
    q, k, at, table = batched()
    before = q.clone(), k.clone()
    for given, name in (
        ((q, k, at.reshape(-1), table), "positions"), ((q, k[:1], at, table), "k"),
        ((q, k, at[:, :4], table), "positions"),
    ):  # fmt: skip
        for call in (dlblas.rope, dlblas.rope_):
            with pytest.raises(errors.ShapeMismatchError, match=f": {name} has other leading dim"):
                call(*given)
    with pytest.raises(errors.ShapeMismatchError, match=r"out\[0\] \(q_out\) has other leading"):
        dlblas.rope(q, k, at, table, out=(q.reshape(-1, 4, 16), k))
    with pytest.raises(errors.ArgumentError, match="q overlaps itself"):
        dlblas.rope_(q[:1].expand(2, 5, 4, 16), k, at, table)
    with pytest.raises(errors.ArgumentError, match="q requires grad"):
        dlblas.rope_(q.clone().requires_grad_(), k, at, table)
    for wrong, kind in ((None, "is missing"), ([1], "is not an array")):
        with pytest.raises(errors.ArgumentError, match=f"positions {kind}"):
            dlblas.rope(q, k, wrong, table)
    assert torch.equal(q, before[0]) and torch.equal(k, before[1])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("wide", [torch.int32, torch.int64])
def test_a_negative_position_turns_the_other_way(wide: Any, style: str, level: str) -> None:
    """fused_rotary_emb has no table whose bounds a position could leave: the formula holds."""
    q, k, frequencies = torch.randn(7, 4, 32), torch.randn(7, 2, 32), torch.rand(16)
    at = torch.tensor([-1, 0, 1, -70, -3, 12, -2000], dtype=wide)
    angles = (at.double()[:, None] * frequencies.double())[:, None]
    cos, sin = (torch.cat((t, t), -1) for t in (angles.cos(), angles.sin()))
    own = q.clone(), k.clone()
    with dlblas.pinned("fused_rotary_emb", level):
        made = dlblas.fused_rotary_emb(q, k, at, frequencies, style=style)
        dlblas.fused_rotary_emb_(*own, at, frequencies, style=style)
    for x, y, z in zip((q, k), made, own, strict=True):
        want = turned(x, cos, sin, style)
        off = 2.0**-23 * (2 + angles.abs().amax(-1, keepdim=True)) * x.abs().max() * 2
        assert ((y.double() - want).abs() <= off).all() and torch.equal(y, z)


@pytest.mark.parametrize("scaling", [None, {"rope_type": "linear", "factor": 4.0}])
def test_tables_of_numpy_positions(scaling: Any) -> None:
    for positions in (np.arange(5), np.array([3, 0, 2], np.int32), np.array([0.5, 2.0])):
        made = dlblas.rope_tables(positions, 8, 1e4, scaling)
        wanted = dlblas.rope_tables(torch.from_numpy(positions), 8, 1e4, scaling)
        for mine, its in zip(made, wanted, strict=True):
            assert type(mine) is np.ndarray and mine.dtype == np.float32
            np.testing.assert_allclose(mine, its.numpy(), rtol=1e-6, atol=1e-7)
    assert isinstance(dlblas.rope_tables(np.int64(5), 8)[0], torch.Tensor)
    with pytest.raises(dlblas.errors.ShapeMismatchError, match=r"a number or positions \[T\]"):
        dlblas.rope_tables(np.zeros((2, 3)), 8)
    with pytest.raises(dlblas.errors.ArgumentError, match="device"):
        dlblas.rope_tables(np.arange(5), 8, device="cpu")
