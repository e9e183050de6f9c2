"""Every implementation marked capturable goes into a CUDA graph and is replayed 100 times on
changing data; what is cold under capture says how to warm it.

Generic over the registry: operators and shapes come from the library and the families' cases.json.
Read next: python/dlblas/_specs.py, docs/testing.md.
"""

from __future__ import annotations

from typing import Any, NamedTuple

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


def _make(op: str, dims: dict[str, Any], dtype: str, scalars: dict[str, Any]) -> Call:
    row = _specs.operator_row(op, INFO)[0]
    specs = _specs.tensor_specs(row, dims, {"": dtype}, scalars)
    names = {tensor["name"] for tensor in row["tensors"]}
    tensors = {name: _tensor(spec) for name, spec in specs.items()}
    given = {name: value for name, value in scalars.items() if name not in names}
    made = getattr(dlblas, op)(**tensors, **given)
    out = tuple(torch.empty_like(r) for r in made) if isinstance(made, tuple) else None
    return Call(op, tensors, given, torch.empty_like(made) if out is None else out)


def _elements(op: str, dims: dict[str, Any]) -> int:
    row = _specs.operator_row(op, INFO)[0]
    total = 0
    for spec in _specs.tensor_specs(row, dims, {}, {}).values():
        count = 1
        for size in spec.shape:
            count *= size
        total += count
    return total


def _supported(op: str) -> Call:
    """A call that the pinned implementation serves: the largest case that is small enough."""
    row = _specs.operator_row(op, INFO)[0]
    cases = [case for case in _specs.cases(row, "test") if "contiguous" in case["layouts"]]
    sized = [(_elements(op, case["dims"]), case) for case in cases]
    fitting = sorted((s for s in sized if 0 < s[0] <= MOST_ELEMENTS), key=lambda s: -s[0])
    why = "no case fits"
    for _, case in fitting:
        for dtype in DTYPES:
            if dtype not in case["dtypes"]:
                continue
            try:
                return _make(op, case["dims"], dtype, case["args"])
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
        result.fill_(float("nan"))
    return expected


@pytest.mark.parametrize(("op", "implementation"), _capturable())
def test_captured_and_replayed(op: str, implementation: str) -> None:
    row = _specs.operator_row(op, INFO)[0]
    flags = next(i for i in row["implementations"] if i["name"] == implementation)
    torch.manual_seed(3)
    with dlblas.pinned(op, implementation):
        call = _supported(op)
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
