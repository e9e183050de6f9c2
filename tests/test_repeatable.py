"""dlblas.repeatable() and torch's deterministic setting: the same bits in every run, at the speed
of a plain call.

Read next: tests/test_same_bits.py, docs/tuning.md (The same bits).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dlblas
import numpy as np
import pytest
from dlblas import Spec, errors


@contextmanager
def registered(**promises: bool) -> Iterator[None]:
    """An implementation of a user."""

    @dlblas.register("silu", "mine", **promises)  # type: ignore[arg-type]
    def mine(x: Any, y: Any) -> None:
        y[...] = x / (1 + np.exp(-x))

    try:
        yield
    finally:
        dlblas.unregister("silu", "mine")


def candidates() -> dict[str, Any]:
    told = dlblas.explain("silu", np.ones((4, 8), "f4")).as_dict()
    return {row["implementation"]: row for row in told["candidates"]}


def test_every_built_in_implementation_repeats_its_bits() -> None:
    run = (sys.executable, "-m", "dlblas", "list", "--json")
    for op in json.loads(subprocess.run(run, capture_output=True, check=True).stdout):
        for impl in op["implementations"]:
            assert impl["repeatable"], (op["name"], impl["name"])


@pytest.mark.parametrize("promise", ["deterministic", "repeatable"])
def test_a_promise_lets_an_implementation_serve(promise: str) -> None:
    with registered(**{promise: True}), dlblas.repeatable():
        assert candidates()["mine"]["supports"]
        with dlblas.pinned("silu", "mine"):
            np.testing.assert_allclose(dlblas.silu(np.ones((2, 3), "f4")), 0.7310586, rtol=1e-6)


def test_without_a_promise_it_does_not_serve() -> None:
    with registered():
        assert candidates()["mine"]["supports"]
        with dlblas.repeatable():
            assert "other bits in another run" in candidates()["mine"]["reason"]
            with (
                dlblas.pinned("silu", "mine"),
                pytest.raises(errors.UnsupportedError, match="other bits in another run"),
            ):
                dlblas.silu(np.ones((2, 3), "f4"))
            with dlblas.repeatable(False):
                assert candidates()["mine"]["supports"]


def test_it_changes_no_choice_on_a_gpu_and_ends_the_problem() -> None:
    """What torch's setting asks for must not turn the tensor cores of a Hopper GPU off."""
    for shape in ((4096, 4096, 4096), (16, 4096, 4096)):
        m, n, k = shape
        args = (Spec((m, k), "bf16", device="sm_90a"), Spec((k, n), "bf16", (1, k), "sm_90a"))
        plain = dlblas.explain("matmul", *args).as_dict()
        with dlblas.repeatable():
            repeated = dlblas.explain("matmul", *args).as_dict()
        for field in ("implementation", "config"):
            assert repeated[field] == plain[field]
        assert repeated["problem"] == plain["problem"] + "; repeatable"


def test_what_a_search_has_stored_serves_in_both_modes() -> None:
    x = np.ones((3, 40), "f4")
    with dlblas.repeatable():
        dlblas.tune("gelu", (x,), seconds=0.2, progress=False)  # its worker gets the flag too
        asked = dlblas.explain("gelu", x).as_dict()
    told = dlblas.explain("gelu", x).as_dict()
    for field in ("implementation", "config", "source"):
        assert told[field] == asked[field]
    assert told["source"] == "store"


def test_torchs_setting_asks_for_it() -> None:
    torch = pytest.importorskip("torch")
    x = torch.ones(4, 8)

    def reason() -> str:
        rows = dlblas.explain("silu", x).as_dict()["candidates"]
        return str(next(row for row in rows if row["implementation"] == "mine").get("reason"))

    with registered():
        assert "another run" not in reason()
        torch.use_deterministic_algorithms(True)
        try:
            assert "another run" in reason()
            for call in (dlblas.silu, torch.ops.dlblas.silu):
                call(x)
        finally:
            torch.use_deterministic_algorithms(False)
