"""Every implementation marked capturable is captured into a CUDA graph and replayed 100 times on
changing data; `warmup` alone prepares it in a fresh process; a cold call under capture says so.

Generic over the registry: operators and shapes come from the library and the families' cases.json.
Read next: python/dlblas/harness/call.py, docs/testing.md.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pathlib
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import dlblas
import numpy as np
import pytest
from depth import depth_of
from dlblas.harness import Case, load_registry
from dlblas.harness import call as harness_call
from levels import ON_GPUS

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")

REPLAYS, FRESH_DATA_EVERY = 100, 10
MAX_ELEMENTS = 1 << 22
ORDER = {"bf16": -3, "f16": -2, "f32": -1}
INFO = dlblas.info()
REGISTRY = load_registry()
T = TypeVar("T")
_SPEC = importlib.util.spec_from_file_location(
    "gpu_smoke", pathlib.Path(__file__).resolve().parent.parent / "tools" / "gpu_smoke.py"
)
assert _SPEC is not None and _SPEC.loader is not None
gpu_smoke = importlib.util.module_from_spec(_SPEC)
sys.modules["gpu_smoke"] = gpu_smoke  # NamedTuple looks its module up
_SPEC.loader.exec_module(gpu_smoke)


def _capturable() -> list[tuple[str, str]]:
    return [
        (row["name"], impl["name"])
        for row in INFO["operators"]
        for impl in row["implementations"]
        if impl["backend"] == "cuda" and impl["capturable"]
    ]


class Call(NamedTuple):
    """One call on the GPU: all arguments by name, results allocated beforehand."""

    op: str
    tensors: dict[str, Any]
    scalars: dict[str, Any]
    out: Any  # None: the operator has no results
    undefined: list[Any]  # of results(): which bytes the contract leaves undefined

    def run(self) -> None:
        out = {} if self.out is None else {"out": self.out}
        getattr(dlblas, self.op)(**self.tensors, **self.scalars, **out)

    def results(self) -> list[Any]:
        """The results, and the inputs that the operator writes."""
        return [*_list(self.out), *self.written()]

    def written(self) -> list[Any]:
        specs = REGISTRY.operators[self.op]["tensors"]
        return [
            self.tensors[t["name"]] for t in specs if t["written"] and t["name"] in self.tensors
        ]


def _tensor(array: Any) -> Any:
    """A GPU copy of a NumPy array of any library dtype, with the dimensions in the same memory
    order."""
    axes = sorted(range(array.ndim), key=lambda i: -abs(array.strides[i]))
    plain = array.transpose(axes).copy(order="C").view(f"u{array.dtype.itemsize}")
    made = torch.from_numpy(plain).view(getattr(torch, array.dtype.name)).cuda()
    return made.permute([axes.index(i) for i in range(array.ndim)])


class Inputs(NamedTuple):
    """All arguments of a case except `out`, by name, as the harness creates them."""

    named: dict[str, Any]
    made: harness_call.Call

    def undefined(self) -> list[Any]:
        """The undefined bytes of each result according to the oracle. This needs a whole reference,
        so it is computed only for a case that is served. Indices and sizes decide which elements
        they are, and those do not change."""
        if REGISTRY.operators[self.made.case.op]["judge"]:
            return [np.zeros(t.array.nbytes, bool) for t in self.made.outcome()]
        return list(self.made.undefined())


def _inputs(case: Case) -> Inputs:
    call = harness_call.Call(REGISTRY, case, seed=3)
    return Inputs({n: _tensor(t.array) for n, t in call.inputs.items()} | call.scalars, call)


def _bits(tensor: Any) -> Any:
    """A contiguous tensor's bytes, as a view."""
    return tensor.view(-1).view(torch.uint8)


def _defined(tensor: Any, undefined: Any) -> Any:
    """A copy with undefined elements set to 0."""
    made = tensor.clone()
    _bits(made)[torch.from_numpy(undefined).to(made.device)] = 0
    return made


def _list(made: Any) -> list[Any]:
    return [] if made is None else list(made) if isinstance(made, tuple) else [made]


def _make(op: str, given: Inputs) -> Call:
    inputs = given.named
    made = getattr(dlblas, op)(**inputs)
    out = tuple(torch.empty_like(r) for r in made) if isinstance(made, tuple) else made
    tensors = {name: value for name, value in inputs.items() if torch.is_tensor(value)}
    scalars = {name: value for name, value in inputs.items() if name not in tensors}
    out = torch.empty_like(out) if torch.is_tensor(out) else out
    return Call(op, tensors, scalars, out, given.undefined())


def candidate_cases(op: str) -> list[Case]:
    """The family's cases that are small enough; contiguous ones first, in descending size."""
    found = gpu_smoke.candidates(REGISTRY, op, MAX_ELEMENTS)
    first = sorted(found, key=lambda c: (-gpu_smoke.elements(c), ORDER.get(c.dtype, 0)))
    return [*first, *gpu_smoke.further(REGISTRY, op, MAX_ELEMENTS)]


def _candidates(op: str) -> Iterator[Inputs]:
    return map(_inputs, candidate_cases(op))


