"""What tests must know of sampling: how to spoil samples and filtered rows, whose own judge
decides, and whether a spoilt row is wrong, computed in NumPy and f64 independently of the library's
own law. Read next: tests/rooms.py, tests/judge_perturbations.py, ops/sampling/law.hpp.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Iterator
from typing import Any

import dlblas
import numpy as np
import oracle_perturbations as oracle
from batch_parts import Cut, Given, some_of
from dlblas.harness.call import numpy_dtype
from judge_perturbations import (
    APART,
    INF,
    LONG,
    IsWrong,
    Problem,
    Spoiler,
    Spoilt,
    right_of,
    stale_rows,
    swapped,
    unwritten,
)
from oracle_perturbations import FAR, ROUNDING, ROUNDINGS
from test_sampling import philox


def seeded_rows(given: Given, pick: random.Random) -> Cut | None:
    """Only where seeds are given: without them, a draw depends on the row number."""
    if given["x"].ndim != 2 or given.get("seeds") is None or len(given["x"]) < 2:
        return None
    kept = some_of(len(given["x"]), pick)
    return Cut({"T": kept}, {}, f"rows {kept}")


def sampling_args(
    op: str, letter: str, size: int, options: dict[str, Any], rng: np.random.Generator
) -> dict[str, Any]:
    """Rows of every kind, chosen by row number: each filter alone, two, all, none; ties, impossible
    columns, no law, greedy rows."""
    long = letter == "V" and size > 2**17
    rows, width = (size, 12) if letter == "T" else (2 if long else 16 if size <= 4096 else 4, size)
    number = np.arange(rows) + int(rng.integers(16))
    x = rng.standard_normal((rows, width)) * (1 if long else 3)
    if options["probs"]:
        x = np.exp(np.minimum(x, 11))
    x[number % 8 == 3] = np.round(x[number % 8 == 3])  # ties
    nothing = 0.0 if options["probs"] else -INF
    x[np.ix_(number % 4 == 1, np.arange(width) % 3 == 1)] = nothing
    x = x.astype(numpy_dtype(options["dtype"]))
    x[number % 16 == 13, width // 2] = math.nan

    def where(bit: int, values: Any, otherwise: float) -> Any:
        given: Any = np.full(rows, bit == 0) if long else (number >> bit) % 2 == 0
        return np.where(given, values, otherwise).astype(np.float32)

    args = {
        "x": x, "probs": options["probs"],
        "top_k": where(0, rng.integers(1, max(2, width // 2 + 1), rows), 0).astype(np.int32),
        "top_p": where(1, rng.uniform(0.3, 0.95, rows), 1),
        "min_p": where(2, rng.uniform(0.001, 0.2, rows), 0),
    }  # fmt: skip
    if op == "filter_rows":
        return {**args, "renorm": options["renorm"]}
    heat = np.where(number % 8 == 6, 0, rng.uniform(0.4, 2, rows))
    args["temperature"] = np.where(number % 16 == 11, -1, heat).astype(np.float32)
    args |= {"seed": int(rng.integers(2**40)), "offset": int(rng.integers(2**40))}
    if size % 2:
        args["seeds"] = rng.integers(2**31 - 1, size=rows)
    return args


class Law:
    """The law of one row: masses relative to the largest, the sets that may stay (each named by its
    least value; more than one where f32 cannot decide), and the interval of each column, for the
    random number."""

    def __init__(self, args: dict[str, Any], row: int) -> None:
        self.x = x = args["x"][row].astype(np.float64)
        self.probs, most = args["probs"], x.max()
        heat = float(args["temperature"][row]) if "temperature" in args else 1.0
        self.bad = bool(np.isnan(x).any() or (x == INF).any() or (self.probs and (x < 0).any()))
        self.bad |= not most > (0 if self.probs else -INF) or (not self.probs and not heat >= 0)
        self.greedy = not self.bad and not self.probs and heat == 0
        if self.bad or self.greedy:
            return
        self.p = x / most if self.probs else np.exp((x - most) / heat)
        order = np.argsort(-x, kind="stable")
        high, mass = x[order], self.p[order]
        k, top_p, min_p = (args[name][row].item() for name in ("top_k", "top_p", "min_p"))
        above_floor = high >= (high[k - 1] if 0 < k < len(x) else -INF)
        above = np.concatenate([[0], np.cumsum(mass * above_floor)])
        whole, above = above[-1], above[np.searchsorted(-high, -high)]

        def fits(slack: float) -> Any:
            found = above_floor.copy()
            if top_p < 1:
                found &= above < (max(top_p, 0) + slack) * whole
            if min_p > 0:
                found &= mass >= min(min_p, 1) * (1 - slack)
            found |= high == most
            return np.logical_and.accumulate(found)

        last, first = int(fits(APART).sum()), int(fits(-APART).sum())
        self.least = np.unique(high[first - 1 : last])  # the lowest first
        self.clear = len(self.least) == 1

    def places(self, least: float) -> tuple[Any, Any]:
        """Where each column's share of the kept mass begins and ends, within 0 … 1."""
        kept = np.where(self.x >= least, self.p, 0)
        ends = np.cumsum(kept)
        return (ends - kept) / ends[-1], ends / ends[-1]


