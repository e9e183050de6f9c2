"""Every implementation marked capturable goes into a CUDA graph and is replayed 100 times on
changing data; `warmup` alone readies it in a fresh process; what is cold under capture says so.

Generic over the registry: operators and shapes come from the library and the families' cases.json.
Read next: python/dlblas/_specs.py, docs/testing.md.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import dlblas
import pytest
from dlblas import _specs

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")

REPLAYS, FRESH_DATA_EVERY = 100, 10
MOST_ELEMENTS = 1 << 22
DTYPES = ("bf16", "f16", "f32")
TORCH = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}
INFO = dlblas.info()
T = TypeVar("T")


def _capturable() -> list[tuple[str, str]]:
    return [
        (row["name"], impl["name"])
        for row in INFO["operators"]
        for impl in row["implementations"]
        if impl["backend"] == "cuda" and impl["capturable"]
    ]


class Call(NamedTuple):
    """One call on the GPU: everything by name, the results made beforehand."""

    op: str
    tensors: dict[str, Any]
    scalars: dict[str, Any]
    out: Any

    def run(self) -> None:
        getattr(dlblas, self.op)(**self.tensors, **self.scalars, out=self.out)

    def results(self) -> list[Any]:
        return list(self.out) if isinstance(self.out, tuple) else [self.out]


def _tensor(spec: dlblas.Spec) -> Any:
    dtype = getattr(torch, TORCH[spec.dtype])
    return torch.randn(spec.shape, device="cuda", dtype=torch.float32).to(dtype)


def _inputs(op: str, dims: dict[str, Any], dtype: str, scalars: dict[str, Any]) -> dict[str, Any]:
    """All arguments but `out`, by name."""
    row = _specs.operator_row(op, INFO)[0]
    specs = _specs.tensor_specs(row, dims, {"": dtype}, scalars)
    names = {tensor["name"] for tensor in row["tensors"]}
    given = {name: value for name, value in scalars.items() if name not in names}
    given |= _specs.size_arguments(row, dims)
    return {name: _tensor(spec) for name, spec in specs.items()} | given


def _make(op: str, inputs: dict[str, Any]) -> Call:
    made = getattr(dlblas, op)(**inputs)
    out = tuple(torch.empty_like(r) for r in made) if isinstance(made, tuple) else None
    tensors = {name: value for name, value in inputs.items() if torch.is_tensor(value)}
    scalars = {name: value for name, value in inputs.items() if name not in tensors}
    return Call(op, tensors, scalars, torch.empty_like(made) if out is None else out)


def _elements(op: str, dims: dict[str, Any]) -> int:
    row = _specs.operator_row(op, INFO)[0]
    total = 0
    for spec in _specs.tensor_specs(row, dims, {}, {}).values():
        count = 1
        for size in spec.shape:
            count *= size
        total += count
    return total


def _candidates(op: str) -> Iterator[dict[str, Any]]:
    """Inputs of the family's cases that are small enough, the largest first."""
    row = _specs.operator_row(op, INFO)[0]
    cases = [case for case in _specs.cases(row, "test") if "contiguous" in case["layouts"]]
    sized = [(_elements(op, case["dims"]), case) for case in cases]
    for _, case in sorted((s for s in sized if 0 < s[0] <= MOST_ELEMENTS), key=lambda s: -s[0]):
        for dtype in DTYPES:
            if dtype in case["dtypes"]:
                yield _inputs(op, case["dims"], dtype, case["args"])


def _first_served(op: str, attempt: Callable[[dict[str, Any]], T]) -> T:
    """What `attempt` makes of the first inputs that the pinned implementation serves."""
    why = "no case fits"
    for inputs in _candidates(op):
        try:
            return attempt(inputs)
        except (dlblas.errors.UnsupportedError, dlblas.errors.UnsupportedDtypeError) as error:
            why = str(error)
    pytest.fail(f"{op}: no case of its family's cases.json is served: {why}")


