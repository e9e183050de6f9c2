"""The harness itself: it must detect every kind of wrong call, or its passes mean nothing.

Each test runs a real case with a real implementation and corrupts what the call did.
Read next: python/dlblas/harness/checks.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dlblas
import numpy as np
import pytest
from depth import depth_of
from dlblas.harness import Case, Coverage, Outcome, expand, load_registry, main, run_group
from dlblas.harness.call import Call
from dlblas.harness.groups import Depth, groups, in_turns

REGISTRY = load_registry()
IMPLEMENTATION = "cpu_baseline"


def outcome_of(op: str, name: str, dtype: str = "f32", layout: str = "contiguous") -> Any:
    wanted = (op, name, layout)
    cases = [c for c in expand(REGISTRY) if (c.op, c.name, c.layout) == wanted]
    cases.sort(key=lambda c: c.dtype != dtype)  # the next best where an operator has no f32
    assert cases, f"no case {wanted}"
    there = any(row["name"] == IMPLEMENTATION for row in REGISTRY.implementations(op))
    return run_group(REGISTRY, cases[:1], IMPLEMENTATION if there else "reference", 7)[0]


def spoil(monkeypatch: pytest.MonkeyPatch, after: Callable[[Call, int], None]) -> None:
    run = Call.run

    def spoiled(self: Call, pattern: int, threads: int = 0, deterministic: bool = False) -> None:
        run(self, pattern, threads, deterministic)
        after(self, threads)

    monkeypatch.setattr(Call, "run", spoiled)


@pytest.mark.parametrize("op", sorted(REGISTRY.operators))
def test_the_case_passes_unspoiled(op: str) -> None:
    assert outcome_of(op, "primes").status == "passed"


@pytest.mark.parametrize("op", sorted(REGISTRY.operators))
def test_one_wrong_element_is_found(monkeypatch: pytest.MonkeyPatch, op: str) -> None:
    def wrong(call: Call, _: int) -> None:
        array = call.judged_at(0).array
        magnitude = np.ravel(dlblas.reference(op, (), call.before())[0].magnitude)
        defined = np.flatnonzero(magnitude >= 0)  # the last element that is
        at = np.unravel_index(defined[-1], array.shape)
        if array.dtype.itemsize == 1:  # 0.01 may be less than a step
            array[at] = 0 if array[at] else 1
        elif array.dtype.kind == "i":
            array[at] += 1
        elif array.dtype.itemsize == 2 or not np.isfinite(array[at]):  # the same
            array[at] = 1 + 2 * abs(array[at]) if np.isfinite(array[at]) else 1
        else:
            array[at] += 0.01

    spoil(monkeypatch, wrong)
    outcome = outcome_of(op, "primes")
    assert outcome.status == "failed" and "1 of " in outcome.reason


def test_an_unwritten_element_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = Call.prepare
    held: dict[int, Any] = {}

    def remember(self: Call, pattern: int) -> None:
        prepare(self, pattern)
        held[id(self)] = self.results[0].array[2, 3].copy()

    def unwritten(call: Call, _: int) -> None:
        call.results[0].array[2, 3] = held[id(call)]

    monkeypatch.setattr(Call, "prepare", remember)
    spoil(monkeypatch, unwritten)
    assert outcome_of("rms_norm", "primes").status == "failed"


def test_a_write_past_the_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def past(call: Call, _: int) -> None:
        array = call.results[0].array
        end = array.ctypes.data + array.nbytes - call.results[0].memory.ctypes.data
        call.results[0].memory[end] = 0

    spoil(monkeypatch, past)
    outcome = outcome_of("rms_norm", "primes")
    assert (outcome.status, outcome.reason) == ("failed", "memory around y was written")


def test_a_write_between_rows_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def between(call: Call, _: int) -> None:
        array = call.results[0].array
        gap = array.ctypes.data + array.shape[1] * array.itemsize
        call.results[0].memory[gap - call.results[0].memory.ctypes.data] = 0

    spoil(monkeypatch, between)
    outcome = outcome_of("rms_norm", "layouts", layout="row_strided")
    assert (outcome.status, outcome.reason) == ("failed", "memory around y was written")


def test_a_written_input_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(call: Call, _: int) -> None:
        call.inputs["weight"].array[0] += 1

    spoil(monkeypatch, write)
    outcome = outcome_of("rms_norm", "primes")
    assert (outcome.status, outcome.reason) == ("failed", "input weight was written")


@pytest.mark.parametrize("threads", [1, 2])
def test_other_bits_on_other_threads_are_found(
    monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    def other(call: Call, ran_on: int) -> None:
        if ran_on == threads:
            array = call.results[0].array
            array[0, 0] = np.nextafter(array[0, 0], np.float32(9))

    spoil(monkeypatch, other)
    outcome = outcome_of("rms_norm", "primes")
    assert outcome.status == "failed" and f"on {threads} thread" in outcome.reason


def test_an_accepted_overlap_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from dlblas import _functions

    function = _functions.FUNCTIONS["rms_norm"]
    monkeypatch.setitem(_functions.FUNCTIONS, "rms_norm", function._replace(call=lambda **_: None))
    assert outcome_of("rms_norm", "layouts", layout="overlapping").status == "failed"


def test_the_reference_is_held_against_the_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    formula = REGISTRY.formulas["rms_norm"]
    monkeypatch.setitem(
        REGISTRY.formulas, "rms_norm", lambda *a: tuple(y * (1 + 2.0**-20) for y in formula(*a))
    )
    cases = [c for c in expand(REGISTRY) if c.op == "rms_norm" and c.name == "primes"]
    found = [outcome.status for outcome in run_group(REGISTRY, cases, "reference", 7)]
    assert (
        found[0] == "failed"
    )  # f32; narrower dtypes hide so small a difference but in some elements


def test_cases_are_distinct_and_floor_counts_no_seed() -> None:
    cases = list(expand(REGISTRY))
    assert len({case.identity for case in cases}) == len(cases)
    for full in (True, False):
        found = groups(REGISTRY, Depth(full, 1))
        assert len({group.name for group in found}) == len(found)
        assert sum(len(group.cases) for group in found) == sum(
            len(REGISTRY.implementations(case.op)) for case in cases
        )


def test_a_sample_has_every_operator_implementation_and_dtype() -> None:
    every = {group.key for group in groups(REGISTRY, Depth(True, 1))}
    for seed in (1, 2):
        sample = groups(REGISTRY, Depth(False, seed))
        assert {group.key for group in sample} == every
        assert all(0 < group.most < 100 for group in sample)
    kept = [[group.cases for group in groups(REGISTRY, Depth(False, seed))] for seed in (1, 1, 2)]
    assert kept[0] == kept[1] != kept[2]


def case_of(layout: str, values: str, size: int) -> Case:
    return Case("op", f"{layout} {values} {size}", {"T": size}, "f32", layout, values, {})


def test_a_sample_takes_turns_among_kinds_and_heavy_cases_come_last() -> None:
    plain = [case_of("contiguous", "normal", size) for size in (*range(1, 40), 1 << 30)]
    others = [case_of(layout, "normal", size) for layout in ("nt", "tt") for size in range(1, 20)]
    nan = [case_of("contiguous", "nan", 7)]
    order = in_turns([*plain, *others, *nan], "1")
    assert sorted(order) == sorted([*plain, *others, *nan])
    first = order[:6]
    assert {(case.layout, case.values) for case in first[::2]} == {
        ("nt", "normal"), ("tt", "normal"), ("contiguous", "nan"),
    }  # fmt: skip
    assert all(case in plain for case in first[1::2])
    assert order[-1].dims == {"T": 1 << 30}


def test_depth_and_seed_are_read_or_refused() -> None:
    assert depth_of({"DLBLAS_TEST_SEED": "5"}) == Depth(False, 5)
    full = {"DLBLAS_TEST_DEPTH": "full", "DLBLAS_TEST_SEED": "5"}
    assert depth_of(full) == Depth(True, 5)
    with pytest.raises(ValueError, match="expected sample or full, got deep"):
        depth_of({**full, "DLBLAS_TEST_DEPTH": "deep"})
    with pytest.raises(ValueError, match="no number"):
        depth_of({"DLBLAS_TEST_SEED": "five"})


def test_the_short_report_has_what_failed_and_what_ran_nothing() -> None:
    coverage = Coverage()
    case = case_of("contiguous", "normal", 8)
    rows = [("a", "passed", ""), ("a", "failed", "off"), ("b", "skipped", "too small")]
    coverage.add(Outcome(case, name, status, why, (), "") for name, status, why in rows)
    coverage.leave_out(("op", "a", "f32"), 30)
    for i in range(9):
        coverage.skip(("other", f"gpu_{i}", "f32"), 100, "no GPU: none")
    lines = coverage.brief().splitlines()
    assert lines == [
        "op (2 × 1): 2 run, 1 failed, 1 skipped, 30 left out, 0 configurations",
        "other (9 × 1): 0 run, 0 failed, 900 skipped, 0 configurations",
        "failed: op a f32: 2 run, 1 failed, 30 left out, 0 configurations",
        "nothing ran of 9: no GPU: none: other/gpu_0/f32, other/gpu_1/f32, other/gpu_2/f32, "
        "other/gpu_3/f32, and 5 more",
        "nothing ran of 1: too small: op/b/f32",
    ]


def test_an_implementation_without_cases_is_named() -> None:
    assert set(Coverage().silent(REGISTRY)) == {
        f"{op}/{impl['name']}" for op in REGISTRY.operators for impl in REGISTRY.implementations(op)
    }


def test_the_repro_line_runs_its_case(capsys: pytest.CaptureFixture[str]) -> None:
    line = outcome_of("matmul", "primes", "bf16", "nt").repro
    assert line.startswith("python -m dlblas test --op matmul --impl cpu_baseline --case primes ")
    assert main([*line.split()[4:], "-v"]) == 0
    printed = capsys.readouterr().out
    assert "passed     matmul cpu_baseline primes bf16 nt normal" in printed
    assert "1 run, 0 failed" in printed


def test_a_failing_repro_line_exits_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(call: Call, _: int) -> None:
        call.results[0].array[0, 0] = 1e6

    spoil(monkeypatch, wrong)
    arguments = ["--op", "rms_norm", "--impl", "cpu_baseline", "--case", "primes", "--dtype", "f32"]
    assert main(arguments) == 1
    assert "--case primes --dtype f32 --layout contiguous" in capsys.readouterr().out
    assert main(["--case", "no_such_case"]) == 2