def random_of(args: dict[str, Any], row: int) -> float:
    apart = "seeds" in args
    seed = args["seed"] + (int(args["seeds"][row]) if apart else 0)
    return float(philox(seed, args["offset"], 0 if apart else row) / 2**64)


def id_is_wrong(args: dict[str, Any], row: int, column: int) -> bool:
    law = Law(args, row)
    if law.bad:
        return column != -1
    if not 0 <= column < len(law.x):
        return True
    if law.greedy:
        return column != int(np.argmax(law.x))
    if law.p[column] == 0:
        return True
    u = random_of(args, row)
    for least in law.least:
        begins, ends = law.places(least)
        if law.x[column] >= least and begins[column] - APART <= u <= ends[column] + APART:
            return False
    return True


def some_rows(args: dict[str, Any], rng: np.random.Generator) -> list[tuple[int, Law]]:
    """Up to 16 consecutive rows, so every kind of row that exists is among them."""
    count = len(args["x"])
    first = int(rng.integers(max(1, count - 15)))
    return [(row, Law(args, row)) for row in range(first, min(count, first + 16))]


def sample_ways(case: Problem, right: Any, rng: np.random.Generator) -> Iterator[Spoilt]:
    args, width = case.args, case.args["x"].shape[1]
    yield Spoilt("zeros", (right * 0,))
    yield Spoilt("ids from 1", (right + 1,))
    yield Spoilt("one before", (right - 1,))
    if not oracle.numpy_missing():
        yield Spoilt("rounded", (right.astype(numpy_dtype("bf16")).astype(np.int32),))
    numbers = np.nan_to_num(args["x"].astype(np.float32), nan=-INF)
    yield Spoilt("the largest", (numbers.argmax(-1)[:, None].astype(np.int32),))
    if len(right) > 1:
        yield Spoilt("rows swapped", tuple(swapped(rng, right)))
    other = right_of(case.op, {**args, "offset": args["offset"] + 1})[0]
    yield Spoilt("stale rows", (stale_rows(right, other, rng),))
    yield from (Spoilt("last unwritten", (last,)) for last in unwritten(right))

    for row, law in some_rows(args, rng):

        def spoilt(way: str, column: Any, row: int = row) -> Spoilt:
            ids = right.copy()
            ids[row] = column
            return Spoilt(way, (ids,))

        for none in (-1, width, 2**31 - 1, -(2**31)):
            yield spoilt("no column", none)
        if law.bad:
            yield spoilt("of no law", 0)
            continue
        if law.greedy:
            ties = np.flatnonzero(law.x == law.x.max())
            second = np.where(law.x == law.x.max(), -INF, law.x).argmax()
            yield spoilt("not the largest", second)
            yield from (spoilt("a later largest", tie) for tie in ties[1:2])
            continue
        u, (begins, ends) = random_of(args, row), law.places(law.least[0])
        some = (law.x >= law.least[0]) & (law.p > 0)
        left, later = (
            np.flatnonzero(some & side) for side in (ends < u - APART, begins > u + APART)
        )
        yield from (spoilt("just before", column) for column in left[-1:])
        yield from (spoilt("just after", column) for column in later[:1])
        far = int(np.searchsorted(ends, (u + 0.5) % 1))
        yield spoilt("far away", far)
        near = abs(np.arange(width) - int(right[row, 0]))
        # A column next to u is left to test_a_column_of_no_mass_is_refused.
        away = (begins > u + APART) | (ends < u - APART)
        for way, mask in (
            ("filtered", (law.x < law.least[0]) & (law.p > 0)), ("impossible", (law.p == 0) & away),
        ):  # fmt: skip
            if mask.any():
                yield spoilt(way, np.where(mask, near, 2 * width).argmin())


