"""DLBlas' way to register, through ``dlblas.utils``: symbolic arguments, spaces, calls that return
their results. Read next: python/dlblas/own/_dlblas.py, examples/own_dlblas.py.
"""

from __future__ import annotations

import functools
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import dlblas
import pytest
from dlblas import utils
from dlblas.errors import ArgumentError, UnknownOperatorError, UnsupportedError

torch = pytest.importorskip("torch")


def registered() -> set[tuple[str, str]]:
    """What users have registered: (operator, implementation)."""
    return {
        (row["name"], i["name"])
        for row in dlblas.info()["operators"]
        for i in row["implementations"]
        if i["user"]
    }


def user_names(op: str) -> set[str]:
    return {name for of, name in registered() if of == op}


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    before = registered()
    yield
    for op, name in registered() - before:
        dlblas.unregister(op, name)


def tensors(dtype: Any = None) -> tuple[Any, Any]:
    m, n, k = utils.SymVar("m"), utils.SymVar("n"), utils.SymVar("k")
    kind = dtype or torch.float32
    return (
        utils.Tensor((m, k), dtype=kind, device="cpu"),
        utils.Tensor((k, n), dtype=kind, device="cpu"),
    )


def row_of(op: str, name: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
    rows = dlblas.explain(op, *args, **kwargs).as_dict()["candidates"]
    return next(row for row in rows if row["implementation"] == name)


def matmul(a: Any, b: Any) -> Any:
    return a @ b


NAME = f"{__name__.rpartition('.')[2]}_matmul_f32"


def test_a_call_is_registered_tuned_and_served() -> None:
    utils.register_dlblas_op("matmul", None, tensors(), matmul, None, matmul)
    a, b = torch.randn(33, 48), torch.randn(48, 20)
    with dlblas.pinned("matmul", NAME):
        torch.testing.assert_close(dlblas.matmul(a, b), a @ b)
    op = utils.get_op("matmul", (a, b), utils.AutotuneConfig(total_iteration=20), seconds=4)
    torch.testing.assert_close(op(a, b), a @ b, rtol=1e-4, atol=1e-4)
    assert "measured_ms" in row_of("matmul", NAME, a, b)


def test_what_it_was_not_registered_for_is_refused() -> None:
    utils.register_dlblas_op("matmul", None, tensors(), matmul, None, None)
    a, b = torch.randn(4, 8), torch.randn(8, 6)
    assert row_of("matmul", NAME, a.half(), b.half())["reason"] == "takes a in f32, and it is f16"
    assert row_of("matmul", NAME, a, b, activation="relu")["reason"] == "takes no activation"
    with dlblas.pinned("matmul", NAME), pytest.raises(UnsupportedError, match="takes no bias"):
        dlblas.matmul(a, b, bias=torch.randn(6))


def test_a_literal_is_the_value_it_serves_and_a_size_too() -> None:
    def relu_of(a: Any, b: Any, activation: str) -> Any:
        assert activation == "relu"
        return torch.relu(a @ b)

    a8 = utils.Tensor((utils.SymVar("m"), 8), dtype=torch.float32, device="cpu")
    utils.register_dlblas_op("matmul", None, (a8, tensors()[1], "relu"), relu_of, None, None)
    (name,) = {n for n in user_names("matmul") if "relu_of" in n}
    a, b = torch.randn(4, 8), torch.randn(8, 6)
    assert row_of("matmul", name, a, b)["reason"] == "was registered for activation='relu'"
    wide = row_of("matmul", name, torch.randn(4, 9), torch.randn(9, 6), activation="relu")
    assert wide["reason"] == "was registered for K = 8"
    with dlblas.pinned("matmul", name):
        torch.testing.assert_close(dlblas.matmul(a, b, activation="relu"), torch.relu(a @ b))


def test_tensors_and_scalars_go_in_order_and_results_are_several() -> None:
    def call(hidden: Any, weight: Any, eps: float, residual: Any) -> Any:
        h = hidden + residual
        f = h.float()
        return (f * torch.rsqrt(f.square().mean(-1, keepdim=True) + eps) * weight).to(h.dtype), h

    t, c = utils.SymVar("T"), utils.SymVar("C")
    x, r = (utils.Tensor((t, c), dtype=torch.float32, device="cpu") for _ in range(2))
    w = utils.Tensor((c,), dtype=torch.float32, device="cpu")
    scalars = (utils.SymVar("eps"), utils.SymVar("weight_offset"))

    def with_offset(hidden: Any, weight: Any, eps: float, residual: Any, offset: float) -> Any:
        return call(hidden, weight + offset, eps, residual)

    args = (x, w, scalars[0], r, scalars[1])
    utils.register_dlblas_op("add_rms_norm", None, args, with_offset, None, None)
    (name,) = user_names("add_rms_norm")
    x, r, w = torch.randn(5, 64), torch.randn(5, 64), torch.randn(64)
    with dlblas.pinned("add_rms_norm", name):
        y, h = dlblas.add_rms_norm(x, w, r, 1e-5)
    assert dlblas.verify("add_rms_norm", (x, w, r, 1e-5), (y, h)).ok
    with dlblas.pinned("add_rms_norm", name):  # leading dimensions come flattened, as declared
        deep = dlblas.add_rms_norm(x.reshape(5, 1, 64), w, r.reshape(5, 1, 64), 1e-5)
    torch.testing.assert_close(deep[0].reshape(5, 64), y)


def test_knobs_go_to_the_call_or_to_the_kernels_launches() -> None:
    launches: list[dict[str, Any]] = []

    class Kernel:
        src = "def kernel(): ..."

        def run(self, *args: Any, **kwargs: Any) -> None:
            launches.append(kwargs)

    kernel = Kernel()

    def call(a: Any, b: Any, split: int) -> Any:
        kernel.run(split=split)
        kernel.run(BLOCK=3)
        return a @ b

    space = utils.DictSpace(
        split=utils.ChoiceSpace([1, 2]), BLOCK=utils.PowerOfTwoSpace(16, 32), num_warps=[4]
    )
    utils.register_dlblas_op("matmul", space, tensors(), call, None, kernel)
    (name,) = user_names("matmul")
    a, b = torch.randn(4, 8), torch.randn(8, 6)
    with dlblas.pinned("matmul", name, "split=2 BLOCK=32 num_warps=4"):
        dlblas.matmul(a, b)
    assert launches == [
        {"split": 2, "BLOCK": 32, "num_warps": 4},
        {"BLOCK": 3, "num_warps": 4},
    ]
    launches.clear()
    kernel.run(x=1)  # outside a call nothing is added
    assert launches == [{"x": 1}]


def test_what_differs_in_its_arguments_is_another_implementation() -> None:
    def call(a: Any, b: Any, activation: str = "none") -> Any:
        return torch.relu(a @ b) if activation == "relu" else a @ b

    a, b = tensors()
    utils.register_dlblas_op("matmul", None, (a, b), call, None, None)
    utils.register_dlblas_op("matmul", None, (a, b, "relu"), call, None, None)
    a16, b16 = tensors(torch.float16)
    utils.register_dlblas_op("matmul", None, (a16, b16), call, None, None)
    utils.register_dlblas_op("matmul", None, (a16, b16), call, None, None)  # the same again
    mixed = [n for n in user_names("matmul") if "_call_" in n]
    assert sorted(n.partition("_call_")[2] for n in mixed) == ["f16", "f32", "f32_relu"]


class _Product:
    def __call__(self, a: Any, b: Any) -> Any:
        return a @ b


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (functools.partial(functools.partial(matmul)), NAME),
        (_Product(), NAME.replace("matmul_f32", "_Product_f32")),
        (_Product().__call__, NAME.replace("matmul_f32", "__call___f32")),
        (torch.matmul, "_matmul_f32"),
    ],
    ids=["partial", "object", "method", "builtin"],
)
def test_whatever_can_be_called_is_a_call(call: Any, name: str) -> None:
    utils.register_dlblas_op("matmul", None, tensors(), call, None, None)
    (made,) = user_names("matmul")
    assert made.endswith(name)
    a, b = torch.randn(5, 7), torch.randn(7, 3)
    with dlblas.pinned("matmul", made):
        torch.testing.assert_close(dlblas.matmul(a, b), a @ b)


