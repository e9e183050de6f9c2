"""A user's implementation that is right for the tuned call but wrong for another call of the same
key: another size in its bucket, another run-time scalar, other indices at the same addresses. One
decision serves them all, so such an implementation must not win.

Read next: docs/own.md, src/tuner/in_process.cpp (check_smaller), inputs.cpp (vary).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dlblas
import numpy as np
import pytest
from own_shared import arrays, clean, normalise, row_of  # noqa: F401 (clean: a fixture)

LORA = "lora_shrink"
KEPT: dict[int, Any] = {}


@pytest.fixture(autouse=True)
def clean_lora() -> Iterator[None]:
    yield
    row = next(r for r in dlblas.info()["operators"] if r["name"] == LORA)
    for made in row["implementations"]:
        if made["user"]:
            dlblas.unregister(LORA, made["name"])


def shrink(x: Any, a: Any, token_lora: Any, scale: float, y: Any) -> None:
    for adapter in range(a.shape[0]):
        rows = np.flatnonzero(token_lora == adapter)
        y[rows] += np.float32(scale) * (x[rows] @ a[adapter].T)


def whole_tiles(x: Any, a: Any, token_lora: Any, scale: float, y: Any) -> None:
    n = len(x) // 16 * 16  # no mask for the last one
    shrink(x[:n], a, token_lora[:n], scale, y[:n])


def no_scale(x: Any, a: Any, token_lora: Any, scale: float, y: Any) -> None:
    shrink(x, a, token_lora, 0.5, y)  # the tuned call's


def kept_tokens(x: Any, a: Any, token_lora: Any, scale: float, y: Any) -> None:
    shrink(x, a, KEPT.setdefault(token_lora.ctypes.data, token_lora.copy()), scale, y)


def call(tokens: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(tokens)
    x = rng.standard_normal((tokens, 96), np.float32)
    a = rng.standard_normal((2, 24, 96), np.float32)
    adapters = rng.integers(0, 2, tokens).astype(np.int32)
    return x, a, adapters, np.zeros((tokens, 24), np.float32)


@pytest.mark.parametrize("tokens", [64, 61])
@pytest.mark.parametrize("wrong", [whole_tiles, no_scale, kept_tokens])
def test_one_that_is_wrong_for_another_call_of_the_key_never_wins(wrong: Any, tokens: int) -> None:
    dlblas.register(LORA, "right", shrink)
    dlblas.register(LORA, "wrong", wrong)
    report = dlblas.tune(LORA, call(tokens), kwargs={"scale": 0.5}, seconds=2, force=True)
    failures = {row["implementation"]: row.get("failure") for row in report["evaluated"]}
    assert failures["right"] is None and failures["wrong"] == "wrong_result", report
    assert report["winner"]["implementation"] != "wrong"


def fixed_eps(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
    y[...] = normalise(x, weight, 1e-6, weight_offset)


def no_offset(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
    y[...] = normalise(x, weight, eps, 0.0)


@pytest.mark.parametrize("eps", [1e-6, 1e-2])
@pytest.mark.parametrize("wrong", [fixed_eps, no_offset])
def test_every_scalar_is_seen(wrong: Any, eps: float) -> None:
    dlblas.register("rms_norm", "wrong", wrong)
    report = dlblas.tune("rms_norm", arrays(24, 88), kwargs={"eps": eps}, seconds=2, force=True)
    failures = {row["implementation"]: row.get("failure") for row in report["evaluated"]}
    assert failures["wrong"] == "wrong_result", report


def test_supports_is_asked_for_other_sizes_of_the_bucket() -> None:
    asked: list[int] = []

    def multiples(problem: Any) -> str | None:
        asked.append(problem.letters["T"])
        return None if problem.letters["T"] % 64 == 0 else "rows come in 64s"

    def any_size(problem: Any) -> str | None:
        return None if problem.T > 384 else "few rows"

    dlblas.register("rms_norm", "tiles", _mine, supports=multiples)
    dlblas.register("rms_norm", "many", _mine, supports=any_size)
    x, w = arrays(500, 24)
    explained = dlblas.explain("rms_norm", x, w)
    row = row_of(explained, "tiles")
    assert not row["supports"] and row["reason"].startswith("rows come in 64s (asked for T = 511")
    assert asked[:2] == [512, 511]
    assert row_of(explained, "many")["supports"]


def _mine(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
    y[...] = normalise(x, weight, eps, weight_offset)


def test_a_right_one_of_indices_and_scalars_still_wins() -> None:
    dlblas.register(LORA, "right", shrink)
    args = call(40)
    report = dlblas.tune(LORA, args, kwargs={"scale": 0.0}, seconds=2, implementations=["right"])
    assert report["winner"]["implementation"] == "right", report
