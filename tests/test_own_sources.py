"""What `dlblas.register` refuses, by argument, and what is part of a function's hash.

Read next: docs/own.md, python/dlblas/own/_source.py.
"""

from __future__ import annotations

import functools
import subprocess
import sys
from typing import Any

import dlblas
import numpy as np
import pytest
from dlblas.errors import ArgumentError, UnknownOperatorError
from dlblas.own import _source
from own_shared import OP, arrays, clean, mine, normalise  # noqa: F401 (clean: a fixture)


def unknown(x: Any, weight: Any, eps: float, weight_offset: float, y: Any, z: int) -> None: ...


def short(x: Any, weight: Any, eps: float, y: Any) -> None: ...


def no_result(x: Any, weight: Any, eps: float, weight_offset: float) -> None: ...


@pytest.mark.parametrize(
    ("change", "argument", "words"),
    [
        ({"name": "no name"}, "name", "is no name"),
        ({"name": "reference"}, "name", "is taken by a built-in implementation"),
        ({"fn": 7}, "fn", "has the wrong type"),
        ({"fn": unknown}, "fn", "takes an argument that is not there"),
        ({"fn": short}, "fn", "does not take weight_offset"),
        ({"fn": no_result}, "fn", "does not take y"),
        ({"devices": "tpu"}, "devices", "is unknown"),
        ({"devices": ()}, "devices", "is empty"),
        ({"devices": "cuda", "arrays": "numpy"}, "arrays", "does not fit the devices"),
        ({"arrays": "jax"}, "arrays", "is unknown"),
        ({"space": {"rows": [1, 2]}}, "fn", "does not take rows"),
        ({"space": {"x": [1, 2]}}, "space", "names a knob like an argument"),
        ({"space": 3}, "space", "has the wrong type"),
        ({"space": {"rows": []}}, "space", "gives rows a wrong number of values"),
        ({"space": {"rows": dlblas.spaces.RangeSpace(0, 1)}}, "space", "gives rows a range"),
        ({"default": {"rows": 1}}, "default", "names other knobs than space"),
        ({"space": {"rows": [2**70]}}, "space['rows']", "has a value beyond 64 bits"),
        ({"space": {"rows": [None]}}, "space['rows']", "has the wrong type"),
        ({"space": {"rows": [[1]]}}, "space['rows']", "has the wrong type"),
        ({"space": [{"rows": None}]}, "space['rows']", "has the wrong type"),
        ({"space": {"rows": ["\ud800"]}}, "space['rows']", "is not valid Unicode"),
        ({"space": {"\ud800": [1]}}, "space", "is not valid Unicode"),
        ({"space": {5: [1]}}, "space", "has the wrong type"),
        ({"space": {"rows": [1]}, "where": lambda rows: 1 / 0}, "where", "raised"),
        ({"space": {"rows": [1]}, "where": max}, "where", "does not tell its parameters"),
        ({"where": 5}, "where", "has the wrong type"),
        ({"default": 5}, "default", "has the wrong type"),
        ({"supports": 5}, "supports", "has the wrong type"),
        ({"devices": 5}, "devices", "has the wrong type"),
        ({"devices": [["cpu"]]}, "devices", "is unknown"),
        ({"arch": 2**70}, "arch", "is no compute capability"),
        ({"op": 5}, "op", "has the wrong type"),
        ({"op": "\ud800"}, "op", "is not valid Unicode"),
        ({"fn": "__global__ void f() {} //\ud800", "grid": "T"}, "fn", "is not valid Unicode"),
        ({"fn": "__global__ void f() {}", "grid": "\ud800"}, "grid", "is not valid Unicode"),
        ({"fn": "", "grid": "T", "entry": 5}, "entry", "has the wrong type"),
        ({"grid": "T"}, "grid", "is for kernels"),
        ({"fn": "extern", "devices": "cpu"}, "devices", "does not fit CUDA text"),
        ({"fn": "__global__ void f() {}"}, "grid", "is missing"),
        ({"fn": "int x;", "grid": "T"}, "entry", "is not clear"),
        ({"fn": "__global__ void f() {}", "grid": "T +"}, "grid", "is malformed"),
        ({"fn": "__global__ void f() {}", "grid": "Q"}, "grid", "is malformed"),
    ],
)
def test_errors_are_typed_and_name_the_argument(
    change: dict[str, Any], argument: str, words: str
) -> None:
    given = {"op": OP, "name": "mine", "fn": mine, **change}
    before = dlblas.info()["operators"]
    with pytest.raises(ArgumentError) as caught:
        dlblas.register(**given)
    assert dlblas.info()["operators"] == before
    assert caught.value.argument == argument, str(caught.value)
    assert words in str(caught.value) and "expected" in str(caught.value)


