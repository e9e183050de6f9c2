"""Users' own implementations of an existing operator: NumPy and torch functions, from registration
to serving.

Every test unregisters what it registered. Read next: docs/own.md, python/dlblas/own/_register.py.
"""

from __future__ import annotations

import gc
import pathlib
import random
import threading
import weakref
from typing import Any

import dlblas
import numpy as np
import pytest
from dlblas.errors import LaunchError, UnsupportedError
from own_shared import OP, arrays, clean, mine, normalise, row_of  # noqa: F401 (clean: a fixture)


def test_it_is_seen_pinned_and_called() -> None:
    assert dlblas.register(OP, "mine", mine) is mine
    x, w = arrays()
    row = row_of(dlblas.explain(OP, x, w), "mine")
    assert row["supports"] and not row["chosen"]
    with dlblas.pinned(OP, "mine"):
        y = dlblas.rms_norm(x, w, eps=1e-3, weight_offset=0.5)
        assert dlblas.explain(OP, x, w).as_dict()["implementation"] == "mine"
    np.testing.assert_array_equal(y, normalise(x, w, 1e-3, 0.5))
    assert dlblas.verify(OP, (x, w), y, {"eps": 1e-3, "weight_offset": 0.5}).ok


def test_unmeasured_it_loses_to_built_in_ones() -> None:
    x, w = arrays(3, 40)
    before = dlblas.explain(OP, x, w).as_dict()["implementation"]
    dlblas.register(OP, "mine", mine)
    assert dlblas.explain(OP, x, w).as_dict()["implementation"] == before


def test_it_is_tuned_remembered_and_served() -> None:
    dlblas.register(OP, "mine", mine)
    x, w = arrays(31, 104)
    report = dlblas.tune(OP, (x, w), seconds=2, implementations=["mine"])
    assert report["winner"]["implementation"] == "mine", report
    assert dlblas.explain(OP, x, w).as_dict()["source"] == "store"
    assert row_of(dlblas.explain(OP, x, w), "mine")["measured_ms"] > 0
    measured = dlblas.counters()["measured"]
    hit = dlblas.get_op(OP, (x, w), implementations=["mine"])
    assert not hit.report["evaluated"] and dlblas.counters()["measured"] == measured


def test_get_op_measures_only_what_came_since() -> None:
    x, w = arrays(29, 72)
    dlblas.get_op(OP, (x, w), seconds=3)
    assert not dlblas.get_op(OP, (x, w)).report["evaluated"]
    dlblas.register(OP, "late", mine)
    again = dlblas.get_op(OP, (x, w), seconds=3).report
    assert again["evaluated"]
    assert not dlblas.get_op(OP, (x, w)).report["evaluated"]


