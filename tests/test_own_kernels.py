"""Kernels as implementations: checks without a GPU (binding, spaces, launches, hashes) and with
one (results, tuning, capture). Read next: python/dlblas/own/_triton.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import dlblas
import pytest
from dlblas import _native
from dlblas.errors import ArgumentError

OP = "rms_norm"
TEXT = """
extern "C" __global__ void rows(own::y* y, const own::x* x, const own::weight* w, long T, long C,
                                float eps, float offset, bool cast) {
  __shared__ float parts[BLOCK];
  x += blockIdx.x * C, y += blockIdx.x * C;
  float sum = 0;
  for (long i = threadIdx.x; i < C; i += BLOCK) sum += float(x[i]) * float(x[i]);
  parts[threadIdx.x] = sum;
  for (int n = BLOCK / 2; n > 0; n /= 2) {
    __syncthreads();
    if (threadIdx.x < n) parts[threadIdx.x] += parts[threadIdx.x + n];
  }
  __syncthreads();
  const float r = rsqrtf(parts[0] / C + eps);
  for (long i = threadIdx.x; i < C; i += BLOCK) y[i] = float(x[i]) * r * (float(w[i]) + offset);
}
"""


def user_rows() -> dict[str, dict[str, Any]]:
    row = _native.operator_row(OP)
    return {i["name"]: i for i in row["implementations"] if i["user"]}


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    before = set(user_rows())
    yield
    for name in set(user_rows()) - before:
        dlblas.unregister(OP, name)


def no_cast(problem: dlblas.own.Problem) -> str | None:
    return "rounds once" if problem.scalars["cast_before_weight"] else None


def test_text_is_listed_and_hashed() -> None:
    def put(text: str, **more: Any) -> str:
        dlblas.register(
            OP, "text", text, grid="T", block="BLOCK", space={"BLOCK": [128, 256]}, **more
        )
        row = user_rows()["text"]
        assert row["backend"] == "cuda" and row["knobs"][0]["name"] == "BLOCK"
        return str(row["source_hash"])

    first = put(TEXT)
    assert put(TEXT) == first
    assert put(TEXT + "// changed\n") != first
    assert put(TEXT, version="2") != first
    assert put(TEXT, smem="BLOCK * 4") != first


KERNEL = "__global__ void k(float* y) { int a[2] = {f(1), 2}; }\n"


@pytest.mark.parametrize(
    "text",
    [
        KERNEL,
        KERNEL.replace("void", "__launch_bounds__(BLOCK, min(2, 3)) void"),
        KERNEL.replace("void", "void __launch_bounds__(BLOCK, (2))"),
        KERNEL.replace("void", "inline void"),
        KERNEL.replace("__global__ void", "void __global__"),
        KERNEL.replace("__global__", 'extern "C" __global__ BOUNDS(4)'),
        "__global__ void k(float* y);\n" + KERNEL,
        "// __global__ void old(\n" + KERNEL,
        "/* __global__ void old(int a) {} */" + KERNEL + "// \\\n __global__ void old(",
        'const char* s = "__global__ void \\"old(";' + KERNEL,
        'const char* s = R"x(" __global__ void old()x";' + KERNEL + "char c = '\"';",
    ],
)
def test_the_one_kernel_of_a_text_is_found(text: str) -> None:
    from dlblas.own import _cuda

    assert _cuda.entry_of(OP, text, None) == "k"
    with pytest.raises(ArgumentError, match="a __global__ function of it: k, got 'old'"):
        _cuda.entry_of(OP, text, "old")


def test_a_named_kernel_may_come_from_elsewhere() -> None:
    from dlblas.own import _cuda

    for text, entry in (
        ("namespace n { template <int N> __global__ void k() {} }", "n::k<4>"),
        ('#include "device/vec.cuh"\n', "k"),
        ("#define MAKE(n) __global__ void k_##n() {}\nMAKE(1)", "k_1"),
    ):
        assert _cuda.entry_of(OP, text, entry) == entry


@pytest.mark.parametrize(
    ("change", "argument", "words"),
    [
        ({"grid": ""}, "grid", "has an empty expression"),
        ({"grid": ("T", " ")}, "grid", "has an empty expression"),
        ({"block": ""}, "block", "has an empty expression"),
        ({"grid": -1}, "grid", "is out of range"),
        ({"grid": "T/0"}, "grid", "expected a divisor other than 0"),
        ({"block": 2000}, "block", "is out of range; expected 1 to 1024"),
        ({"entry": "nope"}, "entry", "is not in the text"),
        ({"entry": "k;"}, "entry", "is not in the text"),
        ({"fn": KERNEL + "\0"}, "fn", "holds a NUL character"),
        ({"grid": "T\0+"}, "grid", "holds a NUL character"),
    ],
)
def test_what_no_launch_could_do_is_refused(
    change: dict[str, Any], argument: str, words: str
) -> None:
    given: dict[str, Any] = {"fn": KERNEL, "grid": "T", **change}
    with pytest.raises(ArgumentError) as caught:
        dlblas.register(OP, "text", **given)
    assert caught.value.argument == argument and words in str(caught.value), str(caught.value)


class FakeKernel:
    """The attributes of a Triton kernel that ``register`` reads."""

    arg_names = ("x_ptr", "weight", "y", "eps", "weight_offset", "C", "BLOCK")
    src = "def row(): ..."
    cache_key = "abc"

    def __init__(self) -> None:
        self.launches: list[tuple[Any, dict[str, Any]]] = []

    def __getitem__(self, grid: Any) -> Any:
        return lambda **kwargs: self.launches.append((grid, kwargs))


FakeKernel.__module__ = "triton.runtime.jit"


class FakeConfig:
    def __init__(self, kwargs: dict[str, Any], num_warps: int) -> None:
        self.kwargs, self.num_warps, self.num_stages = kwargs, num_warps, 3


class FakeAutotuner(FakeKernel):
    def __init__(self) -> None:
        super().__init__()
        self.fn = FakeKernel()
        self.configs = [FakeConfig({"BLOCK": 1024}, 4), FakeConfig({"BLOCK": 2048}, 8)]


FakeAutotuner.__module__ = "triton.runtime.autotuner"


class Heuristics:
    """Like Triton's: it has no text of its own and wraps a kernel."""

    arg_names = FakeKernel.arg_names

    def __init__(self, fn: Any, values: dict[str, Any]) -> None:
        self.fn, self.values = fn, values

    def __getitem__(self, grid: Any) -> Any:
        return self.fn[grid]


