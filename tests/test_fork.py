"""A forked child must still answer, although its parent's threads, ours and those of oneDNN's
OpenMP, do not exist in it.

Each case forks a process of its own (this one may run other libraries' threads) and gives the child
a deadline: the failure to detect is an endless wait.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys

import dlblas
import pytest

pytestmark = pytest.mark.attack("forks")

PACKAGE = pathlib.Path(dlblas.__file__).parent.parent

# argv: package folder, implementation to pin or "", the sizes M that the child computes
PROGRAM = """
import multiprocessing, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import dlblas

rng = np.random.default_rng(7)
a = rng.standard_normal((512, 256)).astype("f4")
b = rng.standard_normal((256, 384)).astype("f4")

def check(rows):
    for m in rows:
        c = dlblas.matmul(a[:m], b)
        np.testing.assert_allclose(c, a[:m].astype("f8") @ b, rtol=1e-4, atol=1e-3)

def forked(rows):
    check(rows)
    # The choice is one thread's, too: nothing measured on more is taken, or published, for it.
    assert "; 1 thread\\n" in str(dlblas.explain("matmul", a, b)), dlblas.explain("matmul", a, b)

def grandchild(rows):
    child = multiprocessing.get_context("fork").Process(target=forked, args=(rows,))
    child.start()
    child.join(20)
    sys.exit(child.exitcode if child.exitcode is not None else 3)

if __name__ == "__main__":
    if sys.argv[2]:
        dlblas.pin("matmul", sys.argv[2])
    check([512, 300])
    with dlblas.pinned("matmul", "onednn"):  # whatever the default is: its threads are there
        check([512])
    rows = [int(m) for m in sys.argv[3].split(",")]
    for target in (forked, grandchild):
        child = multiprocessing.get_context("fork").Process(target=target, args=(rows,))
        child.start()
        child.join(30)
        if child.exitcode is None:
            child.kill()
            sys.exit("the child hangs")
        if child.exitcode != 0:
            sys.exit(f"the child failed: {child.exitcode}")
    check([512, 300])  # and the parent goes on as before
"""


@pytest.mark.parametrize("pinned", ["", "onednn", "cpu_baseline"])
@pytest.mark.parametrize("rows", ["512", "37,1"], ids=["same-shape", "new-shapes"])
def test_a_forked_child_multiplies(
    pinned: str, rows: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLBLAS_CACHE", str(tmp_path))
    command = [sys.executable, "-c", PROGRAM, str(PACKAGE), pinned, rows]
    done = subprocess.run(command, capture_output=True, text=True, timeout=480)
    assert done.returncode == 0, done.stderr


# argv: package folder. The torch code around our operators must work in a child too: the parent has
# run torch's parallel regions, so the child would wait for threads that it does not have.
OF_TORCH = """
import multiprocessing, sys
sys.path.insert(0, sys.argv[1])
import torch
import dlblas

torch.set_num_threads(2)
logits, target = torch.randn(100000, 16), torch.arange(100000) % 16
x, dy = torch.randn(512, 4096), torch.randn(512, 4096)
gamma, beta = torch.ones(4096), torch.zeros(4096)

def everything():
    loss = dlblas.cross_entropy(logits, target)
    tables = dlblas.rope_tables(torch.arange(100000), 64)
    v, z = x.detach().requires_grad_(), x.detach().requires_grad_()
    gated = torch.autograd.grad(dlblas.layernorm_gated(v, gamma, beta, z), (v, z), dy)
    grouped = dlblas.group_norm(v.view(64, 64, 512), 8, torch.ones(64), torch.zeros(64))
    grads = torch.autograd.grad(grouped, v, dy.view(64, 64, 512))
    norm = torch.autograd.grad(dlblas.rms_norm(v, gamma), v, dy)
    return [loss, *tables, *gated, *grads, *norm, dlblas.matmul(x, x.T), x.clone()]

def forked(wanted):
    assert torch.get_num_threads() == 1
    for made, right in zip(everything(), wanted, strict=True):
        torch.testing.assert_close(made, right, rtol=1e-4, atol=1e-4)

if __name__ == "__main__":
    torch.randn(2000, 2000) @ torch.randn(2000, 2000)
    child = multiprocessing.get_context("fork").Process(target=forked, args=(everything(),))
    child.start()
    child.join(60)
    if child.exitcode is None:
        child.kill()
        sys.exit("the child hangs")
    assert torch.get_num_threads() == 2
    sys.exit(child.exitcode)
"""


def test_a_forked_child_computes_what_is_torchs(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("DLBLAS_CACHE", str(tmp_path))
    command = [sys.executable, "-c", OF_TORCH, str(PACKAGE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
