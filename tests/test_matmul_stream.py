"""Stream-K in matmul's cuda_wgmma: right, with the same bits in every run and in graph replay, also
beside another product; offered where tiles fill no whole number of waves, and nowhere else.

Read next: device/gemm/stream_config.hpp, tests/cpp/test_gemm_stream.cpp (its schedule).
"""

from __future__ import annotations

from typing import Any

import dlblas
import pytest

torch = pytest.importorskip("torch")
RUNS = 20


def _config(tile: str, stages: int, more: str = "", stream: int = 1) -> str:
    rows, columns = tile.split("x")
    values = {
        "swapped": 0, "block_m": rows, "block_n": columns, "block_k": 64,
        "warpgroups": 3 if rows == "192" else 2, "pingpong": 0, "share": "none", "cluster": 1,
        "stages": stages, "weight_once": 0, "group_m": 8, "stream": stream,
    }  # fmt: skip
    values.update(dict(pair.split("=") for pair in more.split()))
    return " ".join(f"{name}={value}" for name, value in values.items())


SHARED = "pingpong=1 cluster=2 share="
# For 132 multiprocessors: fewer tiles than these, or waves of which the last is not full.
CASES: list[tuple[tuple[int, int, int], str]] = [
    ((1000, 1000, 4096), _config("128x128", 6)),
    ((1000, 1000, 4096), _config("192x128", 5)),
    ((384, 5120, 8192), _config("128x256", 4)),
    ((384, 5120, 8192), _config("128x192", 4, "swapped=1")),
    ((4096, 4096, 4096), _config("128x192", 4)),
    ((4096, 4096, 4096), _config("128x192", 4, "pingpong=1")),
    ((4096, 4096, 4096), _config("128x192", 4, SHARED + "a")),
    ((4096, 4096, 4096), _config("128x192", 4, SHARED + "b")),
    ((4096, 4096, 4096), _config("192x192", 4)),
    ((1073, 4096, 14336), _config("128x256", 4)),
]


def _operands(m: int, n: int, k: int, dtype: Any) -> tuple[Any, Any]:
    torch.manual_seed(m + n + k)
    a = torch.randn(m, k, device="cuda").to(dtype)
    return a, torch.randn(n, k, device="cuda").to(dtype).T


def _needs(m: int, n: int, k: int, config: str) -> None:
    """A GPU with these multiprocessors, for which the configurations above are valid."""
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("WGMMA is of sm_90")
    a = dlblas.Spec((m, k), "bf16", device="cuda")
    b = dlblas.Spec((k, n), "bf16", strides=(1, k), device="cuda")
    with dlblas.pinned("matmul", "cuda_wgmma", config):
        try:
            dlblas.warmup("matmul", a, b)
        except dlblas.errors.UnsupportedError as refusal:
            if torch.cuda.get_device_properties(0).multi_processor_count == 132:
                raise
            pytest.skip(str(refusal))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(("sizes", "config"), CASES, ids=str)
def test_streamed_products_are_right_and_repeat(sizes: Any, config: str, dtype: Any) -> None:
    _needs(*sizes, config)
    a, b = _operands(*sizes, dtype)
    with dlblas.pinned("matmul", "cuda_wgmma", config):
        y = dlblas.matmul(a, b)
        torch.testing.assert_close(y.double(), a.double() @ b.double(), rtol=2e-2, atol=0.3)
        verdict = dlblas.verify("matmul", (a, b), y)
        assert verdict.ok, verdict
        for _ in range(RUNS):
            for size in (18, 20, 22, 24):  # other contents of the workspace
                torch.randn(1 << size, device="cuda")
            assert torch.equal(dlblas.matmul(a, b), y)


@pytest.mark.gpu
@pytest.mark.parametrize(("sizes", "config"), CASES, ids=str)
def test_streamed_products_repeat_in_a_graph(sizes: Any, config: str) -> None:
    _needs(*sizes, config)
    a, b = _operands(*sizes, torch.bfloat16)
    with dlblas.pinned("matmul", "cuda_wgmma", config):
        y = dlblas.matmul(a, b)
        out, more = torch.empty_like(y), torch.empty_like(y)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            dlblas.matmul(a, b, out=out)
            dlblas.matmul(a, b, out=more)  # in the place of the first
    for _ in range(RUNS):
        out.zero_(), more.zero_()
        graph.replay()
        assert torch.equal(out, y) and torch.equal(more, y)
    a.copy_(a.flip(0))
    graph.replay()
    with dlblas.pinned("matmul", "cuda_wgmma", config):
        assert torch.equal(out, dlblas.matmul(a, b)) and torch.equal(more, out)


@pytest.mark.gpu
@pytest.mark.parametrize("activation", ["", "gelu"])
def test_streamed_products_of_other_operands(activation: str) -> None:
    """A bias and a function; a result in f32; b along N."""
    sizes = 1000, 1000, 4096
    config = _config("128x128", 6)
    _needs(*sizes, config)
    a, b = _operands(*sizes, torch.bfloat16)
    bias = torch.randn(sizes[1], device="cuda", dtype=torch.bfloat16)
    with dlblas.pinned("matmul", "cuda_wgmma", config):
        for right in (b, b.contiguous()):
            for dtype in ("bf16", "f32"):
                call = {"activation": activation or None, "bias": bias, "out_dtype": dtype}
                y = dlblas.matmul(a, right, **call)
                verdict = dlblas.verify("matmul", (a, right), y, call)
                assert verdict.ok, verdict
                assert torch.equal(dlblas.matmul(a, right, **call), y)


@pytest.mark.gpu
def test_streamed_products_end_beside_each_other() -> None:
    """Two kernels that each want the whole device, on two streams: neither waits for ever."""
    sizes, config = CASES[2]
    _needs(*sizes, config)
    a, b = _operands(*sizes, torch.bfloat16)
    with dlblas.pinned("matmul", "cuda_wgmma", config):
        y = dlblas.matmul(a, b)
        streams = [torch.cuda.Stream() for _ in range(2)]
        outs = [torch.empty_like(y) for _ in streams]
        torch.cuda.synchronize()
        for _ in range(RUNS):
            for stream, out in zip(streams, outs, strict=True):
                with torch.cuda.stream(stream):
                    dlblas.matmul(a, b, out=out)
        torch.cuda.synchronize()
    assert all(torch.equal(out, y) for out in outs)


def _reason(m: int, n: int, k: int, config: str) -> str:
    """Why an H200 does not take a configuration; "" if it does."""
    a = torch.empty(m, k, dtype=torch.bfloat16)
    b = torch.empty(n, k, dtype=torch.bfloat16).T
    with dlblas.pinned("matmul", "cuda_wgmma", config):
        told = dlblas.explain("matmul", a, b, device="sm_90a").as_dict()
    assert "error" in told or told["config"] == config
    return str(told.get("error", ""))


@pytest.mark.parametrize(("sizes", "config"), CASES, ids=str)
def test_these_configurations_are_offered(sizes: Any, config: str) -> None:
    assert _reason(*sizes, config) == ""


@pytest.mark.parametrize(
    ("sizes", "config"),
    [
        ((4096, 4096, 4096), _config("128x256", 4)),  # 512 tiles: the last wave is nearly full
        ((4096, 4224, 4096), _config("128x128", 6)),  # 8 full waves
        ((1000, 1000, 192), _config("128x128", 3)),  # parts of K would be short
        ((16384, 16384, 512), _config("128x128", 6)),  # many waves
    ],
    ids=str,
)
def test_where_little_is_gained_it_is_not_offered(sizes: Any, config: str) -> None:
    assert "stream_is_useful" in _reason(*sizes, config)