def test_a_symbol_that_stands_twice_is_one_size() -> None:
    def square(a: Any, b: Any) -> Any:
        return a @ b

    n, k = utils.SymVar("n"), utils.SymVar("k")
    kind = {"dtype": torch.float32, "device": "cpu"}
    args = (utils.Tensor((utils.SymVar("m"), k), **kind), utils.Tensor((k, k), **kind))
    utils.register_dlblas_op("matmul", None, args, square, None, None)
    (name,) = {n for n in user_names("matmul") if "square" in n}
    reason = row_of("matmul", name, torch.randn(4, 8), torch.randn(8, 6))["reason"]
    assert reason == "was registered for K = N"
    assert row_of("matmul", name, torch.randn(4, 8), torch.randn(8, 8))["supports"]
    args = (utils.Tensor((n, k), **kind), utils.Tensor((k, n), **kind))  # M is a bucket's end
    utils.register_dlblas_op("matmul", None, args, square, None, None)
    (other,) = {n for n in user_names("matmul") if "square" in n}
    reason = row_of("matmul", other, torch.randn(8, 4), torch.randn(4, 8))["reason"]
    assert reason == "was registered for M = N, and sizes in between are chosen as one"


SCRIPT = """
import json, sys
import dlblas, torch
from dlblas import utils


def call(a, b, parts):
    return torch.cat([a @ p for p in b.chunk(parts, 1)], 1)


m, n, k = (utils.SymVar(x) for x in "mnk")
a, b = (utils.Tensor(s, dtype=torch.float32, device="cpu") for s in ((m, k), (k, n)))
space = utils.DictSpace(parts=[1, 2])
utils.register_dlblas_op("matmul", space, (a, b), call, None, None)
if __name__ == "__main__":
    x, y = torch.randn(16, 32), torch.randn(32, 24)
    (name,) = [
        i["name"]
        for o in dlblas.info()["operators"]
        if o["name"] == "matmul"
        for i in o["implementations"]
        if i["user"]
    ]
    rows = dlblas.explain("matmul", x, y).as_dict()["candidates"]
    known = any("measured_ms" in row for row in rows if row["implementation"] == name)
    report = dlblas.tune("matmul", (x, y), seconds=20, implementations=[name])
    rows = [e for e in report["evaluated"] if e["implementation"] == name]
    rows = {e["config"]: e.get("failure", "") for e in rows}
    print(json.dumps([name, known, report["measured_in"], rows]))
"""


