"""A search's drawn inputs must leave nothing that a wrong candidate could exploit: no values
outside the domain, integers not only below 64, scalars that vary, rows of zeros, empty groups.

An operator stays for the process, so test_own_drawn.py runs this file in one of its own.
Read next: src/tuner/filler.cpp, src/tuner/looks.cpp, docs/tuning.md "When a result is right".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import dlblas
import numpy as np
import pytest

CODES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
RNG = np.random.default_rng(0)
Candidate = Callable[..., None]


@pytest.fixture(autouse=True)
def registered() -> Iterator[list[tuple[str, str]]]:
    names: list[tuple[str, str]] = []
    yield names
    for op, name in names:
        dlblas.unregister(op, name)


def failures(
    op: str, args: Any, given: dict[str, Any], names: list[tuple[str, str]], **candidates: Candidate
) -> dict[str, str]:
    """Failure kinds by name; "" means right."""
    for name, function in candidates.items():
        dlblas.register(op, name, function)
        if (op, name) not in names:
            names.append((op, name))
    try:
        report = dlblas.tune(
            op, args, kwargs=given, seconds=5, force=True, worker=False,
            implementations=list(candidates), max_evaluations=len(candidates) + 3,
        )  # fmt: skip
    except dlblas.errors.TuningFailedError as error:
        assert len(candidates) == 1, error
        return {next(iter(candidates)): str(error)}
    found = {e["implementation"]: e.get("failure") or "" for e in report["evaluated"]}
    assert report["served"]["implementation"] not in {n for n in candidates if found[n]}
    return found


def probabilities(rows: int, columns: int) -> Any:
    x = RNG.random((rows, columns), np.float32)
    return x / x.sum(-1, keepdims=True)


def test_nan_is_no_filtered_probability(registered: Any) -> None:
    def nans(x: Any, top_p: Any, probs: bool, renorm: bool, y: Any) -> None:
        y[...] = np.nan

    given = {"top_p": np.full(16, 0.9, np.float32), "probs": True, "renorm": True}
    found = failures("filter_rows", (probabilities(16, 512),), given, registered, nans=nans)
    assert "wrong" in found["nans"]


def test_minus_one_is_no_sample_of_probabilities(registered: Any) -> None:
    def none(x: Any, seed: int, offset: int, probs: bool, ids: Any) -> None:
        ids[...] = -1

    given = {"probs": True, "seed": 1}
    found = failures("sample_rows", (probabilities(16, 512),), given, registered, none=none)
    assert "wrong" in found["none"]


@pytest.mark.parametrize("value", [np.nan, 3.0], ids=["nan", "constant"])
def test_what_cannot_be_judged_does_not_win(value: float, registered: Any) -> None:
    """A reference that returns NaN, or the same number, for every input drawn: the error says what
    to do."""
    name = f"drawn_same_{'nan' if value != value else 'constant'}"
    dlblas.register_operator(
        f"{name}(x: f[*T, C]) -> y: like(x)[*T, C] where T: bucket(tokens)",
        lambda x: np.where(np.abs(x) < 1e6, value, x),
    )

    def lazy(x: Any, y: Any) -> None:
        y[...] = value

    found = failures(name, (np.ones((64, 32), np.float32),), {}, registered, lazy=lazy)
    assert "unjudged" in found["lazy"] and "say in the schema what inputs hold" in found["lazy"]


def test_half_of_it_being_nan_is_no_reason(registered: Any) -> None:
    dlblas.register_operator(
        "drawn_root(x: f[*T, C]) -> y: like(x)[*T, C] where T: bucket(tokens)",
        lambda x: np.where(x < -1, np.nan, np.abs(x)),
    )

    def root(x: Any, y: Any) -> None:
        y[...] = np.where(x < -1, np.nan, np.abs(x))

    assert failures("drawn_root", (np.ones((64, 32), np.float32),), {}, registered, right=root) == {
        "right": ""
    }


def scale_of(scale: Any) -> Any:  # f8e4m3
    b = np.asarray(scale).view(np.uint8).astype(np.int32)
    exponent, fraction = b >> 3 & 15, b & 7
    size = np.where(exponent == 0, fraction * 2.0**-9, (8 + fraction) * 2.0 ** (exponent - 10))
    return np.repeat(np.where(b & 128, -size, size).astype(np.float32), 16, -1)


def test_every_bit_of_a_code_is_drawn(registered: Any) -> None:
    def codes(mask: int) -> Candidate:
        def run(q: Any, scale: Any, global_scale: Any, y: Any) -> None:
            pair = np.stack([CODES[q & 15], CODES[q >> 4 & mask]], -1).reshape(len(q), -1)
            y[...] = pair * scale_of(scale) * np.float32(global_scale)

        return run

    ml_dtypes = pytest.importorskip("ml_dtypes")
    q = RNG.integers(0, 64, (64, 512), np.uint8)
    scale = np.ones((64, 64), ml_dtypes.float8_e4m3fn)
    args = (q, scale, np.array(0.5, np.float32))
    found = failures(
        "dequantize_nvfp4", args, {}, registered, right=codes(15), no_sign=codes(7), low=codes(3)
    )
    assert found["right"] == "" and found["no_sign"] == found["low"] == "wrong_result", found


def test_every_bit_of_packed_integers_is_drawn(registered: Any) -> None:
    def unpack(mask: int) -> Candidate:
        def run(qweight: Any, scales: Any, group: int, zeros_minus_one: bool, y: Any) -> None:
            shifts = np.arange(0, 32, 4)[:, None]
            nibbles = qweight[:, None, :].view(np.uint32) >> shifts & 15
            top = nibbles[:, 7]
            nibbles[:, 7] = np.where(top == 15, top, top & mask)
            values = nibbles.reshape(-1, qweight.shape[1]).astype(np.float32) - 8
            y[...] = values * np.repeat(scales, group, 0)

        return run

    args = (np.zeros((32, 64), np.int32), np.ones((2, 64), np.float32))
    found = failures(
        "gptq_dequantize", args, {"group": 128}, registered, right=unpack(15), no_sign=unpack(7)
    )
    assert found == found | {"right": "", "no_sign": "wrong_result"}, found


@pytest.mark.parametrize("dtype", ["u8", "i8", "i32", "i64"])
def test_integers_are_not_small_alone(dtype: str, registered: Any) -> None:
    op = f"drawn_twice_{dtype}"
    dlblas.register_operator(
        f"{op}(x: {dtype}[T, C]) -> y: i64[T, C] where T: bucket(tokens)",
        lambda x: 2 * x.astype(np.int64),
    )

    def through(kind: Any) -> Candidate:
        def run(x: Any, y: Any) -> None:
            y[...] = 2 * kind(x).astype(np.int64)

        return run

    wrong: dict[str, Any] = {
        "u8": {"seven_bits": lambda x: x & 127},
        "i8": {"size": lambda x: np.abs(x.astype(np.int64)), "seven": lambda x: x.clip(-127, 110)},
        "i32": {"i16": lambda x: x.astype(np.int16), "size": np.abs, "u8": lambda x: x & 255},
        "i64": {"i32": lambda x: x.astype(np.int32), "size": np.abs},
    }[dtype]
    x = np.ones((128, 64), {"u8": np.uint8, "i8": np.int8, "i32": np.int32}.get(dtype, np.int64))
    made = {name: through(kind) for name, kind in wrong.items()}
    found = failures(op, (x,), {}, registered, right=through(lambda v: v), **made)
    assert found.pop("right") == "" and set(found.values()) == {"wrong_result"}, found


def test_integers_that_a_reference_takes_as_places_are_small(registered: Any) -> None:
    dlblas.register_operator(
        "drawn_take(x: f[P, C], ids: i32[T]) -> y: like(x)[T, C] where T: bucket(tokens)",
        lambda x, ids: x[ids],
    )

    def take(x: Any, ids: Any, y: Any) -> None:
        y[...] = x[ids]

    table, ids = np.ones((64, 32), np.float32), np.zeros(24, np.int32)
    specs = tuple(dlblas.Spec(a.shape, str(a.dtype)) for a in (table, ids))
    for args in ((table, ids), specs):
        assert failures("drawn_take", args, {}, registered, right=take) == {"right": ""}


def test_an_enumeration_that_no_key_has_varies(registered: Any) -> None:
    def ignores(x: Any, dtype: str, scale_dtype: str, q: Any, scale: Any) -> None:
        most = np.abs(x.astype(np.float32)).max(-1, keepdims=True)
        s = np.where(most == 0, np.float32(1), np.maximum(most / np.float32(127), 2.0**-126))
        if scale_dtype == "ue8m0" and heeds:
            s = np.exp2(np.ceil(np.log2(s)))
        scale[...] = s
        q[...] = np.clip(np.rint(x / s.astype(np.float32)), -127, 127)

    x = RNG.standard_normal((64, 256), np.float32)
    heeds = False
    found = failures("quantize_token", (x,), {"dtype": "i8"}, registered, ignores=ignores)
    assert "other values and scalars" in found["ignores"]


def test_what_a_key_says_only_of_being_set_varies(registered: Any) -> None:
    first: dict[Any, float] = {}

    def capped(x: Any, cap: float) -> Any:
        return x if cap == 0 else cap * np.tanh(x / cap)

    dlblas.register_operator(
        "drawn_cap(x: f[*T, C], cap: float = 0 key(set=30)) -> y: like(x)[*T, C] "
        "where T: bucket(tokens)",
        capped,
    )

    def keeps(x: Any, cap: float, y: Any) -> None:
        y[...] = capped(x, np.float32(first.setdefault(x.shape, cap)))

    def hard(x: Any, cap: float, y: Any) -> None:
        y[...] = capped(x, np.float32(0 if cap == 0 else 30))

    def right(x: Any, cap: float, y: Any) -> None:
        y[...] = capped(x, np.float32(cap))

    x = 20 * RNG.standard_normal((64, 256), np.float32)
    for given in ({"cap": 30.0}, {"cap": -2.0}):
        first.clear()
        found = failures("drawn_cap", (x,), given, registered, right=right, keeps=keeps, hard=hard)
        assert found == {"right": "", "keeps": "wrong_result", "hard": "wrong_result"}, found


def test_a_window_that_is_kept_by_shape_shows(registered: Any) -> None:
    masks: dict[Any, int] = {}

    def attend(q: Any, k: Any, v: Any, causal: bool, scale: float, window: int, softcap: float,
               o: Any, lse: Any) -> None:  # fmt: skip
        width = masks.setdefault((q.shape, k.shape), window)
        heads, length = q.shape[-1] ** -0.5 if scale == 0 else scale, k.shape[1]
        s = heads * np.einsum("bshd,blhd->bhsl", q.astype("f8"), k.astype("f8"))
        at, key = np.arange(q.shape[1])[:, None] + length - q.shape[1], np.arange(length)[None]
        s = np.where(abs(at - key) <= width, s, -np.inf)
        e = np.exp(s - s.max(-1, keepdims=True))
        lse[...] = np.log(e.sum(-1)) + s.max(-1)
        o[...] = np.einsum("bhsl,blhd->bshd", e / e.sum(-1, keepdims=True), v)

    arrays = tuple(RNG.standard_normal((1, 64, 2, 32), np.float32) for _ in range(3))
    found = failures("flash_attention_lse", arrays, {"window": 8}, registered, keeps=attend)
    assert "other values and scalars" in found["keeps"]


def test_a_users_scalar_does_not_stay_its_default(registered: Any) -> None:
    dlblas.register_operator(
        "drawn_leaky(x: f[*T, C], slope: float = 0.01, sign: bool = false runtime) -> "
        "y: like(x)[*T, C] where T: bucket(tokens)",
        lambda x, slope, sign: np.where(x > 0, x, slope * x) * (-1 if sign else 1),
    )

    def leaky(x: Any, slope: float, sign: bool, y: Any) -> None:
        y[...] = np.where(x > 0, x, np.float32(slope) * x) * (-1 if sign else 1)

    def hard(x: Any, slope: float, sign: bool, y: Any) -> None:
        leaky(x, 0.01, sign, y)

    def unsigned(x: Any, slope: float, sign: bool, y: Any) -> None:
        leaky(x, slope, False, y)

    x = RNG.standard_normal((64, 256), np.float32)
    found = failures("drawn_leaky", (x,), {}, registered, right=leaky, hard=hard, unsigned=unsigned)
    assert found == {"right": "", "hard": "wrong_result", "unsigned": "wrong_result"}


@pytest.mark.parametrize("most", [0.4, 0.25], ids=["less is taken", "nothing else is"])
@pytest.mark.parametrize("refusal", ["raises", "has no numbers"])
def test_a_scalar_that_the_reference_refuses_hides_no_other(
    refusal: str, most: float, registered: Any
) -> None:
    def scaled(x: Any, share: float, slope: float) -> Any:
        if share > most or (most == 0.25 and share != most):
            if refusal == "raises":
                raise ValueError("share is too large")
            return x * np.nan
        return x * share + np.maximum(slope * x, 0)

    op = f"drawn_share_{len(refusal)}_{int(100 * most)}"
    dlblas.register_operator(
        f"{op}(x: f[*T, C], share: float = 0.25, slope: float = 1) -> y: like(x)[*T, C] "
        "where T: bucket(tokens)",
        scaled,
    )

    def right(x: Any, share: float, slope: float, y: Any) -> None:
        y[...] = x * np.float32(share) + np.maximum(np.float32(slope) * x, 0)

    def hard_slope(x: Any, share: float, slope: float, y: Any) -> None:
        right(x, share, 1, y)

    def hard_share(x: Any, share: float, slope: float, y: Any) -> None:
        right(x, 0.25, slope, y)

    x = RNG.standard_normal((64, 256), np.float32)
    found = failures(
        op, (x,), {}, registered, right=right, hard_slope=hard_slope, hard_share=hard_share
    )
    shown = "wrong_result" if most == 0.4 else ""  # it has this value alone
    assert found == {"right": "", "hard_slope": "wrong_result", "hard_share": shown}


def test_a_row_of_zeros_is_drawn(registered: Any) -> None:
    dlblas.register_operator(
        "drawn_unit(x: f[*T, C]) -> y: like(x)[*T, C] where T: bucket(tokens)",
        lambda x: x / np.maximum(np.sqrt((x * x).sum(-1, keepdims=True)), 1e-12),
    )

    def unit(x: Any, y: Any) -> None:
        y[...] = x / np.maximum(np.sqrt((x * x).sum(-1, keepdims=True)), np.float32(1e-12))

    def bare(x: Any, y: Any) -> None:
        with np.errstate(invalid="ignore"):
            y[...] = x / np.sqrt((x * x).sum(-1, keepdims=True))

    for rows in (2, 64):
        x = RNG.standard_normal((rows, 256), np.float32)
        found = failures("drawn_unit", (x,), {}, registered, right=unit, bare=bare)
        assert found == {"right": "", "bare": "wrong_result"}


def test_a_row_of_zeros_that_has_no_result_is_not_asked_about(registered: Any) -> None:
    seen: list[bool] = []
    dlblas.register_operator(
        "drawn_bare(x: f[*T, C]) -> y: like(x)[*T, C] where T: bucket(tokens)",
        lambda x: x / np.sqrt((x * x).sum(-1, keepdims=True)),
    )

    def bare(x: Any, y: Any) -> None:
        seen.append(bool((x == 0).all(-1).any()))
        y[...] = x / np.sqrt((x * x).sum(-1, keepdims=True))

    x = RNG.standard_normal((64, 256), np.float32)
    assert failures("drawn_bare", (x,), {}, registered, right=bare) == {"right": ""}
    assert not any(seen)


@pytest.mark.parametrize("lent", [True, False], ids=["lent", "of a spec"])
def test_lengths_of_zero_and_empty_groups_are_drawn(lent: bool, registered: Any) -> None:
    def mean(x: Any, n: Any, ends: Any) -> Any:
        found = np.zeros((len(n), x.shape[2]))
        for b in range(len(n)):
            found[b] = x[b, : n[b]].mean(0) if n[b] > 0 else 0
            found[b] += x[ends[b] : ends[b + 1], 0].mean(0) if ends[b + 1] > ends[b] else 0
        return found

    op = f"drawn_mean_{lent}"
    dlblas.register_operator(
        f"{op}(x: f[B, L, C], n: i32[B] ~ lengths<=L, ends: i32[B+1] ~ offsets<=B) -> "
        "y: like(x)[B, C] where B: bucket(tokens)",
        mean,
    )

    def right(x: Any, n: Any, ends: Any, y: Any) -> None:
        y[...] = mean(x.astype("f8"), n, ends)

    def longer(x: Any, n: Any, ends: Any, y: Any) -> None:
        y[...] = mean(x.astype("f8"), np.maximum(n, 1), ends)

    x = RNG.standard_normal((64, 16, 32), np.float32)
    n, ends = np.full(64, 16, np.int32), np.arange(65, dtype=np.int32)
    specs = tuple(dlblas.Spec(a.shape, str(a.dtype)) for a in (x, n, ends))
    args = (x, n, ends) if lent else specs
    found = failures(op, args, {}, registered, right=right, longer=longer)
    assert found == {"right": "", "longer": "wrong_result"}


def test_where_96_sigma_are_too_many_some_are_12(registered: Any) -> None:
    dlblas.register_operator(
        "drawn_exp(x: f[*T, C]) -> y: like(x)[*T, C] where T: bucket(tokens)",
        lambda x: np.exp(x),
    )

    def right(x: Any, y: Any) -> None:
        np.exp(x.astype("f8"), out=y, casting="same_kind")

    def clips(x: Any, y: Any) -> None:
        np.exp(np.clip(x, -6, 6).astype("f8"), out=y, casting="same_kind")

    x = RNG.standard_normal((64, 256), np.float32)
    found = failures("drawn_exp", (x,), {}, registered, right=right, clips=clips)
    assert found == {"right": "", "clips": "wrong_result"}


def test_what_the_callers_indices_happen_to_be_is_not_relied_on(registered: Any) -> None:
    def ref(pool: Any, table: Any, lens: Any) -> Any:
        return np.where(np.arange(pool.shape[1])[None] < lens[:, None], pool[table], 0)

    dlblas.register_operator(
        "drawn_pages(pool: f[P, C], table: i32[T] ~ index<P, lens: i32[T] ~ lengths<=C) -> "
        "y: like(pool)[T, C] where T: bucket(tokens)",
        ref,
    )

    def right(pool: Any, table: Any, lens: Any, y: Any) -> None:
        y[...] = ref(pool, table, lens)

    def in_order(pool: Any, table: Any, lens: Any, y: Any) -> None:
        y[...] = ref(pool, np.arange(len(table)), lens)

    pool = RNG.standard_normal((512, 64), np.float32)
    args = (pool, np.arange(256, dtype=np.int32), np.full(256, 64, np.int32))
    found = failures("drawn_pages", args, {}, registered, right=right, in_order=in_order)
    assert found == {"right": "", "in_order": "wrong_result"}


def test_indices_that_belong_together_stay_where_others_raise(registered: Any) -> None:
    def ref(x: Any, order: Any, again: Any) -> Any:
        if not (order == again).all():
            raise ValueError("two lists of one order")
        return x[order]

    dlblas.register_operator(
        "drawn_pair(x: f[T, C], order: i32[T] ~ index<T, again: i32[T] ~ index<T) -> "
        "y: like(x)[T, C] where T: bucket(tokens)",
        ref,
    )

    def right(x: Any, order: Any, again: Any, y: Any) -> None:
        y[...] = x[again]

    order = RNG.permutation(64).astype(np.int32)
    args = (RNG.standard_normal((64, 32), np.float32), order, order.copy())
    assert failures("drawn_pair", args, {}, registered, right=right) == {"right": ""}
