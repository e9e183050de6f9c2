"""Programmatic dependent launch: no kernel reads data that the preceding kernel has yet to write.

Every operator at a benchmark shape runs each implementation's default twice: once with its inputs
in place, and once behind a kernel that lets its successor start at once, waits, and only then
writes the inputs, which hold zeros until then. A dependent kernel that does not wait reads the
zeros. A separate test shows that the check can fail: without the waits of device/pdl.cuh it does.
Read next: device/pdl.cuh, src/kernels/cuda_form.hpp (kDependent).
"""

from __future__ import annotations

import functools
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import dlblas
import dlblas.errors
import pytest
from levels import ON_GPUS

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_ELEMENTS = 1 << 26  # elements of the largest tensor, but for the smallest problem
ALIGNED = 256  # bytes
BLOCKS, THREADS = 64, 256
LATE_WRITER = """
extern "C" __global__ void late_writer(uint4* to, const uint4* from, int count) {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  long long begin, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do {
    __nanosleep(1000);
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - begin < 400000);
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count;
       i += (long long)gridDim.x * blockDim.x)
    to[i] = from[i];
}
"""


def _needs_sm_90() -> None:
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("dependent launches are of sm_90 and later")


class Arena:
    """The tensors of one call, one after another in one allocation."""

    def __init__(self, tensors: dict[str, Any]) -> None:
        at, places = 0, {}
        for name, tensor in tensors.items():
            size = tensor.numel() * tensor.element_size()
            places[name] = (at, size)
            at += -(-size // ALIGNED) * ALIGNED
        self.right = torch.zeros(max(at, ALIGNED), dtype=torch.uint8, device="cuda")
        self.given = self.right.clone()
        self.views: dict[str, Any] = {}
        for name, tensor in tensors.items():
            begin, size = places[name]
            flat = tensor.contiguous().reshape(-1).view(torch.uint8)
            self.right[begin : begin + size] = flat
            self.views[name] = (
                self.given[begin : begin + size].view(tensor.dtype).view(tensor.shape)
            )

    def write(self) -> None:
        self.given.copy_(self.right)

    def write_late(self, kernel: Any) -> None:
        self.given.zero_()
        args = [self.given, self.right, self.given.numel() // 16]
        kernel((BLOCKS, 1, 1), (THREADS, 1, 1), args)


class Call:
    """An operator on the tensors of an arena, with its own result memory."""

    def __init__(self, op: str, problem: Any) -> None:
        from dlblas.bench import problems

        made = {n: problems.make_tensor(problem, n, 1, "cuda")[0] for n in problem.specs}
        self.arena = Arena(made)
        self.arena.write()
        results = problems.as_list(problems.run(problem, self.arena.views))
        out = {"out": results[0] if len(results) == 1 else tuple(results)} if results else {}
        self.run = functools.partial(getattr(dlblas, op), **problem.scalars, **out)
        self.results = results
        self.written = [self.arena.views[n] for n in made if problem.facts(n)["written"]]

    def __call__(self, write: Callable[[], None]) -> list[Any]:
        """Returns everything that is written; undefined elements are 0. Nothing runs between the
        writer and the operator."""
        for result in self.results:
            result.zero_()
        write()
        self.run(**self.arena.views)
        return [made.clone() for made in (*self.results, *self.written)]


def _same(got: Any, wanted: Any) -> bool:
    """The same bits, or nearly the same values where the summation order varies from run to run."""
    from dlblas.bench import gpu_contest

    if torch.equal(got.reshape(-1).view(torch.uint8), wanted.reshape(-1).view(torch.uint8)):
        return True
    return got.is_floating_point() and gpu_contest.wrong_by(got, wanted.float()) <= 1


def _try(op: str) -> tuple[int, list[str]]:
    """How many implementations ran, and which of them read too early."""
    from dlblas.bench import problems

    row = next(r for r in dlblas.info()["operators"] if r["name"] == op)
    kernel = torch.cuda._compile_kernel(LATE_WRITER, "late_writer")
    ran, early = 0, []
    by_size = sorted(problems.problems_of(row, "bf16"), key=lambda p: p.elements_of_all())
    for problem in by_size[:1] + [p for p in by_size[1:] if p.elements_of_all() <= MAX_ELEMENTS]:
        call = Call(op, problem)
        for implementation in row["implementations"]:
            if implementation["backend"] != "cuda" or implementation["oracle"]:
                continue
            try:
                with dlblas.pinned(op, implementation["name"]):
                    wanted = call(call.arena.write)  # compiles
                    torch.cuda.synchronize()
                    got = call(functools.partial(call.arena.write_late, kernel))
            except dlblas.errors.UnsupportedError:
                continue
            torch.cuda.synchronize()
            if not all(map(_same, got, wanted)):
                early.append(f"{op} {problem.told()} {implementation['name']}")
            ran += 1
    return ran, early


@pytest.mark.parametrize("op", ON_GPUS)
def test_an_operator_waits_for_its_inputs(op: str) -> None:
    _needs_sm_90()
    ran, early = _try(op)
    assert not early, "read before it was written"
    assert ran > 0, "no implementation ran"


def test_a_kernel_that_does_not_wait_is_seen(tmp_path: pathlib.Path) -> None:
    """The tree's headers, read live, with the wait removed."""
    _needs_sm_90()
    for folder in ("device", "ops"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    header = tmp_path / "device" / "pdl.cuh"
    text = header.read_text()
    wait = 'asm volatile("griddepcontrol.wait;" ::: "memory");'
    assert text.count(wait) == 1
    header.write_text(text.replace(wait, ""))
    script = "import sys, test_gpu_dependent as t; sys.exit(len(t._try('rms_norm')[1]))"
    cache = str(tmp_path / "cache")
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT / "tests",
        env={**os.environ, "DLBLAS_SOURCE_DIR": str(tmp_path), "DLBLAS_CACHE": cache},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert 0 < done.returncode < 100 and "Traceback" not in done.stderr, done.stdout + done.stderr