def _first_served(op: str, attempt: Callable[[Inputs], T]) -> T:
    """The value of `attempt` for the first inputs that the pinned implementation serves."""
    why = "no case fits"
    for inputs in _candidates(op):
        try:
            return attempt(inputs)
        except (dlblas.errors.UnsupportedError, dlblas.errors.UnsupportedDtypeError) as error:
            why = str(error)
    pytest.fail(f"{op}: no case of its family's cases.json is served: {why}")


def _refill(call: Call) -> tuple[list[Any], list[Any]]:
    """Writes new data into the same memory; returns an eager call's results, and the written inputs
    as they were before it."""
    for tensor in call.tensors.values():
        if tensor.is_floating_point():  # indices stay inside their limits
            tensor.copy_(torch.randn_like(tensor, dtype=torch.float32))
    before = [tensor.clone() for tensor in call.written()]
    for result in _list(call.out):  # what an operator leaves undefined is alike in both
        _bits(result).fill_(0xFF)
    call.run()
    return [result.clone() for result in call.results()], before


def _flags(op: str, implementation: str) -> dict[str, Any]:
    row = next(row for row in INFO["operators"] if row["name"] == op)
    flags: dict[str, Any] = next(i for i in row["implementations"] if i["name"] == implementation)
    return flags


def _spoil(call: Call, before: list[Any]) -> None:
    """Fills results with bytes that no run wrote, and restores written inputs."""
    for result in call.results():
        _bits(result).fill_(0xFF)
    for tensor, old in zip(call.written(), before, strict=True):
        tensor.copy_(old)


@pytest.mark.parametrize(("op", "implementation"), _capturable())
def test_captured_and_replayed(op: str, implementation: str) -> None:
    flags = _flags(op, implementation)
    torch.manual_seed(3)
    # For those that round f32; it changes nothing for others.
    with dlblas.allow_tf32(), dlblas.pinned(op, implementation):
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
                expected, found = _refill(call)
            _spoil(call, found)
            graph.replay()
            torch.cuda.synchronize()
            for found_now, once, undefined in zip(
                call.results(), expected, call.undefined, strict=True
            ):
                got, eager = _defined(found_now, undefined), _defined(once, undefined)
                if flags["deterministic"]:
                    assert torch.equal(_bits(got), _bits(eager)), f"replay {turn} differs"
                else:
                    torch.testing.assert_close(got.double(), eager.double())


def _capture_straight_after_warmup(op: str, implementation: str) -> None:
    """Nothing but `warmup` has run in this process, so no call has loaded an external library's
    kernel."""

    def warmed(given: Inputs) -> Inputs:
        dlblas.warmup(op, **given.named)
        return given

    torch.manual_seed(5)
    # A composed implementation repeats its bits if all of its parts do; deterministic() chooses
    # such parts.
    same_bits = _flags(op, implementation)["deterministic"]
    asked = dlblas.deterministic() if same_bits else contextlib.nullcontext()
    with asked, dlblas.allow_tf32(), dlblas.pinned(op, implementation):
        given = _first_served(op, warmed)
        inputs = given.named
        call = Call(op, {n: v for n, v in inputs.items() if torch.is_tensor(v)}, {}, None, [])
        before = [tensor.clone() for tensor in call.written()]
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            made = getattr(dlblas, op)(**inputs)
        graph.replay()
        captured = [tensor.clone() for tensor in call.written()]
        for tensor, old in zip(call.written(), before, strict=True):
            tensor.copy_(old)
        eager = getattr(dlblas, op)(**inputs)
    torch.cuda.synchronize()
    pairs = [
        *zip(_list(made), _list(eager), strict=True),
        *zip(captured, call.written(), strict=True),
    ]
    for (got, want), mask in zip(pairs, given.undefined(), strict=True):
        got, want = _defined(got, mask), _defined(want, mask)
        if same_bits:
            assert torch.equal(_bits(got), _bits(want)), "the graph has other bits"
        else:
            rounding = {1: 2.0**-3, 2: 2.0**-7}.get(got.element_size(), 1e-5)
            least = rounding * float(want.double().abs().mean())
            torch.testing.assert_close(got.double(), want.double(), rtol=rounding, atol=least)


def _drawn() -> list[tuple[str, str]]:
    """One implementation per operator, or all at full depth: each costs a process."""
    depth = depth_of()
    every: dict[str, list[tuple[str, str]]] = {}
    for op, implementation in _capturable():
        every.setdefault(op, []).append((op, implementation))
    if depth.full:
        return _capturable()
    return [random.Random(f"{op} {depth.seed}").choice(some) for op, some in every.items()]


@pytest.mark.parametrize(("op", "implementation"), _drawn())
def test_warmup_alone_readies_a_capture(op: str, implementation: str) -> None:
    package = pathlib.Path(dlblas.__file__).resolve().parent.parent
    done = subprocess.run(
        [sys.executable, __file__, op, implementation],
        capture_output=True,
        text=True,
        timeout=480,
        env={**os.environ, "PYTHONPATH": str(package)},
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_every_operator_has_a_capturable_implementation() -> None:
    served = {op for op, _ in _capturable()}
    assert ON_GPUS and served == set(ON_GPUS)


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