Heuristics.__module__ = "triton.runtime.autotuner"


def test_a_kernels_arguments_and_grid() -> None:
    from dlblas.own import _triton
    from dlblas.own._problem import operator
    from dlblas.own._space import read_space

    kernel, op = FakeKernel(), operator(OP)
    knobs = read_space(OP, {"BLOCK": [64], "num_warps": [4]})
    signature, theirs = _triton.bind(op, kernel, knobs)
    assert theirs["x"] == "x_ptr" and signature.untaken == ("cast_before_weight",)
    launch = _triton.call_of(op, kernel, theirs, lambda meta: (meta["T"], meta["BLOCK"]))
    given = {"x": "X", "weight": "W", "y": "Y", "eps": 1e-6, "weight_offset": 0.0}
    launch(**given, T=7, C=32, BLOCK=64, num_warps=4)
    ((grid, kwargs),) = kernel.launches
    assert grid == (7, 64)
    assert kwargs == {
        "x_ptr": "X", "weight": "W", "y": "Y", "eps": 1e-6, "weight_offset": 0.0,
        "C": 32, "BLOCK": 64, "num_warps": 4,
    }  # fmt: skip


def test_a_kernel_is_registered_and_its_autotune_is_the_space() -> None:
    dlblas.register(OP, "fake", FakeKernel(), grid=(1,), space={"BLOCK": [64, 128]})
    dlblas.register(OP, "tuned", FakeAutotuner(), grid=(1,))
    rows = user_rows()
    assert rows["fake"]["backend"] == "cuda" and not rows["fake"]["capturable"]
    assert {k["name"]: k["values"] for k in rows["tuned"]["knobs"]} == {
        "BLOCK": [1024, 2048], "num_warps": [4, 8], "num_stages": [3],
    }  # fmt: skip


