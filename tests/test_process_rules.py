"""What holds in a process that forks, ends, runs many threads, streams and devices, or lacks torch.

One test per rule of "Threads and processes" in docs/architecture.md. A test that needs a fresh
process runs a child with a deadline, since the failure looked for is often a hang. NumPy and
oneDNN after a fork are in test_fork.py, locks and callbacks in tests/cpp/test_callbacks.cpp,
capture in test_gpu_capture.py. Read next: src/core/fork.hpp.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import sys
import threading
from typing import Any

import dlblas
import pytest

PACKAGE = pathlib.Path(dlblas.__file__).parent.parent
GPU = [pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(params=["cpu", *GPU])
def device(request: pytest.FixtureRequest) -> str:
    torch = pytest.importorskip("torch")
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return str(request.param)


def child(program: str, tmp_path: pathlib.Path, *args: str, **env: str) -> str:
    """Runs a program; it must exit by itself with status 0 and an empty standard error."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, *args],
        env={**os.environ, "PYTHONPATH": str(PACKAGE), "DLBLAS_CACHE": str(tmp_path), **env},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


# ---- fork ---------------------------------------------------------------------------------------

FORKED = """
import os, signal, sys
import torch
import dlblas

device = sys.argv[1]
torch.set_num_threads(2)
torch.manual_seed(7)

def work(device, backward=True):
    x = torch.randn(512, 1024, device=device, requires_grad=True)
    w = torch.randn(1024, device=device, requires_grad=True)
    y, h = dlblas.add_rms_norm(x, w, x * 2)
    with torch.no_grad():
        z = torch.ops.dlblas.matmul(y, dlblas.rms_norm(h, w).t())
    if backward:
        (y.sum() + h.sum()).backward()
    return [t.detach().clone() for t in (y, h, z, x.grad, w.grad) if t is not None]

def in_child(body):
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)  # a wait for ever ends by a signal
        try:
            body()
        except BaseException as error:
            print(type(error).__name__, error, flush=True)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

torch.ones(1 << 21).sin()  # torch's pool has threads now, and its child will not
work(device)
torch.manual_seed(7)
expected = work("cpu")

def cpu():
    torch.set_num_threads(1)  # torch's own operators would wait for threads that are not there
    torch.manual_seed(7)
    # backward() is refused by torch itself once autograd has had threads for a GPU.
    results = work("cpu", backward=device == "cpu")
    assert len(results) == (5 if device == "cpu" else 3)
    for a, b in zip(results, expected, strict=False):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-3)
    x = torch.randn(4096, 512)
    assert "; 1 thread\\n" in str(dlblas.explain("rms_norm", x, x[0]))

def grandchild():
    cpu()
    assert in_child(cpu) == 0

def cuda():
    try:
        dlblas.rms_norm(there, weight)
    except (dlblas.errors.DeviceError, dlblas.errors.LaunchError) as error:
        assert "fork" in str(error), error
    else:
        raise AssertionError("CUDA worked in a forked child")
    cpu()

if device == "cuda":
    there, weight = torch.randn(512, 1024, device=device), torch.ones(1024, device=device)
    dlblas.rms_norm(there, weight)
print([in_child(body) for body in (cpu, grandchild, *([cuda] if device == "cuda" else []))])
torch.manual_seed(7)
for a, b in zip(work("cpu"), expected, strict=True):  # the parent goes on as before
    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-3)
work(device)
"""


def test_a_forked_child_goes_on_with_torch_tensors(device: str, tmp_path: pathlib.Path) -> None:
    """CPU calls run on one thread, with gradients where torch has them; CUDA is refused by name."""
    assert child(FORKED, tmp_path, device).strip() == str([0] * (3 if device == "cuda" else 2))


# ---- the end of a process -----------------------------------------------------------------------