def test_it_is_remembered_and_measured_in_a_worker(tmp_path: pathlib.Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    package = os.path.dirname(os.path.dirname(os.path.abspath(dlblas.__file__)))
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([package, *sys.path]),
        "DLBLAS_CACHE": str(tmp_path / "cache"),
    }
    told = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, str(tmp_path / "script.py")], env=env, capture_output=True, text=True
        )
        assert done.returncode == 0 and "measured in this process" not in done.stderr, done.stderr
        told.append(json.loads(done.stdout))
    name, known, place, rows = told[0]
    assert name == "__main___call_f32" and place == "worker"
    assert rows == {"parts=1": "", "parts=2": ""}
    assert not known and told[1][1]  # another process, the same source


class Config:
    """Mirrors triton.Config."""

    def __init__(self, kwargs: dict[str, Any], num_warps: int, num_stages: int) -> None:
        self.kwargs, self.num_warps, self.num_stages = kwargs, num_warps, num_stages


def test_triton_configurations_are_a_space() -> None:
    class Kernel:
        def run(self, **kwargs: Any) -> None: ...

    configs = [Config({"BLOCK": 64}, 4, 2), Config({"BLOCK": 128}, 8, 3)]
    utils.register_dlblas_op(
        "matmul",
        utils.ChoiceSpace(configs),
        tensors(),
        matmul,
        None,
        Kernel(),  # type: ignore[arg-type]
    )
    row = row_of("matmul", NAME, torch.randn(4, 8), torch.randn(8, 6))
    assert row["config"] == "BLOCK=64 num_warps=4 num_stages=2"


def test_names_that_dlblas_users_know() -> None:
    assert utils.RangeSapce is utils.RangeSpace
    assert utils.AutotuneConfig().total_iteration == 5
    assert utils.AutotuneConfig().tunner == "enumeration"
    assert "matmul" in utils.get_list_op_names()
    assert utils.get_args_from_op_name("matmul")[:2] == ["a", "b"]


def test_errors_name_the_argument() -> None:
    a, b = tensors()
    with pytest.raises(UnknownOperatorError):
        utils.register_dlblas_op("matmuls", None, (a, b), matmul, None, None)
    for args, argument, words in (
        ([a, b], "args", "has the wrong type"),
        ((a, b, a, a, a), "args", "has more tensors than the operator"),
        ((a, b, "tanhh"), "args", "holds a text that no argument takes"),
        ((a, utils.Tensor((8, 6), dtype="zzz", device="cpu")), "args", "gives b an unknown dtype"),
        ((a, utils.Tensor((8, 6), dtype=None, device="cpu")), "args", "gives b an unknown dtype"),
    ):
        with pytest.raises(ArgumentError, match=words) as caught:
            utils.register_dlblas_op("matmul", None, args, matmul, None, None)
        assert caught.value.argument == argument
    for space in (utils.FixedSpace(4), utils.ChoiceSpace([{"x": 1}, 4]), 4):
        with pytest.raises(ArgumentError, match="matmul: space has the wrong type") as caught:
            utils.register_dlblas_op("matmul", space, (a, b), matmul, None, None)
        assert caught.value.argument == "space"
    with pytest.raises(ArgumentError, match="kernel cannot be given its knobs"):
        utils.register_dlblas_op("matmul", utils.DictSpace(x=[1]), (a, b), matmul, None, None)
