"""What tests must know of routing: how to spoil the picks of routers, whose own judge decides, and
whether a spoilt row is wrong, computed in NumPy and f64. Read next: tests/rooms.py,
tests/judge_perturbations.py, ops/moe/topk_ref.hpp.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import dlblas
import numpy as np
import oracle_perturbations as oracle
from dlblas.harness.call import numpy_dtype
from judge_perturbations import (
    APART,
    INF,
    LONG,
    MANY,
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


def row_is_wrong(law: Router, right: Any, row: int, out: Any) -> bool:
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


def rights(args: dict[str, Any], op: str) -> tuple[Any, ...]:
    weights, ids = dlblas.reference(op, (), args)
    return weights.value.astype(np.float32), ids.value.astype(np.int32)


def spoilt(
    case: Problem, right: tuple[Any, ...], rng: np.random.Generator
) -> tuple[Iterator[Spoilt], IsWrong]:
    law = Router(case.op, case.args, right[1])
    return router_ways(case, law, right, rng), functools.partial(row_is_wrong, law, right)


def spoiler(op: str, more: dict[str, int], ways: set[str], **options: tuple[Any, ...]) -> Spoiler:
    return Spoiler(
        letters={"T": MANY, "E": LONG, "topk": 64, **more},
        options={"renormalize": (True, False), **options},
        arguments=functools.partial(router_args, op),
        right=functools.partial(rights, op=op),
        spoilt=spoilt,
        owed=lambda letter: ways | (set() if oracle.numpy_missing() else {"rounded"}),
    )


# num_groups is not a letter, but it is a size: the judge compares groups with each other.
GROUPED = spoiler(
    "grouped_topk", {"num_fused_shared_experts": 65537, "num_groups": 1000},
    ROUTER_WAYS | GROUP_WAYS, scoring=("sigmoid", "softmax"),
)  # fmt: skip

TESTS = {
    "topk_softmax": {"judge": spoiler("topk_softmax", {}, ROUTER_WAYS)},
    "topk_sigmoid": {"judge": spoiler("topk_sigmoid", {}, ROUTER_WAYS)},
    "grouped_topk": {"judge": GROUPED},
    "moe_align": {"parts": "places go by the whole batch"},
    "moe_sort": {"parts": "places go by the whole batch", "largest": {"topk": 16384}},
    "moe_permute": {
        "parts": "places go by the whole batch; rows are copies",
        "largest": {"topk": 16384},
    },
    "moe_unpermute": {"bounded": ("inverse",)},
    "topk_gating_backward": {"parts": "the loss is of the whole batch"},
    "topk_gating_slots": {"parts": "slots are given in the order of the whole batch"},
}