ENDING = """
import atexit, os, sys

device, order, first_call = sys.argv[1:]

def check(when):
    x = torch.randn(64, 256, device=device)
    w = torch.ones(256, device=device, requires_grad=True)
    y, h = dlblas.add_rms_norm(x, w, x)
    y.sum().backward()
    assert w.grad.any()
    h, gain = h.detach(), w.detach()  # torch takes formulas of operators away before it ends
    torch.testing.assert_close(torch.ops.dlblas.rms_norm(h, gain), y.detach())
    if device == "cpu":
        # A problem that this process has not seen.
        dlblas.rms_norm(torch.randn(3, 77 + len(when)), torch.ones(77 + len(when)))
    print(when, flush=True)

atexit.register(check, "last")  # handlers run in the other order: after those of the imports
for name in order.split(","):
    globals()[name] = __import__(name)
if first_call == "early":
    check("now")
atexit.register(check, "first")

class Late:  # its object is deleted with the module's names, after every handler
    tensors = torch.ones(2, 8, device=device), torch.ones(8, device=device)
    call = staticmethod(dlblas.rms_norm)

    def __del__(self, write=os.write):  # sys.stdout may not be flushed any more
        y = self.call(*self.tensors)
        write(1, b"module" if device != "cpu" or abs(float(y[0, 0]) - 1) < 1e-5 else b"wrong")

late = Late()
"""


@pytest.mark.parametrize("first_call", ["early", "late"])
@pytest.mark.parametrize("order", ["torch,dlblas", "dlblas,torch"])
def test_calls_from_atexit(
    order: str, first_call: str, device: str, tmp_path: pathlib.Path
) -> None:
    """Handlers registered before and after the imports, in both orders; also as the first call."""
    said = child(ENDING, tmp_path, device, order, first_call).split()
    assert said == (["now"] if first_call == "early" else []) + ["first", "last", "module"]


# ---- threads, streams, devices ------------------------------------------------------------------


