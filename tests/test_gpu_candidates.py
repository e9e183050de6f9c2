"""Every implementation for NVIDIA GPUs has a case that tools/gpu_smoke.py and
tests/test_gpu_capture.py find for it, as the library itself says of an H200 that is not present; a
benchmark row survives the failure of a contestant.

Read next: tools/gpu_smoke.py, tests/test_gpu_capture.py.
"""

from __future__ import annotations

import functools
import importlib.util
import pathlib
import sys
from typing import Any, cast

import dlblas
import numpy as np
import pytest
from dlblas.harness import load_registry
from dlblas.harness.call import Call, SkippedCase

ROOT = pathlib.Path(__file__).resolve().parent.parent
ARCH, SMOKE, CAPTURE = "sm_90a", 1 << 20, 1 << 22


def _loaded(path: str, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # NamedTuple looks its module up
    spec.loader.exec_module(module)
    return module


gpu_smoke = _loaded("tools/gpu_smoke.py", "gpu_smoke")


@functools.cache
def _registry() -> Any:
    return load_registry()


def _cuda(op: str) -> set[str]:
    return {
        i["name"]
        for i in _registry().operators[op]["implementations"]
        if i["backend"] == "cuda" and not i["oracle"]
    }


@functools.cache
def _takers(identity: str) -> frozenset[str]:
    """The implementations that accept a case, on a GPU that is not present."""
    case = _CASES[identity]
    try:
        named = Call(_registry(), case, seed=3).named()
    except SkippedCase:
        return frozenset()
    with dlblas.allow_tf32():  # as the capture tests do
        rows = dlblas.explain(case.op, **named, device=ARCH).as_dict()["candidates"]
    return frozenset(row["implementation"] for row in rows if row["supports"])


_CASES: dict[str, Any] = {}


def _unserved(op: str, wanted: set[str], cases: list[Any]) -> set[str]:
    left = set(wanted)
    for case in cases:
        if not left:
            break
        _CASES[case.identity] = case
        left -= _takers(case.identity)
    return left


def _on_gpus() -> list[str]:
    return [op for op in _registry().operators if _cuda(op)]


@pytest.mark.parametrize("most", [SMOKE, CAPTURE])
def test_every_implementation_has_a_case(most: int) -> None:
    """For capture, all of them; for smoke, all but those of an external library."""
    without = {}
    for op in _on_gpus():
        wanted = _cuda(op)
        if most == SMOKE:
            wanted = {name for name in wanted if not name.startswith(gpu_smoke.LIBRARIES)}
        found = [
            *gpu_smoke.candidates(_registry(), op, most),
            *gpu_smoke.further(_registry(), op, most),
        ]
        if left := _unserved(op, wanted, found):
            without[op] = sorted(left)
    assert not without


def test_what_no_case_reaches_is_found() -> None:
    assert _unserved("matmul", {"cuda_unknown"}, gpu_smoke.candidates(_registry(), "matmul")[:3])


def test_candidates_lie_in_memory_as_the_call_is_told() -> None:
    """The elements are uploaded in the order of their strides."""
    for op in _on_gpus():
        for case in gpu_smoke.further(_registry(), op)[:6]:
            for tensor in Call(_registry(), case, seed=3).inputs.values():
                given = tensor.array.view(f"u{tensor.array.dtype.itemsize}")
                stored = gpu_smoke.in_order(given).reshape(-1)
                span = sum((n - 1) * s for n, s in zip(given.shape, given.strides, strict=True))
                assert span + given.itemsize == stored.nbytes, (op, case)
                told = np.lib.stride_tricks.as_strided(stored, given.shape, given.strides)
                assert told.tobytes() == given.tobytes(), (op, case)


def test_inputs_hold_what_a_partial_copy_is_counted_as() -> None:
    """A partial copy of n of 16 bytes counts as 16 bytes starting at 16 − n: always inside the
    buffer."""
    for size in range(1, 100):
        last, valid = (size - 1) // 16 * 16, (size - 1) % 16 + 1
        assert last + (16 - valid) % 16 + 16 <= gpu_smoke.input_bytes(size)
        assert size <= gpu_smoke.input_bytes(size) < size + 32


def test_a_failed_contestant_leaves_the_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours and one rival fail: the row keeps the other rival and both reasons."""
    torch = pytest.importorskip("torch")
    from contextlib import nullcontext

    from dlblas.bench import gpu_contest, gpu_families
    from dlblas.bench.timing import Samples

    class Stream:
        def wait_stream(self, _: Any) -> None: ...

        def synchronize(self) -> None: ...

    for name, value in {
        "Stream": Stream, "current_stream": lambda: None, "synchronize": lambda: None,
        "stream": lambda _: nullcontext(), "empty_cache": lambda: None,
    }.items():  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(
        gpu_contest, "interleaved", lambda runs, *_: ({n: Samples([1.0], 1) for n in runs}, {})
    )

    monkeypatch.setattr(gpu_families.Rotation, "l2", "cold")

    def refuse(_: int) -> Any:
        raise dlblas.errors.UnsupportedError("no implementation\n the table")

    class Bench:
        rounds, seconds = 5, 0.1

        def late(self) -> bool:
            return False

        def wants(self, what: str) -> bool:
            return what == "op"

        def shares(self) -> bool:
            return True

    x = torch.ones(3)
    trial = gpu_families.Trial(
        "op", {"T": 3}, 1, refuse, lambda: (x,), {"good": lambda _: x, "bad": refuse}
    )

    def make(*_: int) -> Any:
        return trial

    def other(*_: int) -> Any:
        pytest.fail("a function that was not asked for was made")

    makes = [functools.partial(f, n) for f in (make, other) for n in range(2)]
    rows = list(
        gpu_families.measured(
            cast(Any, Bench()), "what", iter(makes), {make: "op", other: "another"}
        )
    )
    assert len(rows) == 2
    peers = {peer["name"]: peer for peer in rows[0]["peers"]}
    assert "no implementation" in rows[0]["ours"]["missing"] and rows[0]["ratio"] is None
    assert "no implementation" in rows[0]["search_failed"] and not rows[0]["searched"]
    assert "missing" not in peers["good"] and "no implementation" in peers["bad"]["missing"]
