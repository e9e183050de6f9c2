"""The order of imports: torch before dlblas, after it, hidden, too old, without CUDA's shims; and
processes that fork. Each case runs in its own process.

Read next: python/dlblas/torch/_register.py, bindings/torch/shims.cpp.
"""

from __future__ import annotations

import itertools
import os
import pathlib
import random
import shutil
import subprocess
import sys
import textwrap

import dlblas
import pytest
from depth import depth_of

pytest.importorskip("torch")

PACKAGE = str(pathlib.Path(dlblas.__file__).parent.parent)


def child(code: str, **env: str) -> str:
    """Runs a program and returns what it prints."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": PACKAGE, **env},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


USE = """
x, w = torch.randn(4, 64), torch.randn(64)
expected = torch.nn.functional.rms_norm(x, (64,), w, 1e-6)
torch.testing.assert_close(dlblas.rms_norm(x, w), expected, rtol=1e-4, atol=1e-4)
torch.testing.assert_close(torch.ops.dlblas.rms_norm(x, w), expected, rtol=1e-4, atol=1e-4)
print("used")
"""


@pytest.mark.parametrize(
    "imports",
    [
        "import torch, dlblas",
        "import dlblas, torch",
        "import dlblas, torch; import dlblas.torch",
        "import dlblas.torch, torch",
        "from dlblas import torch as ours; import dlblas, torch",
    ],
)
def test_every_order_of_imports(imports):
    assert child(imports + "\n" + USE) == "used"


@pytest.mark.parametrize(
    "imports",
    [
        "import torch, dlblas",
        "import dlblas, torch",
        "import dlblas, importlib.util; importlib.util.find_spec('torch'); import torch",
        "import dlblas, torch.nn; import torch",
    ],
)
def test_ops_are_there_as_soon_as_both_are_imported(imports):
    code = f"{imports}; print(torch.ops.dlblas.rms_norm.default._schema)"
    assert child(code).startswith("dlblas::rms_norm(Tensor x, Tensor? weight=None, float eps=")


def test_a_late_torch_whose_first_import_fails(tmp_path):
    """The second import, which succeeds, is still watched."""
    (tmp_path / "torch.py").write_text("raise RuntimeError('not yet')\n")
    code = f"""
        import dlblas, sys
        sys.path.insert(0, {str(tmp_path)!r})
        try:
            import torch
        except RuntimeError as reason:
            print(reason)
        sys.path.pop(0)
        sys.path_importer_cache.clear()
        import torch
        print(torch.ops.dlblas.rms_norm.default._schema.name)
    """
    assert child(code).splitlines() == ["not yet", "dlblas::rms_norm"]


def test_a_late_torch_that_fails_to_register_is_imported_where_warnings_are_errors():
    code = """
        import dlblas, dlblas._torch_bridge, warnings
        def fails():
            raise RuntimeError("on purpose")
        dlblas._torch_bridge.attach_torch = fails
        warnings.simplefilter("error", UserWarning)
        import torch
        print(torch.ones(2).sum().item())
    """
    assert child(code) == "2.0"


def test_other_threads_import_while_torch_arrives(tmp_path):
    """They iterate over sys.meta_path: nothing may be removed from it."""
    for i in range(400):
        (tmp_path / f"one_of_many_{i}.py").write_text("")
    (tmp_path / "torch.py").write_text("import time; time.sleep(0.02)")
    code = f"""
        import importlib, sys, threading
        sys.path.insert(0, {str(tmp_path)!r})
        import dlblas._after_import
        failures = []
        def work(seed):
            for i in range(seed, 400, 8):
                try:
                    importlib.import_module(f"one_of_many_{{i}}")
                except ImportError as reason:
                    failures.append(str(reason))
        for turn in range(20):
            sys.modules.pop("torch", None)
            for i in range(400): sys.modules.pop(f"one_of_many_{{i}}", None)
            dlblas._after_import.after_import("torch", lambda: None)
            threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
            for t in threads: t.start()
            import torch
            for t in threads: t.join()
        print(failures)
    """
    assert child(code) == "[]"


def test_a_late_torch_that_fails_to_register_is_imported_all_the_same():
    code = """
        import dlblas, dlblas._torch_bridge
        def fails():
            raise RuntimeError("on purpose")
        dlblas._torch_bridge.attach_torch = fails
        import warnings
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            import torch
        print(torch.ones(2).sum().item())
        print([str(w.message) for w in told if "dlblas" in str(w.message)])
    """
    text = "dlblas: torch has no operators of dlblas: RuntimeError('on purpose')"
    assert child(code) == f'2.0\n["{text}"]'


def test_the_first_call_is_already_torchs():
    """Even the call that registers the operators has autograd, and fakes."""
    code = """
        import dlblas, torch
        x, w = torch.randn(4, 64, requires_grad=True), torch.randn(64)
        y = dlblas.rms_norm(x, w)
        y.sum().backward()
        print(x.grad.shape == x.shape)
    """
    assert child(code) == "True"


TRACED = (
    "lambda x: dlblas.rms_norm(x, w)", "dlblas.nn.RMSNorm(8)", "lambda x: ops.rms_norm(x, w)",
)  # fmt: skip
IMPORTS = (
    "import torch, dlblas",
    "import torch, torch._dynamo, dlblas",
    "import dlblas, torch",
    "import dlblas, torch._dynamo",
    "import dlblas.nn, torch",
    "import dlblas.torch, torch",
)


def pairs() -> list[tuple[str, str]]:
    """What is traced after which imports: all, or each call once and half of the imports, by the
    seed (6 s per pair)."""
    depth = depth_of()
    if depth.full:
        return list(itertools.product(TRACED, IMPORTS))
    return list(zip(TRACED, random.Random(depth.seed).sample(IMPORTS, len(TRACED)), strict=True))


@pytest.mark.parametrize(("first", "imports"), pairs())
def test_the_tracer_is_imported_late_and_early(first: str, imports: str) -> None:
    """Nothing of dlblas has run before: the first call is the compiled one."""
    traced = f"""
        ops, w = torch.ops.dlblas, torch.ones(8)
        f = torch.compile({first}, fullgraph=True, backend="eager")
        print(f(torch.randn(3, 8)).shape[0])
    """
    assert child(imports + "\n" + textwrap.dedent(traced)) == "3"


def test_registering_does_not_import_the_tracer():
    code = "import sys, torch, dlblas; print('torch._dynamo' in sys.modules)"
    assert child(code) == "False"


def test_hidden_torch():
    code = """
        import sys
        sys.modules["torch"] = None  # as if it were not installed
        import dlblas, numpy
        print(dlblas.rms_norm(numpy.ones((2, 8), "f4"), numpy.ones(8, "f4")).shape)
        try:
            import dlblas.torch
        except ImportError as reason:
            print("torch" in str(reason))
    """
    assert child(code).splitlines() == ["(2, 8)", "True"]


@pytest.fixture
def stub(tmp_path):
    """stub(name): a folder with a library of that name, for DLBLAS_LIBS to find first."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here")

    def make(name: str) -> str:
        source = tmp_path / "stub.c"
        source.write_text("int dlblas_test_stub;\n")
        library = str(tmp_path / name)
        subprocess.run([compiler, "-shared", "-fPIC", str(source), "-o", library], check=True)
        return str(tmp_path)

    return make


