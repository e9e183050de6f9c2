"""Users' operators with a judge, with right implementations and ones that are wrong in ways a judge
must detect. Registered at import, so that a worker has them too. Read next: own_judge_checks.py.
"""

from __future__ import annotations

from typing import Any

import dlblas
import numpy as np


def first_largest(x: Any) -> Any:
    return x.argmax(-1)


def any_largest(inputs: Any, results: Any, reference: Any) -> Any:
    count = inputs.x.shape[-1]
    inside = (results.ids >= 0) & (results.ids < count)
    chosen = np.take_along_axis(inputs.x, np.clip(results.ids, 0, count - 1)[:, None], -1)[:, 0]
    return ~inside | (chosen != inputs.x.max(-1))


dlblas.register_operator(
    "own_largest(x: i32[T, C]~index<3) -> ids: i32[T] where T: bucket(tokens)",
    first_largest,
    judge=any_largest,
)

# A row far from those that are sampled of a larger result.
ROW = 4_194_304 + 5_003


def register_largest(name: str) -> None:
    def largest(x: Any, ids: Any) -> None:
        last = x.shape[-1] - 1 - x[:, ::-1].argmax(-1)
        ids[...] = x.argmax(-1) if name == "first" else last
        if name == "one_row" and len(ids) > ROW:
            ids[ROW] = -1
        if name == "out_of_range":
            ids[-1] = x.shape[-1]
        if name == "zeros":
            ids[...] = 0

    dlblas.register("own_largest", name, largest)


for _name in ("first", "last", "one_row", "out_of_range", "zeros"):
    register_largest(_name)


def shuffled(inputs: Any, results: Any, reference: Any) -> Any:
    same = np.sort(results.x) == np.sort(inputs.x)
    return int((~same).sum())


dlblas.register_operator(
    "own_shuffle(x: i32[N]!) -> ()",
    lambda x: x[::-1].copy(),
    judge=shuffled,
)


def register_shuffle(name: str) -> None:
    def shuffle(x: Any) -> None:
        x[...] = np.roll(x, 1)
        if name == "constant":
            x[...] = x[0]

    dlblas.register("own_shuffle", name, shuffle)


for _name in ("roll", "constant"):
    register_shuffle(_name)


def rounded(inputs: Any, results: Any, reference: Any) -> Any:
    return np.abs(results.y - inputs.x) > 1


dlblas.register_operator(
    "own_rounded(x: f[*T, C]) -> y: like(x)[*T, C] where T: bucket(tokens)",
    lambda x: np.round(x),
    judge=rounded,
    inplace="own_rounded_(x!y)",
    cases=[
        {
            "name": "some", "dims": {"T": 7, "C": 30}, "dtypes": ["f32", "f16", "bf16"],
            "layouts": ["contiguous", "inplace"], "values": ["normal", "positive"], "use": ["test"],
        }
    ],
)  # fmt: skip


def floor(x: Any, y: Any) -> None:
    np.floor(x, out=y)


dlblas.register("own_rounded", "floor", floor)