def test_a_changed_source_makes_its_own_records_stale_alone() -> None:
    x, w = arrays(27, 88)
    dlblas.register(OP, "first", mine)
    dlblas.register(OP, "second", mine)
    dlblas.tune(OP, (x, w), seconds=2, implementations=["first", "second"])
    before = dlblas.explain(OP, x, w)
    assert all("measured_ms" in row_of(before, name) for name in ("first", "second"))

    def changed(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
        y[...] = normalise(x, weight, eps, weight_offset) + 0

    dlblas.register(OP, "second", changed)
    after = dlblas.explain(OP, x, w)
    assert "measured_ms" in row_of(after, "first")
    assert "measured_ms" not in row_of(after, "second")
    dlblas.register(OP, "second", mine)  # as it was: its records serve again
    assert "measured_ms" in row_of(dlblas.explain(OP, x, w), "second")
    dlblas.register(OP, "second", mine, version="2")
    assert "measured_ms" not in row_of(dlblas.explain(OP, x, w), "second")


def wrong(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
    y[...] = normalise(x, weight, eps, weight_offset) * np.float32(1.01)


def nan(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
    y[...] = normalise(x, weight, eps, weight_offset)
    y[0, 0] = np.nan


def raising(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
    raise ValueError("not today")


def lazy(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
    y[1:] = normalise(x, weight, eps, weight_offset)[1:]


def outside(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
    y[...] = normalise(x, weight, eps, weight_offset)
    step = y.strides[0]
    past = np.lib.stride_tricks.as_strided(y, (len(y) + 1, y.shape[1]), (step, y.strides[1]))
    past[-1, :4] = 1  # behind the last row


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        (wrong, "wrong_result"),
        (nan, "wrong_result"),
        (raising, "launch_error"),
        (lazy, "unwritten"),
        (outside, "out_of_bounds"),
    ],
)
def test_a_bad_one_never_wins(bad: Any, kind: str) -> None:
    x, w = arrays(26, 80, seed=len(kind))
    dlblas.register(OP, f"bad_{bad.__name__}", bad)
    # Few enough configurations for a slow machine to measure all of them.
    names = [f"bad_{bad.__name__}", "cpu_baseline"]
    report = dlblas.tune(OP, (x, w), seconds=30, force=True, implementations=names)
    assert report["winner"]["implementation"] != f"bad_{bad.__name__}"
    row = row_of(dlblas.explain(OP, x, w), f"bad_{bad.__name__}")
    assert row["failure"] == kind and not row["chosen"]
    y = dlblas.rms_norm(x, w)
    assert dlblas.verify(OP, (x, w), y).ok


@pytest.mark.parametrize("change", ["sub_", "mul_", "copy_"])
def test_writing_an_input_fails_alone(change: str) -> None:
    """Even if its result is right: a call would change its caller's input."""
    torch = pytest.importorskip("torch")

    def spoils(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
        scale = (x.square().mean(-1, keepdim=True) + eps).rsqrt()
        y.copy_(x * scale * (weight + weight_offset))
        getattr(x, change)(torch.full_like(x, 1.5))

    dlblas.register(OP, "spoils", spoils, arrays="torch")
    dlblas.register(OP, "mine", mine)
    x, w = arrays()
    report = dlblas.tune(OP, (x, w), seconds=0.5)
    rows = {row["implementation"]: row for row in report["evaluated"]}
    assert rows["spoils"]["failure"] == "out_of_bounds"
    assert "the input x was written" in rows["spoils"]["note"]
    assert all("failure" not in row for name, row in rows.items() if name != "spoils"), rows


@pytest.mark.parametrize("kept", ["all", "a part"])
def test_one_that_remembers_by_address_never_wins(kept: str) -> None:
    """A packed copy, a descriptor, a static graph: right until the memory there changes."""
    packed: dict[Any, Any] = {}

    def packs_once(
        x: Any, weight: Any, eps: float, weight_offset: float, y: Any, cast_before_weight: bool
    ) -> None:
        key = x.ctypes.data, weight.ctypes.data, x.shape
        if key not in packed:
            packed[key] = normalise(x, weight, eps, weight_offset), weight.copy()
        here = normalise(x, packed[key][1], eps, weight_offset)
        y[...] = packed[key][0] if kept == "all" else here

    dlblas.register(OP, "packs_once", packs_once)
    x, w = arrays(64, 257)
    report = dlblas.tune(OP, (x, w), seconds=1, force=True)
    assert report["winner"]["implementation"] != "packs_once"
    rows = {row["implementation"]: row for row in report["evaluated"]}
    words = (
        "gave the first call's result for other values at the same addresses"
        if kept == "all"
        else "elements are wrong for other values at the same addresses"
    )
    assert rows["packs_once"]["failure"] == "wrong_result"
    assert words in rows["packs_once"]["note"]
    assert all("failure" not in row for name, row in rows.items() if name != "packs_once"), rows


def test_a_failure_of_a_call_says_what_was_raised_and_where() -> None:
    dlblas.register(OP, "raising", raising)
    x, w = arrays()
    with dlblas.pinned(OP, "raising"), pytest.raises(LaunchError) as caught:
        dlblas.rms_norm(x, w)
    text = str(caught.value)
    assert text.startswith("rms_norm: raising failed; expected 0, got ValueError: not today (")
    assert f"{__file__}:" in text and caught.value.argument == "raising"


def test_words_that_are_no_unicode_are_told_and_leave_nothing_behind() -> None:
    def bad(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
        raise ValueError("name\udc80 \0 é")

    dlblas.register(OP, "bad", bad)
    dlblas.register(OP, "no", mine, supports=lambda problem: "not \udc80 today")
    dlblas.register(OP, "yes", mine)
    with dlblas.pinned(OP, "bad"), pytest.raises(LaunchError, match=r"name\\udc80 \\0 é"):
        dlblas.rms_norm(*arrays())
    assert row_of(dlblas.explain(OP, *arrays()), "no")["reason"] == r"not \udc80 today"
    assert row_of(dlblas.explain(OP, *arrays()), "yes")["supports"]
    for seed in range(3):  # the next candidate's run is not the one that fails
        dlblas.tune(OP, arrays(), seconds=1, seed=seed, implementations=["bad", "yes"], force=True)
        explained = dlblas.explain(OP, *arrays())
        assert row_of(explained, "bad").get("failure") == "launch_error"
        assert not row_of(explained, "yes").get("failure")


def test_supports_refuses_with_its_reason() -> None:
    def even_rows(problem: dlblas.own.Problem) -> str | None:
        if problem.dtypes["x"] != "f32":
            return f"takes f32, and x is {problem.dtypes['x']}"
        return None if problem.C % 2 == 0 else f"needs an even C, and C = {problem.C} {{}}"

    dlblas.register(OP, "even", mine, supports=even_rows)
    x, w = arrays(4, 7)
    row = row_of(dlblas.explain(OP, x, w), "even")
    assert row["reason"] == "needs an even C, and C = 7 {}"
    half = row_of(dlblas.explain(OP, x.astype(np.float16), w.astype(np.float16)), "even")
    assert half["reason"] == "takes f32, and x is f16"
    with dlblas.pinned(OP, "even"), pytest.raises(UnsupportedError, match="needs an even C"):
        dlblas.rms_norm(x, w)
    assert row_of(dlblas.explain(OP, *arrays(4, 8)), "even")["supports"]


def test_supports_that_raises_or_gives_no_reason_is_a_no() -> None:
    x, w = arrays()
    dlblas.register(OP, "broken", mine, supports=lambda problem: problem.nothing)
    dlblas.register(OP, "silent", mine, supports=lambda problem: False)
    explained = dlblas.explain(OP, x, w)
    assert row_of(explained, "broken")["reason"] == "its supports() raised AttributeError: nothing"
    assert row_of(explained, "silent")["reason"] == "its supports() said no without a reason"


def test_what_a_function_does_not_take_is_refused_by_name() -> None:
    dlblas.register(OP, "mine", mine)
    x, w = arrays()
    with dlblas.pinned(OP, "mine"), pytest.raises(UnsupportedError) as caught:
        dlblas.rms_norm(x, w, cast_before_weight=True)
    assert "mine: no: takes no cast_before_weight" in str(caught.value)


def test_strided_half_and_in_place_tensors() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    seen: list[tuple[Any, Any]] = []

    def watching(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
        seen.append((x.strides, x.dtype))
        assert not x.flags.writeable and y.flags.writeable
        y[...] = normalise(x, weight, eps, weight_offset)

    dlblas.register(OP, "watching", watching)
    x, w = arrays(9, 40)
    with dlblas.pinned(OP, "watching"):
        for view in (x[::2, 3:33], x[::-1], np.asfortranarray(x), x.astype(ml_dtypes.bfloat16)):
            weight = np.ascontiguousarray(w[: view.shape[1]]).astype(view.dtype)
            y = dlblas.rms_norm(view, weight)
            np.testing.assert_array_equal(y, normalise(view, weight, 1e-6, 0.0))
            assert seen[-1] == (view.strides, view.dtype)
        own = x.copy()
        dlblas.rms_norm_(own, w)
        np.testing.assert_array_equal(own, normalise(x, w, 1e-6, 0.0))


def test_registering_again_replaces_and_pins_follow_the_name() -> None:
    x, w = arrays()
    dlblas.register(OP, "mine", mine)
    with dlblas.pinned(OP, "mine"):
        right = dlblas.rms_norm(x, w)
        dlblas.register(OP, "mine", wrong)
        np.testing.assert_array_equal(dlblas.rms_norm(x, w), right * np.float32(1.01))
        dlblas.unregister(OP, "mine")
        with pytest.raises(UnsupportedError, match="is registered no more"):
            dlblas.rms_norm(x, w)
    assert dlblas.verify(OP, (x, w), dlblas.rms_norm(x, w)).ok


def resident() -> int:
    """Resident memory of this process, in bytes."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def test_registering_again_keeps_no_function_alive() -> None:
    """Each holds a megabyte and has been called: only the last one is alive in the end."""
    x, w = arrays()
    held, before = [], 0

    def again() -> None:
        ballast = np.ones(1 << 18, np.float32)

        def candidate(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
            y[...] = normalise(x, weight, eps, weight_offset) * ballast[0]

        dlblas.register(OP, "mine", candidate)
        with dlblas.pinned(OP, "mine"):
            dlblas.rms_norm(x, w)
        held.append(weakref.ref(candidate))

    for count in range(200):
        again()
        if count == 20:
            before = resident()
    grown = resident() - before
    gc.collect()
    assert sum(ref() is not None for ref in held) == 1 and held[-1]() is not None
    assert grown < 8 << 20, f"{grown / 2**20:.1f} MiB for 180 registrations"
    dlblas.unregister(OP, "mine")
    gc.collect()
    assert held[-1]() is None


def test_deterministic_is_what_was_said() -> None:
    x, w = arrays()
    dlblas.register(OP, "plain", mine)
    dlblas.register(OP, "same", mine, deterministic=True)
    with dlblas.deterministic():
        explained = dlblas.explain(OP, x, w)
        built_in = dlblas.rms_norm(x, w)
        report = dlblas.tune(OP, (x, w), seconds=0.2)
        np.testing.assert_array_equal(dlblas.rms_norm(x, w), built_in)
        with dlblas.pinned(OP, "same"):
            np.testing.assert_array_equal(dlblas.rms_norm(x, w), normalise(x, w, 1e-6, 0.0))
            assert row_of(dlblas.explain(OP, x, w), "same")["supports"]
    assert "a pin alone chooses it" in row_of(explained, "same")["reason"]
    assert row_of(explained, "plain")["reason"].startswith("is not deterministic")
    assert all(row["implementation"] != "same" for row in report.candidates if row["takes_part"])


def test_the_harness_covers_it() -> None:
    from dlblas.harness import expand, load_registry, run_group

    def exact(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
        mine(x.astype(np.float64), weight.astype(np.float64), eps, weight_offset, y)

    dlblas.register(OP, "mine", exact)
    dlblas.register(OP, "bad", wrong)
    registry = load_registry()
    cases = [c for c in expand(registry) if c.op == OP and c.dtype == "f32"]
    random.Random(1).shuffle(cases)
    good = run_group(registry, cases, "mine", 1, most=25)
    assert {outcome.status for outcome in good} <= {"passed", "skipped", "mistrusted"}, [
        o for o in good if o.status == "failed"
    ]
    assert sum(outcome.status == "passed" for outcome in good) >= 20
    bad = run_group(registry, cases, "bad", 1, most=5)
    assert any(outcome.status == "failed" for outcome in bad)


def test_threads_call_register_and_unregister_at_once() -> None:
    x, w = arrays(64, 512)  # large enough that the interpreter's lock is given away
    right = normalise(x, w, 1e-6, 0.0)
    dlblas.register(OP, "mine", mine)
    errors: list[BaseException] = []

    def call() -> None:
        try:
            for _ in range(60):
                np.testing.assert_allclose(dlblas.rms_norm(x, w), right, rtol=2e-5, atol=2e-6)
        except BaseException as error:
            errors.append(error)

    def change() -> None:
        try:
            for i in range(30):
                dlblas.register(OP, f"other{i % 3}", mine)
                dlblas.explain(OP, x, w)
                dlblas.unregister(OP, f"other{i % 3}")
        except BaseException as error:
            errors.append(error)

    with dlblas.pinned(OP, "mine"):
        threads = [threading.Thread(target=call) for _ in range(4)]
        threads.append(threading.Thread(target=change))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
    assert not errors and not any(thread.is_alive() for thread in threads)


def test_a_call_inside_a_call() -> None:
    def through(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
        with dlblas.pinned(OP, "reference"):
            dlblas.rms_norm(x, weight, eps=eps, weight_offset=weight_offset, out=y)

    dlblas.register(OP, "through", through)
    x, w = arrays(70, 300)
    with dlblas.pinned(OP, "through"):
        y = dlblas.rms_norm(x, w)
    assert dlblas.verify(OP, (x, w), y).ok