SAMPLE_WAYS = {
    "zeros", "ids from 1", "one before", "the largest", "rows swapped", "stale rows",
    "last unwritten", "no column", "of no law", "just before", "just after", "far away", "filtered",
    "impossible",
}  # fmt: skip


def nothing_of(args: dict[str, Any]) -> float:
    return 0.0 if args["probs"] or args["renorm"] else -INF


def step(dtype: Any, values: Any) -> Any:
    """The distance from each value to the next one of its dtype."""
    return np.spacing(abs(values).astype(dtype)).astype(np.float64)


def visible_of(args: dict[str, Any], want: Any) -> Any:
    """The error from which a renormalised value is called wrong: some f32 roundings of the row's
    largest value, plus two steps of the value's own dtype if that has 16 bits.

    For logits 32 roundings, not 16: the judge allows 28 at 2^20 columns, because of
    exponentials."""
    roundings = ROUNDINGS if args["probs"] else 2 * ROUNDINGS
    dtype = args["x"].dtype
    return roundings * ROUNDING * want.max() + (0 if dtype == np.float32 else 2) * step(dtype, want)


def row_is_wrong(args: dict[str, Any], row: int, y: Any) -> bool:
    law, y = Law(args, row), y.astype(np.float64)
    if law.bad:
        return not np.isnan(y).all()
    for least in law.least:
        kept = law.x >= least
        want = np.where(kept, law.x, nothing_of(args))
        if args["renorm"]:
            want = np.where(kept, law.p, 0) / law.p[kept].sum()
            with np.errstate(invalid="ignore"):
                right = abs(y - want) <= visible_of(args, want)
            # A value that rounds to 0, or nearly, may be kept or dropped; any other must be kept.
            # Masses are counted in 2^-40 of the largest (ops/sampling/law.hpp).
            lost = (want < 4 * step(args["x"].dtype, want * 0)) | (law.p < 2.0**-40)
            right &= (kept | (y == 0)) & ((y != 0) | lost)
        else:
            right = y == want
        if right.all():
            return False
    return True


