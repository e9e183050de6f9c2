"""The harness itself: every kind of wrong call must be found, or its passes mean nothing.

Each test runs a real case with a real implementation and spoils what the call did.
Read next: python/dlblas/harness/checks.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from dlblas.harness import Coverage, expand, load_registry, main, run_group
from dlblas.harness.call import Call
from dlblas.harness.groups import groups

REGISTRY = load_registry()
IMPLEMENTATION = "cpu_baseline"


def outcome_of(op: str, name: str, dtype: str = "f32", layout: str = "contiguous") -> Any:
    wanted = (op, name, dtype, layout)
    cases = [c for c in expand(REGISTRY) if (c.op, c.name, c.dtype, c.layout) == wanted]
    assert cases, f"no case {wanted}"
    return run_group(REGISTRY, cases[:1], IMPLEMENTATION, 7)[0]


def spoil(monkeypatch: pytest.MonkeyPatch, after: Callable[[Call, int], None]) -> None:
    run = Call.run

    def spoiled(self: Call, pattern: int, threads: int = 0) -> None:
        run(self, pattern, threads)
        after(self, threads)

    monkeypatch.setattr(Call, "run", spoiled)


@pytest.mark.parametrize("op", sorted(REGISTRY.operators))
def test_the_case_passes_unspoiled(op: str) -> None:
    assert outcome_of(op, "primes").status == "passed"


@pytest.mark.parametrize("op", sorted(REGISTRY.operators))
def test_one_wrong_element_is_found(monkeypatch: pytest.MonkeyPatch, op: str) -> None:
    def wrong(call: Call, _: int) -> None:
        array = call.judged_at(0).array
        array[(-1,) * array.ndim] += 0.01

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
    from dlblas import _native

    function = _native.FUNCTIONS["rms_norm"]
    monkeypatch.setitem(_native.FUNCTIONS, "rms_norm", function._replace(call=lambda **_: None))
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
    assert sum(len(g.cases) for g in groups(REGISTRY)) == sum(
        len(REGISTRY.implementations(case.op)) for case in cases
    )


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