def test_truth_values_of_numpy_are_knobs() -> None:
    def knobs(x: Any, weight: Any, eps: float, weight_offset: float, y: Any, k: Any) -> None: ...

    space = {"k": [np.bool_(True), np.float32(1.5), "a", 2]}
    dlblas.register(OP, "knobs", knobs, space=space, where=lambda k: k != 2)
    row = next(r for r in dlblas.info()["operators"] if r["name"] == OP)
    (made,) = (i for i in row["implementations"] if i["name"] == "knobs")
    assert made["knobs"][0]["values"] == ["True", "1.5", "a", "2"]


def test_an_unknown_operator_and_an_unknown_name() -> None:
    with pytest.raises(UnknownOperatorError):
        dlblas.register("rms_norms", "mine", mine)
    with pytest.raises(ArgumentError, match="is not a registered one"):
        dlblas.unregister(OP, "cpu_avx512")


def test_closures_are_local_and_modules_are_named() -> None:
    def local(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
        y[...] = normalise(x, weight, eps, weight_offset)

    dlblas.register(OP, "local", local)
    row = next(r for r in dlblas.info()["operators"] if r["name"] == OP)
    flags = {i["name"]: (i["user"], i["local"]) for i in row["implementations"]}
    assert flags["local"] == (True, True) and flags["reference"] == (False, False)
    assert __name__ not in dlblas.own.modules()


def test_a_torch_function() -> None:
    torch = pytest.importorskip("torch")

    def by_torch(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
        assert isinstance(x, torch.Tensor)
        f = x.float()
        f = f * torch.rsqrt((f * f).mean(-1, keepdim=True) + eps)
        y.copy_(f * (weight.float() + weight_offset))

    dlblas.register(OP, "by_torch", by_torch, arrays="torch")
    x = torch.randn(12, 64, dtype=torch.bfloat16)
    w = torch.randn(64, dtype=torch.bfloat16)
    expected = torch.nn.functional.rms_norm(x.float(), (64,), w.float(), 1e-6).bfloat16()
    with dlblas.pinned(OP, "by_torch"):
        torch.testing.assert_close(dlblas.rms_norm(x, w), expected, rtol=0.02, atol=0.02)
        torch.testing.assert_close(
            torch.ops.dlblas.rms_norm(x.t().contiguous().t(), w), expected, rtol=0.02, atol=0.02
        )
        y = dlblas.rms_norm(*arrays())  # NumPy callers as well
        assert isinstance(y, np.ndarray)
    report = dlblas.tune(OP, (x, w), seconds=2, implementations=["by_torch"])
    assert report["winner"]["implementation"] == "by_torch"


def _scaled(by: Any) -> Any:
    def scaled(x: Any, y: Any, more: Any = None) -> None:
        y[...] = x * by

    return scaled


class _Scaled:
    def __init__(self, by: float) -> None:
        self.by = by

    def __call__(self, x: Any, y: Any) -> None:
        y[...] = x * self.by


@pytest.mark.parametrize(
    "make",
    [
        _scaled,
        lambda by: functools.partial(_scaled(1), more=by),
        lambda by: functools.wraps(_scaled(by))(_scaled(1)),
        lambda by: _scaled(np.arange(9999) + by),
        _Scaled,
    ],
    ids=["closure", "partial", "wrapper", "array", "object"],
)
def test_what_a_function_holds_is_part_of_its_hash(make: Any) -> None:
    digest = [_source.digest(_source.text_of(make(by))) for by in (2, 2, 3)]
    assert digest[0] == digest[1] != digest[2]


def test_what_has_no_lasting_text_is_of_this_process() -> None:
    held = "(lambda q: lambda x: q)(object())"
    code = f"from dlblas.own import _source as s; print(s.digest(s.text_of({held})))"
    told = {subprocess.check_output([sys.executable, "-c", code], text=True) for _ in range(2)}
    assert len(told) == 2
