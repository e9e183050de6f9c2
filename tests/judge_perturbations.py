"""Spoilt results of the operators that have their own judge: the calls, the ways to be wrong, and
whether a spoilt row is wrong, computed in NumPy and f64 independently of the library's own law.

Used by: test_judges_say_no.py. Read next: ops/moe/topk_ref.hpp, ops/sampling/law.hpp.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import dlblas
import numpy as np
import oracle_perturbations as oracle
from dlblas.harness.call import PATTERNS, numpy_dtype
from oracle_perturbations import FAR, ROUNDING, ROUNDINGS, TILE
from test_sampling import philox

ROUTERS = ("topk_softmax", "topk_sigmoid", "grouped_topk")
SMALL = 20_000  # elements
INF = math.inf
# Gates, and masses of one row, that are closer than this are indistinguishable in f32.
APART = 160 * ROUNDING


class Problem(NamedTuple):
    """One call, and another of the same sizes, whose result serves as stale memory."""

    op: str
    text: str
    args: dict[str, Any]
    other: dict[str, Any]

    @property
    def large(self) -> bool:
        return bool(self.args["logits" if self.op in ROUTERS else "x"].size > SMALL)

    def verify(self, *out: Any, rows: Any = None) -> Any:
        return dlblas.verify(self.op, (), out, self.args, rows=rows)


class Spoilt(NamedTuple):
    way: str
    out: tuple[Any, ...]


def right_of(op: str, args: dict[str, Any]) -> tuple[Any, ...]:
    refs = dlblas.reference(op, (), args)
    if op in ROUTERS:
        return refs[0].value.astype(np.float32), refs[1].value.astype(np.int32)
    if op == "sample_rows":
        return (refs[0].value.astype(np.int32),)
    return (oracle.stored_as(args["x"].dtype, refs[0].value),)


def options_of(op: str) -> list[dict[str, Any]]:
    """Everything that a problem is drawn with, besides its sizes."""
    dtypes = ("f32", "f16", *(() if oracle.numpy_missing() else ("bf16",)))
    choices: dict[str, tuple[Any, ...]] = {"dtype": dtypes}
    if op in ROUTERS:
        choices["renormalize"] = (True, False)
    if op == "grouped_topk":
        choices["scoring"] = ("sigmoid", "softmax")
    if op not in ROUTERS:
        choices["probs"] = (False, True)
    if op == "filter_rows":
        choices["renorm"] = (False, True)
    rows = itertools.product(*choices.values())
    return [dict(zip(choices, row, strict=True)) for row in rows]


def problem(op: str, letter: str, size: int, options: dict[str, Any], seed: int) -> Problem:
    make = router_args if op in ROUTERS else sampling_args
    both = [make(op, letter, size, options, np.random.default_rng([seed, i])) for i in (0, 1)]
    told = ", ".join(f"{name}={value}" for name, value in options.items())
    return Problem(op, f"{op}, {letter}={size}, {told}, seed {seed}", *both)


# Routers: topk_softmax, topk_sigmoid, grouped_topk.


def router_args(
    op: str, letter: str, size: int, options: dict[str, Any], rng: np.random.Generator
) -> dict[str, Any]:
    given = {"T": 5, "E": 24, "topk": 4, "num_groups": 6, **{letter: size}}
    if given["T"] > 1000:
        given |= {"E": 12, "topk": 3, "num_groups": 4}
    if letter == "E":
        given["num_groups"] = max(n for n in range(1, 33) if size % n == 0)
        given["topk"] = min(4, size)
    elif letter == "topk":
        given |= {"E": 160, "num_groups": 8}
    elif letter == "num_groups":
        given |= {"E": 3 * size, "topk": min(4, 3 * ((size + 1) // 2))}
    dtype = numpy_dtype(options["dtype"])
    args = {
        "logits": rng.standard_normal((given["T"], given["E"])).astype(dtype),
        "topk": given["topk"], "renormalize": options["renormalize"],
    }  # fmt: skip
    if op != "grouped_topk":
        return args
    half = (given["num_groups"] + 1) // 2
    args |= {
        "bias": [None, rng.standard_normal(given["E"]).astype(np.float32)][size % 2],
        "num_groups": given["num_groups"], "topk_groups": half,
        "scale": [1.0, 2.5][size % 3 == 0], "scoring": options["scoring"],
        "num_fused_shared_experts": given.get("num_fused_shared_experts", [0, 2][size % 5 < 3]),
    }  # fmt: skip
    width = given["E"] // given["num_groups"]
    args["topk_groups"] = max(half, -(-given["topk"] // width))
    return args


class Router:
    """A router's law in f64: the keys that choose experts, the f32 error allowed on them, the
    groups taken, and the rows in which that choice of groups is unambiguous."""

    def __init__(self, op: str, args: dict[str, Any], right: Any) -> None:
        self.args, self.x = args, args["logits"].astype(np.float64)
        tokens, self.experts = self.x.shape
        if op == "topk_softmax" or args.get("scoring") == "softmax":
            power = np.exp(self.x - self.x.max(-1, keepdims=True))
            self.gates = power / power.sum(-1, keepdims=True)
        else:
            self.gates = 1 / (1 + np.exp(-self.x))
        given = args.get("bias")
        self.bias = np.zeros(self.experts) if given is None else given.astype(np.float64)
        self.keys = self.gates + self.bias
        self.off = APART / 2 * self.gates + 4 * ROUNDING * abs(self.keys)
        self.groups, self.kept = args.get("num_groups", 1), args.get("topk_groups", 1)
        self.open = np.ones(self.x.shape, bool)
        self.clear = np.ones(tokens, bool)
        self.shared = args.get("num_fused_shared_experts", 0)
        if self.kept < self.groups:
            apart = np.sort(self.keys.reshape(tokens, self.groups, -1), -1)
            scores = apart[..., -2:].sum(-1)
            order = np.argsort(-scores, -1, kind="stable")
            ranked = np.take_along_axis(scores, order, -1)
            gap = ranked[:, self.kept - 1] - ranked[:, self.kept]
            self.clear = gap > 4 * self.off.max(-1)
            taken = np.zeros(scores.shape, bool)
            np.put_along_axis(taken, order[:, : self.kept], True, -1)
            self.open = np.repeat(taken, self.experts // self.groups, -1)
        self.want = self.weights(right)
        self.seen = asked(op, args) * ROUNDING * abs(self.want).max(-1, keepdims=True)

    def weights(self, ids: Any, renormalize: bool | None = None) -> Any:
        """The weights of these experts; shared ones last."""
        topk, scale = self.args["topk"], self.args.get("scale", 1.0)
        chosen = np.take_along_axis(self.gates, ids[:, :topk].astype(np.int64), -1)
        total = chosen.sum(-1, keepdims=True)
        over = total if (self.args["renormalize"] if renormalize is None else renormalize) else 1
        more = np.broadcast_to(total / over, (len(ids), self.shared))
        return np.concatenate([scale * chosen / over, more], -1)

    def next_best(self, ids: Any, of: Any) -> Any:
        """The best expert of each row that was not chosen, and whether there is one."""
        left = np.where(of, self.keys, -INF)
        np.put_along_axis(left, ids[:, : self.args["topk"]].astype(np.int64), -INF, -1)
        return left.argmax(-1), left.max(-1) > -INF

    def wrong(self, row: int, ids: Any, right: Any) -> bool:
        """Is this row of ids wrong for any f32 implementation?"""
        topk = self.args["topk"]
        own, best = ids[:topk].astype(np.int64), right[:topk].astype(np.int64)
        if (ids[topk:] != right[topk:]).any() or own.min() < 0 or own.max() >= self.experts:
            return True
        if len(set(own.tolist())) < topk:
            return True
        if not self.clear[row]:
            return False
        keys, off = self.keys[row], self.off[row]
        if (abs(keys[own] - keys[best]) > off[own] + off[best]).any():
            return True
        at = int(np.argmax(own != best))  # equal ones come from the lower expert up
        a, b = own[at], best[at]
        alike = self.x[row, a] == self.x[row, b] and self.bias[a] == self.bias[b]
        return bool(alike and a > b and b not in own[:at])


def asked(op: str, args: dict[str, Any]) -> int:
    """The error, in f32 roundings of a row's largest weight, from which a weight is called wrong.
    It is more than the 16 of other operators because of what judges allow for normal draws,
    relative to a row's largest weight: 45 for a renormalised weight, 25 for a sigmoid, 65 for a
    softmax over 2^20 experts (an exponential's argument and the row's sum are rounded), and as much
    for a shared expert's weight, which is a sum."""
    if args["topk"] == 1 and args["renormalize"] and not args.get("num_fused_shared_experts"):
        return ROUNDINGS  # 1, but for a product with a reciprocal
    sigmoid = op == "topk_sigmoid" or args.get("scoring") == "sigmoid"
    sums = 16 if args.get("num_fused_shared_experts", 0) > 0 else 0
    return (48 if args["renormalize"] else 32 if sigmoid else 80) + sums