def filter_ways(case: Problem, right: Any, rng: np.random.Generator) -> Iterator[Spoilt]:
    args, dtype, width = case.args, right.dtype, right.shape[1]
    nothing = nothing_of(args)
    yield Spoilt("zeros", (np.zeros_like(right),))
    yield Spoilt("scaled", ((right.astype(np.float64) * 1.02).astype(dtype),))
    if not oracle.numpy_missing():
        yield Spoilt("rounded", (right.astype(numpy_dtype("bf16")).astype(dtype),))
    yield Spoilt("all kept", (args["x"].copy(),))
    for fill in (0.0, -INF, -65504.0, math.nan):
        filled = np.where(right == nothing, np.asarray(fill, dtype), right)
        yield Spoilt("another fill", (filled,))
    other = right_of(case.op, {**args, "renorm": not args["renorm"]})[0]
    yield Spoilt("renormalised or not", (other,))
    if len(right) > 1:
        yield Spoilt("rows swapped", tuple(swapped(rng, right)))
    yield Spoilt("stale rows", (stale_rows(right, right_of(case.op, case.other)[0], rng),))
    yield from (Spoilt("last unwritten", (last,)) for last in unwritten(right))

    for row, law in some_rows(args, rng):

        def spoilt(way: str, columns: Any, values: Any, row: int = row) -> Spoilt:
            y = right.copy()
            y[row, columns] = np.asarray(values).astype(dtype)
            return Spoilt(way, (y,))

        if law.bad:
            yield spoilt("of no law", np.arange(width), args["x"][row])
            yield spoilt("of no law", int(rng.integers(width)), 0)
            continue
        kept = law.x >= law.least[0]
        whole = law.p[kept].sum()
        value = law.p / whole if args["renorm"] else law.x
        stays, left = np.flatnonzero(kept & (law.p > 0)), np.flatnonzero(~kept)
        last = stays[np.argmin(law.x[stays])]
        yield spoilt("last kept dropped", last, nothing)
        yield spoilt("kept dropped", rng.choice(stays), nothing)
        yield spoilt("largest dropped", law.x.argmax(), nothing)
        if left.size:
            best, any_one = left[np.argmax(law.x[left])], rng.choice(left)
            yield spoilt("best dropped kept", best, value[best])
            yield spoilt("dropped kept", any_one, value[any_one])
            yield spoilt("all of its row kept", left, value[left])
        one = int(rng.choice(stays))
        if args["renorm"]:
            want = np.where(kept, law.p, 0) / whole
            seen = visible_of(args, want)
            for far in (1.01, -1.01):
                further = math.copysign(step(dtype, want[one]), far)
                yield spoilt("one value", one, want[one] + far * seen[one] + further)
            yield spoilt("largest value", law.x.argmax(), want.max() + FAR * seen.max())
            continue
        # Errors that the judge's bound would allow for a share are tested separately:
        # test_values_that_pass_through_change_by_no_rounding.
        was = right[row, one].astype(np.float64)
        share = abs(was) * step(dtype, np.float64(1)) / 2 + step(dtype, np.float64(0))
        for end in (INF, -INF):
            changed = np.nextafter(right[row, one], np.asarray(end, dtype))
            if abs(changed.astype(np.float64) - was) > share:
                yield spoilt("one value", one, changed)
        yield spoilt("largest value", law.x.argmax(), law.x.max() + FAR * step(dtype, law.x.max()))


FILTER_WAYS = {
    "zeros", "scaled", "all kept", "another fill", "renormalised or not", "rows swapped",
    "stale rows", "last unwritten", "of no law", "last kept dropped", "kept dropped",
    "largest dropped", "best dropped kept", "dropped kept", "all of its row kept", "one value",
    "largest value",
}  # fmt: skip


def right_ids(args: dict[str, Any]) -> tuple[Any, ...]:
    return (dlblas.reference("sample_rows", (), args)[0].value.astype(np.int32),)


def right_rows(args: dict[str, Any]) -> tuple[Any, ...]:
    (row,) = dlblas.reference("filter_rows", (), args)
    return (oracle.stored_as(args["x"].dtype, row.value),)


def spoilt_ids(
    case: Problem, right: tuple[Any, ...], rng: np.random.Generator
) -> tuple[Iterator[Spoilt], IsWrong]:
    args = case.args
    ways = sample_ways(case, right[0], rng)
    return ways, lambda row, out: id_is_wrong(args, row, int(out[0][row, 0]))


def spoilt_rows(
    case: Problem, right: tuple[Any, ...], rng: np.random.Generator
) -> tuple[Iterator[Spoilt], IsWrong]:
    args = case.args
    ways = filter_ways(case, right[0], rng)
    return ways, lambda row, out: row_is_wrong(args, row, out[0][row])


def rounded() -> set[str]:
    return set() if oracle.numpy_missing() else {"rounded"}


LETTERS = {"T": 65537, "V": LONG}
SAMPLES = Spoiler(
    LETTERS, {"probs": (False, True)}, functools.partial(sampling_args, "sample_rows"),
    right_ids, spoilt_ids, lambda letter: SAMPLE_WAYS | (rounded() if letter == "V" else set()),
)  # fmt: skip
FILTERED = Spoiler(
    LETTERS, {"probs": (False, True), "renorm": (False, True)},
    functools.partial(sampling_args, "filter_rows"),
    right_rows, spoilt_rows, lambda letter: FILTER_WAYS | rounded(),
)  # fmt: skip

TESTS = {
    "sample_rows": {"judge": SAMPLES, "parts": seeded_rows},
    "filter_rows": {"judge": FILTERED},
}
