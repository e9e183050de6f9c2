"""f32 products in TF32: only where a call allows it, and then right within TF32's error."""

from __future__ import annotations

import dlblas
import numpy as np
import pytest

NAME = "cublaslt_tf32"


def test_the_modes_nest_and_do_not_touch_each_other() -> None:
    a, b = np.ones((2, 3), np.float32), np.ones((3, 2), np.float32)

    def modes() -> list[str]:
        problem = str(dlblas.explain("matmul", a, b).as_dict()["problem"])
        return [mode for mode in ("deterministic", "TF32 allowed") if mode in problem]

    assert modes() == []
    with dlblas.allow_tf32():
        assert modes() == ["TF32 allowed"]
        with dlblas.deterministic():
            assert modes() == ["deterministic", "TF32 allowed"]
            with dlblas.allow_tf32(False):
                assert modes() == ["deterministic"]
            assert modes() == ["deterministic", "TF32 allowed"]
        assert modes() == ["TF32 allowed"]
    assert modes() == []


def test_a_wrong_argument_is_named() -> None:
    with pytest.raises(dlblas.errors.ArgumentTypeError, match="off"):
        dlblas.allow_tf32(off=True)  # type: ignore[call-arg]


def test_a_cpu_multiplies_f32_as_it_is() -> None:
    rng = np.random.default_rng(3)
    a = rng.standard_normal((33, 257), np.float32)
    b = rng.standard_normal((257, 65), np.float32)
    plain = dlblas.matmul(a, b)
    with dlblas.allow_tf32():
        assert np.array_equal(dlblas.matmul(a, b), plain)


def test_parts_of_an_operator_are_not_allowed_it() -> None:
    x, q = np.ones((3, 64), np.float16), np.ones((32, 64), np.int8)
    with dlblas.allow_tf32(), dlblas.pinned("mm_w8a16_group", "cpu_dequantized"):
        told = str(dlblas.explain("mm_w8a16_group", x, q, np.ones((32, 1), "f"), group=64))
    parts = [line for line in told.splitlines() if line.lstrip().startswith("part ")]
    assert "TF32 allowed" in told.splitlines()[0] and len(parts) == 2, told
    assert not any("TF32 allowed" in line for line in parts), told


@pytest.mark.gpu
def test_a_gpu_rounds_only_where_it_may() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(5)
    a, b = (torch.randn(1024, 1024, device="cuda") for _ in range(2))
    exact = a.double() @ b.double()

    def off(y: torch.Tensor) -> float:
        return float((y.double() - exact).norm() / exact.norm())

    refused = pytest.raises(dlblas.errors.UnsupportedError, match="allow_tf32")
    with refused, dlblas.pinned("matmul", NAME):
        dlblas.matmul(a, b)
    assert off(dlblas.matmul(a, b)) < 2e-6
    with dlblas.allow_tf32(), dlblas.pinned("matmul", NAME):
        rounded = dlblas.matmul(a, b)
        assert 2e-5 < off(rounded) < 1e-3
        assert dlblas.verify("matmul", (a, b), rounded)
        batched = dlblas.bmm(a.reshape(4, 256, 1024), b.expand(4, 1024, 1024))
    assert not dlblas.verify("matmul", (a, b), rounded)
    assert batched.shape == (4, 256, 1024)
    half = a.half()
    refused = pytest.raises(dlblas.errors.UnsupportedError, match="f32")
    with refused, dlblas.allow_tf32(), dlblas.pinned("matmul", NAME):
        dlblas.matmul(half, half)


@pytest.mark.gpu
def test_a_search_takes_it_where_it_may() -> None:
    torch = pytest.importorskip("torch")
    a, b = (torch.randn(2048, 2048, device="cuda") for _ in range(2))
    with dlblas.allow_tf32():
        report = dlblas.tune("matmul", (a, b), seconds=3)
        assert dlblas.explain("matmul", a, b).as_dict()["implementation"] == NAME, report
    assert dlblas.explain("matmul", a, b).as_dict()["implementation"] != NAME


@pytest.mark.gpu
def test_steps_of_an_operator_stay_exact() -> None:
    torch = pytest.importorskip("torch")
    x, w = torch.randn(64, 512, device="cuda"), torch.randn(256, 512, device="cuda")
    with dlblas.allow_tf32():
        y = dlblas.gated_mlp(x, w, w)
    wanted = torch.nn.functional.silu(x.double() @ w.double().T) * (x.double() @ w.double().T)
    assert float((y.double() - wanted).norm() / wanted.norm()) < 1e-5