def expect(x: Any, w: Any) -> Any:
    h = x.double()
    return h * (h.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * w.double()


def each(bodies: list[Any]) -> None:
    """Runs all bodies at once and raises the first failure here."""
    start, failures = threading.Barrier(len(bodies)), []

    def guarded(body: Any) -> None:
        try:
            start.wait()
            body()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def test_threads_times_streams(device: str) -> None:
    """Each thread uses two streams of its own, on problems shared with others and on new ones."""
    torch = pytest.importorskip("torch")
    cuda = device == "cuda"

    def body(seed: int) -> None:
        generator = torch.Generator(device).manual_seed(seed)
        streams = [torch.cuda.Stream() for _ in range(2)] if cuda else [None, None]
        for n in range(30):
            stream = streams[n % 2]
            with torch.cuda.stream(stream) if cuda else contextlib.nullcontext():
                rows, width = 1 + (n * 7 + seed) % 40, 128 if n % 3 else 64 + 8 * (n + 30 * seed)
                x = torch.randn(rows, width, device=device, generator=generator)
                w = torch.randn(width, device=device, generator=generator).requires_grad_()
                y, h = dlblas.add_rms_norm(x, w, x)
                (dw,) = torch.autograd.grad(y.sum(), w)
                if stream is not None:
                    stream.synchronize()
                torch.testing.assert_close(h, x + x)
                value = expect(h, w)
                torch.testing.assert_close(y.double(), value, rtol=1e-4, atol=1e-5)
                torch.testing.assert_close(
                    dw.double(), expect(h, torch.ones_like(w)).sum(0), rtol=1e-3, atol=1e-4
                )

    each([lambda seed=seed: body(seed) for seed in range(6)])


@pytest.mark.gpu
def test_a_call_runs_on_the_current_stream() -> None:
    """After the work already queued on that stream, before what follows, and on no other stream."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    w = torch.ones(4096, device="cuda")
    source = torch.randn(256, 4096, device="cuda")
    right = dlblas.rms_norm(source, w)
    weight = torch.zeros(4096, device="cuda", requires_grad=True)
    (right_dw,) = torch.autograd.grad(dlblas.rms_norm(source, weight).sum(), weight)
    torch.cuda.synchronize()
    for call in (
        lambda x: dlblas.rms_norm(x, w),
        lambda x: torch.ops.dlblas.rms_norm(x, w),
        lambda x: dlblas.rms_norm(x, w, out=torch.empty_like(x)),
        lambda x: torch.autograd.grad(dlblas.rms_norm(x, weight).sum(), weight)[0],
    ):
        call(source)  # warm: nothing is loaded or compiled behind the sleep
        torch.cuda.synchronize()
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            x = torch.full_like(source, float("nan"))
            torch.cuda._sleep(200_000_000)  # about a tenth of a second
            x.copy_(source)
            y = call(x)
            assert not side.query()  # the call did not wait
            x.fill_(float("nan"))
        backward = y.dim() == 1  # torch's engine may let the default stream wait for this one
        assert backward or torch.cuda.default_stream().query()  # and put nothing there
        side.synchronize()
        assert torch.equal(y, right_dw if backward else right)


@pytest.mark.gpu
def test_two_devices_in_one_process() -> None:
    """Kernels, workspaces and gradients follow the tensors, from any thread; the current device
    does not change."""
    torch = pytest.importorskip("torch")
    if torch.cuda.device_count() < 2:
        pytest.skip(f"{torch.cuda.device_count()} CUDA devices; two are needed")
    torch.cuda.set_device(0)

    def body(index: int, rows: int) -> None:
        for n in range(20):
            place = torch.device("cuda", (index + n) % 2)
            x = torch.randn(rows + n, 1024, device=place, requires_grad=True)
            w = torch.randn(1024, device=place)
            y = dlblas.rms_norm(x, w)
            z = dlblas.matmul(y.detach(), y.detach().t())
            (dx,) = torch.autograd.grad(y.sum(), x)
            assert {t.device for t in (y, z, dx)} == {place}
            torch.testing.assert_close(y.double(), expect(x, w), rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(z, y @ y.t(), rtol=1e-2, atol=1e-2)
            assert torch.cuda.current_device() == 0

    body(0, 64)
    body(1, 64)  # the same problems on the other one
    each([lambda i=i: body(i, 32 + i) for i in range(4)])
    x, w = torch.randn(4, 1024, device="cuda:0"), torch.ones(1024, device="cuda:1")
    with pytest.raises(dlblas.errors.DeviceError, match="weight"):
        dlblas.rms_norm(x, w)


# ---- without torch, and without parts of it -----------------------------------------------------

HIDDEN = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
import numpy as np
import dlblas, dlblas.nn
x = np.random.default_rng(7).standard_normal((4, 64), np.float32)
y = dlblas.rms_norm(x, np.ones(64, np.float32))
assert abs(float((y * y).mean()) - 1) < 1e-4
for use in (lambda: dlblas.nn.RMSNorm, lambda: __import__("dlblas.torch")):
    try:
        use()
    except ModuleNotFoundError as error:
        print(error.name)
assert "torch" not in sys.modules
"""


def test_torch_hidden(tmp_path: pathlib.Path) -> None:
    assert child(HIDDEN, tmp_path).split() == ["torch", "torch"]


LACKING = """
import sys
import torch
import dlblas

x, w = torch.randn(4, 64), torch.ones(64, requires_grad=sys.argv[1] == "cuda")
y = dlblas.rms_norm(x, w)
assert abs(float((y * y).mean()) - 1) < 1e-4
if sys.argv[1] == "cuda":  # torch is there, and only its CUDA functions are not
    y.sum().backward()
    assert torch.equal(torch.ops.dlblas.rms_norm(x, w.detach()), y) and w.grad.any()
    if torch.cuda.is_available():
        try:
            dlblas.rms_norm(x.cuda(), w.detach().cuda())
        except dlblas.errors.DeviceError as error:
            assert "aoti_torch_get_current_cuda_stream" in str(error), error
        else:
            raise AssertionError("a CUDA call without torch's CUDA functions")
else:
    assert not hasattr(torch.ops.dlblas, "rms_norm")
    try:
        import dlblas.torch
    except dlblas.errors.UnsupportedError as error:
        assert "libtorch_cpu.so lacks aoti_torch_get_dim" in str(error), error
        assert "update torch" in str(error), error
    else:
        raise AssertionError("registered with a torch that has no such functions")
print("fine")
"""


@pytest.mark.parametrize("part", ["cuda", "cpu"])
def test_shims_hidden(part: str, tmp_path: pathlib.Path) -> None:
    """A torch without CUDA, and one that is too old: an empty library hides torch's own."""
    pytest.importorskip("torch")
    stub = tmp_path / "stub" / f"libtorch_{part}.so"
    stub.parent.mkdir()
    command = [os.environ.get("CXX", "c++"), "-shared", "-x", "c++", os.devnull, "-o", str(stub)]
    subprocess.run(command, check=True, timeout=240)
    said = child(LACKING, tmp_path / "cache", part, DLBLAS_LIBS=str(stub.parent))
    assert said.strip() == "fine"