def stale_rows(right: Any, other: Any, rng: np.random.Generator) -> Any:
    """A tile of rows still holds another call's result."""
    first = int(rng.integers(len(right)))
    mixed = right.copy()
    mixed[first : first + TILE] = other[first : first + TILE]
    return mixed


def unwritten(right: Any) -> Iterator[Any]:
    """The last element holds what memory held before: arbitrary bytes, zero, NaN."""
    for pattern in (*PATTERNS, 0):
        last = right.copy()
        last.reshape(-1)[-1:].view(np.uint8)[:] = pattern
        yield last
    if right.dtype.kind != "i":
        last = right.copy()
        last.reshape(-1)[-1:] = np.nan
        yield last


def swapped(rng: np.random.Generator, *arrays: Any) -> Iterator[Any]:
    """Each array with the same two rows swapped."""
    a, b = rng.choice(len(arrays[0]), 2, replace=False)
    order = np.arange(len(arrays[0]))
    order[[a, b]] = b, a
    return (array[order] for array in arrays)


def router_ways(
    case: Problem, law: Router, right: tuple[Any, ...], rng: np.random.Generator
) -> Iterator[Spoilt]:
    weights, ids = right
    topk, experts = case.args["topk"], law.experts
    allowed = dlblas.reference(case.op, (), case.args)[0].allowed()
    yield Spoilt("zeros", (weights * 0, ids * 0))
    yield Spoilt("weights zero", (weights * 0, ids))
    yield Spoilt("ids zero", (weights, ids * 0))
    yield Spoilt("scaled", (np.float32(1.02) * weights, ids))
    row, place = (int(rng.integers(n)) for n in weights.shape)
    widest = np.unravel_index(np.argmax(allowed / law.seen), weights.shape)
    for way, at, times in (("one weight", (row, place), 1.01), ("widest weight", widest, FAR)):
        for far in (times, -times):
            one = weights.copy()
            one[at] += far * law.seen[at[0], 0] + math.copysign(ROUNDING * weights[at], far)
            yield Spoilt(way, (one, ids))
    if not oracle.numpy_missing():
        yield Spoilt("rounded", (weights.astype(numpy_dtype("bf16")).astype(np.float32), ids))
    other = law.weights(ids, not case.args["renormalize"]).astype(np.float32)
    yield Spoilt("renormalised or not", (other, ids))
    if len(ids) > 1:
        yield Spoilt("rows swapped", tuple(swapped(rng, weights, ids)))
        yield Spoilt("rows of weights swapped", (*swapped(rng, weights), ids))
        yield Spoilt("rows of ids swapped", (weights, *swapped(rng, ids)))
    before = right_of(case.op, case.other)
    generators = (np.random.default_rng(row) for _ in right)  # the same rows
    mixed = [stale_rows(a, b, g) for a, b, g in zip(right, before, generators, strict=True)]
    yield Spoilt("stale rows", tuple(mixed))
    yield from (Spoilt("last weight unwritten", (last, ids)) for last in unwritten(weights))
    yield from (Spoilt("last id unwritten", (weights, last)) for last in unwritten(ids))
    yield Spoilt("ids from 1", (weights, ids + 1))

    place = int(rng.integers(topk))

    def spoilt(way: str, new: Any, places: Any = place, at_row: int = row) -> Iterator[Spoilt]:
        """Replaces ids of a row: once with the old weights kept, once with the new ids' weights."""
        changed = ids.copy()
        changed[at_row, places] = new
        yield Spoilt(way, (weights, changed))
        if changed[at_row, :topk].min() >= 0 and changed[at_row, :topk].max() < experts:
            own = weights.copy()
            own[at_row] = law.weights(changed)[at_row]
            yield Spoilt(f"{way}, its weights", (own, changed))

    best, there = law.next_best(ids, law.open)
    if there[row]:
        yield from spoilt("next best", best[row], topk - 1)
        yield from spoilt("next best in any place", best[row])
    left = np.setdiff1d(np.arange(experts), ids[row])
    if left.size:
        yield from spoilt("another expert", rng.choice(left))
    for none in (experts + law.shared, -1, 2**31 - 1, -(2**31)):
        yield from spoilt("no expert", none)
    if topk > 1:
        a, b = (place, place + 1) if place + 1 < topk else (place - 1, place)
        yield from spoilt("twice", ids[row, a], b)
        yield from spoilt("two swapped", ids[row, [b, a]], [a, b])
        yield from spoilt("first last", ids[row, [topk - 1, 0]], [0, topk - 1])
        order = weights.copy()
        order[row, [a, b]] = weights[row, [b, a]]
        yield Spoilt("two weights swapped", (order, ids))
    if law.kept < law.groups:
        elsewhere, _ = law.next_best(ids, ~law.open)
        clear = np.flatnonzero(law.clear)
        for r in rng.choice(clear, min(2, clear.size), replace=False):
            yield from spoilt("another group", elsewhere[r], topk - 1, int(r))
    if law.shared > 1:
        shared = ids[row, topk:][::-1]
        yield from spoilt("shared experts swapped", shared, np.arange(topk, topk + law.shared))


def router_row_is_wrong(law: Router, row: int, right: Any, out: Any) -> bool:
    """Judged by its ids or, where the ids are unchanged, by its weights."""
    weights, ids = (result[row] for result in out)
    if (ids != right[1][row]).any():
        return law.wrong(row, ids, right[1][row])
    want = law.want[row]
    return not (abs(weights - want) <= law.seen[row]).all()


ROUTER_WAYS = {
    "zeros", "weights zero", "ids zero", "scaled", "one weight", "widest weight",
    "renormalised or not", "rows swapped", "rows of weights swapped", "rows of ids swapped",
    "stale rows", "last weight unwritten", "last id unwritten", "ids from 1", "next best",
    "next best, its weights", "next best in any place", "another expert",
    "another expert, its weights", "no expert", "twice", "two swapped", "two swapped, its weights",
    "first last", "two weights swapped",
}  # fmt: skip
GROUP_WAYS = {"another group", "another group, its weights", "shared experts swapped"}


# sample_rows and filter_rows.


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