def _refill(call: Call) -> list[Any]:
    """New data in the same memory, results poisoned; what an eager call makes of the data."""
    for tensor in call.tensors.values():
        tensor.copy_(torch.randn_like(tensor, dtype=torch.float32))
    call.run()
    expected = [result.clone() for result in call.results()]
    for result in call.results():
        result.fill_(float("nan") if result.is_floating_point() else -1)
    return expected


@pytest.mark.parametrize(("op", "implementation"), _capturable())
def test_captured_and_replayed(op: str, implementation: str) -> None:
    row = _specs.operator_row(op, INFO)[0]
    flags = next(i for i in row["implementations"] if i["name"] == implementation)
    torch.manual_seed(3)
    with dlblas.pinned(op, implementation):
        call = _first_served(op, lambda inputs: _make(op, inputs))
        _refill(call)
        graph = torch.cuda.CUDAGraph()
        before = dlblas.counters()
        with torch.cuda.graph(graph):
            call.run()
        after = dlblas.counters()
        assert after["measured"] == before["measured"] and after["compiled"] == before["compiled"]
        for turn in range(REPLAYS):
            if turn % FRESH_DATA_EVERY == 0:
                expected = _refill(call)
            graph.replay()
            torch.cuda.synchronize()
            for got, eager in zip(call.results(), expected, strict=True):
                if flags["deterministic"]:
                    assert torch.equal(got, eager), f"replay {turn} differs from the eager call"
                else:
                    torch.testing.assert_close(got, eager)


def _capture_straight_after_warmup(op: str, implementation: str) -> None:
    """Nothing but `warmup` has run in this process: no library's kernel was loaded by a call."""

    def warmed(inputs: dict[str, Any]) -> dict[str, Any]:
        dlblas.warmup(op, **inputs)
        return inputs

    torch.manual_seed(5)
    with dlblas.pinned(op, implementation):
        inputs = _first_served(op, warmed)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = getattr(dlblas, op)(**inputs)
        graph.replay()
        eager = getattr(dlblas, op)(**inputs)
    torch.cuda.synchronize()
    torch.testing.assert_close(captured, eager)


@pytest.mark.parametrize(("op", "implementation"), _capturable())
def test_warmup_alone_readies_a_capture(op: str, implementation: str) -> None:
    package = pathlib.Path(dlblas.__file__).resolve().parent.parent
    done = subprocess.run(
        [sys.executable, __file__, op, implementation],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(package)},
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_every_operator_has_a_capturable_implementation() -> None:
    served = {op for op, _ in _capturable()}
    on_gpus = {
        row["name"]
        for row in INFO["operators"]
        if any(i["backend"] == "cuda" for i in row["implementations"])
    }
    assert on_gpus and served == on_gpus


def test_cold_under_capture_names_warmup() -> None:
    x = torch.randn(3, 1236, device="cuda", dtype=torch.bfloat16)
    weight = torch.ones(1236, device="cuda", dtype=torch.bfloat16)
    y = torch.empty_like(x)
    dlblas.rms_norm(x[:, :8].contiguous(), weight[:8].contiguous())  # the library is loaded
    refused = pytest.raises(dlblas.Error, match=r'dlblas\.warmup\("rms_norm"')
    with refused, torch.cuda.graph(torch.cuda.CUDAGraph()):
        dlblas.rms_norm(x, weight, out=y)
    dlblas.warmup("rms_norm", x, weight)
    expected = torch.nn.functional.rms_norm(x.float(), (1236,), None, 1e-6).to(x.dtype)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dlblas.rms_norm(x, weight, out=y)
    graph.replay()
    torch.testing.assert_close(y, expected)


def test_a_search_is_refused_under_capture() -> None:
    x = torch.randn(5, 516, device="cuda", dtype=torch.bfloat16)
    weight = torch.ones(516, device="cuda", dtype=torch.bfloat16)
    before = dlblas.counters()["measured"]
    with pytest.raises(dlblas.errors.TuningFailedError), torch.cuda.graph(torch.cuda.CUDAGraph()):
        dlblas.get_op("rms_norm", (x, weight), seconds=0.1)
    assert dlblas.counters()["measured"] == before


if __name__ == "__main__":
    _capture_straight_after_warmup(*sys.argv[1:])
