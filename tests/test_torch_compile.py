"""torch.compile, torch.export and CUDA graphs around the functions of dlblas.

The same file runs on a GPU with -m gpu. Read next: python/dlblas/torch/_compile.py, _fakes.py.
"""

from __future__ import annotations

import dlblas
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("dlblas.torch")  # the tracer must know the functions before it meets one

DEVICES = [pytest.param("cpu", id="cpu"), pytest.param("cuda", id="cuda", marks=pytest.mark.gpu)]


@pytest.fixture(params=DEVICES)
def xw(request):
    torch.manual_seed(3)
    return torch.randn(6, 48, device=request.param), torch.randn(48, device=request.param)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_compile_follows_the_functions_of_dlblas(xw, backend):
    x, w = xw

    def model(x, w):
        y, h = dlblas.add_rms_norm(x * 2, w, residual=x, eps=1e-5)
        dlblas.rms_norm_(h, w)
        out = torch.empty_like(y)
        dlblas.rms_norm(y, w, out=out)
        return out + h, dlblas.matmul(y, w.expand(4, 48).T, "relu", out_dtype="bf16")

    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=backend)
    for rows in (6, 3, 11):
        x = torch.randn(rows, 48, device=x.device)
        for ours, theirs in zip(compiled(x, w), model(x, w), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-2, atol=1e-2)


def test_compile_reports_wrong_shapes(xw):
    x, w = xw
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, w: dlblas.rms_norm(x, w), fullgraph=True, backend="eager")
    with pytest.raises(Exception, match="weight does not fit"):
        compiled(x, w[:3])


@pytest.mark.parametrize("strict", [False, True])
def test_export(xw, strict):
    x, w = xw

    class Norm(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(w)

        def forward(self, x):
            return dlblas.rms_norm(x, self.weight)

    rows = torch.export.Dim("rows")
    exported = torch.export.export(Norm(), (x,), dynamic_shapes=({0: rows},), strict=strict)
    assert "torch.ops.dlblas.rms_norm.default" in exported.graph_module.code
    other = torch.randn(9, 48, device=x.device)
    torch.testing.assert_close(exported.module()(other), dlblas.rms_norm(other, w))


def test_fake_tensors_get_fake_results():
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    with FakeTensorMode():
        x, w = torch.empty(4, 48), torch.empty(48)
        assert isinstance(dlblas.rms_norm(x, w), FakeTensor)
    meta = dlblas.rms_norm(torch.empty(4, 48, device="meta"), torch.empty(48, device="meta"))
    assert meta.is_meta and meta.shape == (4, 48)


def test_subclasses_go_through_torch():
    class Tagged(torch.Tensor):
        pass

    x = torch.randn(3, 48).as_subclass(Tagged)
    assert type(dlblas.rms_norm(x, torch.ones(48))) is Tagged


@pytest.mark.gpu
@pytest.mark.parametrize("form", ["dlblas", "ops", "out", "inplace"])
def test_capture_and_replay(form):
    x, w = torch.randn(64, 4096, device="cuda"), torch.randn(4096, device="cuda")
    y = torch.empty_like(x)
    calls = {
        "dlblas": lambda: y.copy_(dlblas.rms_norm(x, w)),
        "ops": lambda: y.copy_(torch.ops.dlblas.rms_norm(x, w)),
        "out": lambda: torch.ops.dlblas.rms_norm_out(x, w, y),
        "inplace": lambda: (y.copy_(x), dlblas.rms_norm_(y, w)),
    }
    calls[form]()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        calls[form]()
    for _ in range(100):
        x.normal_()
        graph.replay()
        torch.testing.assert_close(y, dlblas.rms_norm(x, w))