def test_the_grid_and_heuristics_are_part_of_a_kernels_hash() -> None:
    def put(grid: Any, warps: int = 4) -> str:
        kernel = FakeKernel()
        kernel = Heuristics(kernel, {"num_warps": lambda args: warps}) if warps > 4 else kernel
        dlblas.register(OP, "fake", kernel, grid=grid, space={"BLOCK": [64]})
        return str(user_rows()["fake"]["source_hash"])

    told = [put(grid) for grid in ((1,), [1], (2,), lambda meta: (meta["T"],))]
    told += [put((1,), warps) for warps in (8, 8, 16)]
    assert told[0] == told[1] and told[4] == told[5]
    assert len(set(told)) == 5


def test_a_real_triton_kernel_is_recognised() -> None:
    triton = pytest.importorskip("triton")
    tl = triton.language

    def row(x, weight, y, eps, weight_offset, C, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803
        pass

    row.__globals__["tl"] = tl
    try:
        kernel = triton.jit(row)
    except Exception as reason:  # Triton that finds no driver
        pytest.skip(str(reason))
    dlblas.register(OP, "row", kernel, grid=(1,), space={"BLOCK": [64]})
    assert user_rows()["row"]["backend"] == "cuda"


@pytest.mark.parametrize(
    ("change", "argument", "words"),
    [
        ({"grid": None}, "grid", "is missing"),
        ({"grid": "T"}, "grid", "has the wrong type"),
        ({"devices": "cpu"}, "devices", "does not fit a Triton kernel"),
        ({"space": {}}, "fn", "takes an argument that is not there"),
        ({"space": {"BLOCK": [1], "OTHER": [1]}}, "fn", "does not take OTHER"),
    ],
)
def test_errors_name_the_argument(change: dict[str, Any], argument: str, words: str) -> None:
    given: dict[str, Any] = {"grid": (1,), "space": {"BLOCK": [64]}, **change}
    with pytest.raises(ArgumentError) as caught:
        dlblas.register(OP, "fake", FakeKernel(), **given)
    assert caught.value.argument == argument and words in str(caught.value)


def on_gpu(dtype: str = "bfloat16", rows: int = 300, columns: int = 1000) -> tuple[Any, Any]:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    kind = getattr(torch, dtype)
    x = torch.randn(rows, columns, device="cuda", dtype=kind)
    return x, torch.randn(columns, device="cuda", dtype=kind)


def put_text(name: str = "text", text: str = TEXT) -> None:
    dlblas.register(
        OP, name, text, grid="T", block="BLOCK", space={"BLOCK": [128, 256]}, supports=no_cast,
        deterministic=True, capturable=True,
    )  # fmt: skip


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_text_runs_and_is_tuned(dtype: str) -> None:
    put_text()
    x, w = on_gpu(dtype)
    with dlblas.pinned(OP, "text"):
        y = dlblas.rms_norm(x, w, weight_offset=0.5)
    assert dlblas.verify(OP, (x, w), y, {"weight_offset": 0.5}).ok
    report = dlblas.tune(OP, (x, w), seconds=3, implementations=["text"])
    assert report["winner"]["implementation"] == "text", report
    assert dlblas.explain(OP, x.t(), x[:, 0]).as_dict()["implementation"] != "text"


@pytest.mark.gpu
def test_wrong_text_never_wins_and_a_bad_grid_is_a_launch_error() -> None:
    put_text("wrong", TEXT.replace("* r *", "* r * 1.01f *"))
    dlblas.register(
        OP, "empty", TEXT, grid="T - T", block="BLOCK", space={"BLOCK": [128]}, supports=no_cast
    )
    x, w = on_gpu(rows=200)
    report = dlblas.tune(OP, (x, w), seconds=4)
    assert report["winner"]["implementation"] not in ("wrong", "empty")
    rows = {r["implementation"]: r for r in dlblas.explain(OP, x, w).as_dict()["candidates"]}
    assert rows["wrong"]["failure"] == "wrong_result"
    assert rows["empty"]["failure"] == "launch_error"
    with dlblas.pinned(OP, "empty"), pytest.raises(dlblas.errors.LaunchError):
        dlblas.rms_norm(x, w)


@pytest.mark.gpu
def test_text_is_captured_and_replayed() -> None:
    torch = pytest.importorskip("torch")
    put_text()
    x, w = on_gpu()
    y = torch.empty_like(x)
    with dlblas.pinned(OP, "text"):
        dlblas.warmup(OP, x, w)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            dlblas.rms_norm(x, w, out=y)
    y.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert dlblas.verify(OP, (x, w), y).ok


@pytest.mark.gpu
def test_a_torch_function_on_a_gpu_runs_on_the_calls_stream() -> None:
    torch = pytest.importorskip("torch")
    streams: list[int] = []

    def by_torch(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
        streams.append(torch.cuda.current_stream().cuda_stream)
        f = x.float()
        f = f * torch.rsqrt(f.square().mean(-1, keepdim=True) + eps)
        y.copy_(f * (weight.float() + weight_offset))

    dlblas.register(OP, "by_torch", by_torch, devices="cuda")
    x, w = on_gpu()
    side = torch.cuda.Stream()
    with dlblas.pinned(OP, "by_torch"):
        y = dlblas.rms_norm(x, w)
        assert streams == [torch.cuda.current_stream().cuda_stream]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            dlblas.rms_norm(x, w)
        assert streams[-1] == side.cuda_stream
    torch.cuda.synchronize()
    assert dlblas.verify(OP, (x, w), y).ok
    report = dlblas.tune(OP, (x, w), seconds=3, implementations=["by_torch"])
    assert report["winner"]["implementation"] == "by_torch"


@pytest.mark.gpu
def test_a_static_graph_kept_by_address_never_wins() -> None:
    torch = pytest.importorskip("torch")
    packed: dict[Any, Any] = {}

    def packs_once(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
        key = x.data_ptr(), weight.data_ptr(), x.shape
        if key not in packed:
            f = x.float()
            f = f * torch.rsqrt(f.square().mean(-1, keepdim=True) + eps)
            packed[key] = (f * (weight.float() + weight_offset)).to(y.dtype)
        y.copy_(packed[key])

    dlblas.register(OP, "packs_once", packs_once, devices="cuda")
    x, w = on_gpu()
    report = dlblas.tune(OP, (x, w), seconds=3)
    assert report["winner"]["implementation"] != "packs_once"
    rows = {row["implementation"]: row for row in report["evaluated"]}
    assert rows["packs_once"]["failure"] == "wrong_result"
    assert "the first call's result for other values" in rows["packs_once"]["note"]


@pytest.mark.skipif(not dlblas.info()["cuda"]["nvrtc"], reason="no NVRTC")
def test_text_that_cannot_compile_is_refused_with_its_line() -> None:
    def put(text: str, **more: Any) -> None:
        dlblas.register(
            OP, "text", text, grid="T", block="BLOCK", space={"BLOCK": [128, 256]}, **more
        )

    line = TEXT.splitlines().index("  float sum = 0;") + 1
    for wrong, words in (
        (TEXT.replace("float sum = 0;", "float sum = O;"), f'line {line}: error: identifier "O"'),
        (TEXT.replace("float sum = 0;", "float sum = 0"), "error: expected a"),
        ("#include <cuda_fp16.h>\n" + TEXT, "line 1: "),
    ):
        with pytest.raises(dlblas.errors.CompileError, match=re.escape(words)) as raised:
            put(wrong)
        assert "text: " in str(raised.value) and "text" not in user_rows()
    # A text may compile for some dtypes or knobs only: the user says which by supports and where.
    some = TEXT.replace("float sum = 0;", "float sum = 0; static_assert(sizeof(own::x) == 2);")
    put(some)
    put(TEXT.replace("float sum = 0;", "float sum = 0; static_assert(BLOCK == 256);"))