def test_torch_without_cuda_shims(stub):
    """Stands for a CPU-only torch: libtorch_cuda.so is found, but lacks the requested functions."""
    code = "import torch, dlblas" + USE
    assert child(code, DLBLAS_LIBS=stub("libtorch_cuda.so")) == "used"


@pytest.mark.gpu
def test_cuda_tensors_without_cuda_shims(stub):
    code = """
        import torch, dlblas
        x = torch.ones(4, 64, device="cuda")
        try:
            dlblas.rms_norm(x, x[0])
        except dlblas.errors.DeviceError as reason:
            print(reason)
    """
    assert "torch's CUDA functions cannot be found" in child(
        code, DLBLAS_LIBS=stub("libtorch_cuda.so")
    )


def test_a_torch_that_is_too_old_leaves_its_tensors_to_dlpack(stub):
    """A libtorch_cpu.so without 2.10's functions: dlblas.torch is refused in words, calls work."""
    code = """
        import torch, dlblas
        x, w = torch.randn(4, 64), torch.randn(64)
        expected = torch.nn.functional.rms_norm(x, (64,), w, 1e-6)
        torch.testing.assert_close(dlblas.rms_norm(x, w), expected, rtol=1e-4, atol=1e-4)
        try:
            import dlblas.torch
        except dlblas.errors.UnsupportedError as reason:
            print(reason)
    """
    text = child(code, DLBLAS_LIBS=stub("libtorch_cpu.so"))
    assert "expected torch 2.10 or later" in text
    assert "libtorch_cpu.so lacks aoti_torch_get_dim" in text


def test_a_forked_child_goes_on_alone():
    """torch's thread pool hangs in a forked child: the kernel there runs on one thread."""
    code = """
        import os, signal, numpy, torch, dlblas
        x, w = torch.randn(4096, 512), torch.randn(512)
        expected = dlblas.rms_norm(x, w).numpy()
        torch.mm(x, x.T)  # torch's threads are there
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            ours = (dlblas.rms_norm(x, w), torch.ops.dlblas.rms_norm(x, w))
            # NumPy compares: torch.equal itself would wait for torch's threads.
            os._exit(0 if all(numpy.array_equal(y.numpy(), expected) for y in ours) else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert child(code) == "0"


def test_calls_at_exit_in_both_orders():
    for imports in ("import torch, dlblas", "import dlblas, torch"):
        code = f"""
            import atexit
            {imports}
            x, w = torch.randn(4, 64), torch.randn(64)
            dlblas.rms_norm(x, w)
            atexit.register(lambda: print(tuple(dlblas.rms_norm(x, w).shape)))
        """
        assert child(code) == "(4, 64)"


def test_threads_call_at_once():
    code = """
        import threading, dlblas, torch
        w = torch.randn(512)
        failures = []
        start = threading.Barrier(8)
        def work(seed):
            x = torch.randn(64 + seed, 512)
            start.wait()  # the first call, which registers, is made by all
            for _ in range(200):
                y = dlblas.rms_norm(x, w)
                expected = torch.nn.functional.rms_norm(x, (512,), w, 1e-6)
                if not torch.allclose(y, expected, atol=1e-4):
                    failures.append(seed)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for t in threads: t.start()
        for t in threads: t.join()
        print(failures)
    """
    assert child(code) == "[]"
