"""tune, get_op, explain, info, verify and the command line on a GPU; skipped with a reason where
there is none.

Read next: tests/cpp/test_gpu_tuner.cpp (broken kernels, guards, oracles), docs/tuning.md.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import dlblas
import pytest
from dlblas import _specs
from dlblas.harness import load_registry
from dlblas.harness.device import DeviceArray

pytestmark = pytest.mark.gpu

WHY_NOT = load_registry().why_no_cuda
NORM = {"T": 4096, "C": 4096}


@pytest.fixture(autouse=True)
def _gpu() -> None:
    if WHY_NOT:
        pytest.skip(f"no GPU: {WHY_NOT}")


def specs(op: str, dims: dict[str, int], dtype: str = "bf16") -> dict[str, Any]:
    row = _specs.operator_row(op)[0]
    return _specs.named_arguments(row, dims, {"": dtype}, {}, "cuda")


def run_command(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    package = pathlib.Path(dlblas.__file__).resolve().parent.parent
    return subprocess.run(
        [sys.executable, "-m", "dlblas", *words],
        capture_output=True,
        text=True,
        timeout=900,
        env={**os.environ, "PYTHONPATH": str(package), **env},
    )


@pytest.mark.parametrize(
    ("op", "dims"),
    [("rms_norm", NORM), ("add_rms_norm", NORM), ("matmul", {"M": 1024, "K": 2048, "N": 1024})],
)
def test_a_search_finds_right_kernels_and_is_remembered(op: str, dims: dict[str, int]) -> None:
    named = specs(op, dims)
    report = dlblas.tune(op, (), kwargs=named, seconds=4)
    assert report["source"] == "tuned"
    assert report["cache"] == "cold" and report["method"].startswith("graph")
    assert report["winner"] is not None and not report["mistrusted"]
    wrong = [e for e in report["evaluated"] if e.get("failure") not in (None, "compile_error")]
    assert not wrong, wrong
    best = min(e["ms"] for e in report["evaluated"] if "ms" in e)
    assert 1e-3 < best < 1
    before = dlblas.counters()["measured"]
    again = dlblas.get_op(op, (), kwargs=named, seconds=4)  # with more it goes on with a cut one
    assert again.report["source"] == "store"
    assert dlblas.counters()["measured"] == before
    plan = again.explain().as_dict()
    assert plan["implementation"] == report["served"]["implementation"]


def test_times_are_those_of_the_device() -> None:
    """Twice the rows take about twice the time: launch overhead and host jitter are not
    included."""
    times = []
    for rows in (8192, 16384):
        report = dlblas.tune(
            "rms_norm", (), kwargs=specs("rms_norm", {"T": rows, "C": 8192}), seconds=3
        )
        times.append(min(e["ms"] for e in report["evaluated"] if "ms" in e))
    assert 1.7 < times[1] / times[0] < 2.3


def test_under_capture_it_is_refused() -> None:
    import torch

    x = torch.randn(64, 256, device="cuda")
    weight = torch.randn(256, device="cuda")
    stream = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    kind: list[type[BaseException]] = []
    with torch.cuda.stream(stream):
        graph.capture_begin(capture_error_mode="relaxed")
        try:
            dlblas.tune("rms_norm", (x, weight), seconds=1)
        except dlblas.Error as error:
            kind.append(type(error))
        x.add_(1)
        graph.capture_end()
    assert kind == [dlblas.errors.TuningFailedError]


def test_an_element_across_its_size_is_refused_in_words() -> None:
    import torch

    memory = torch.zeros(4096, dtype=torch.uint8, device="cuda")
    weight = torch.ones(16, device="cuda")
    steps = (16 * 4, 4)
    device = f"cuda:{memory.device.index}"
    x = DeviceArray(memory.data_ptr() + 1, (4, 16), "f32", steps, device)
    y = DeviceArray(memory.data_ptr() + 2048, (4, 16), "f32", steps, device)
    with pytest.raises(
        dlblas.errors.UnsupportedError, match="address that is not a multiple of its size"
    ):
        dlblas.rms_norm(x, weight, out=y)
    with pytest.raises(dlblas.errors.UnsupportedError, match="a GPU cannot read"):
        dlblas.verify("rms_norm", (x, weight), y)
    torch.cuda.synchronize()  # the context lives
    assert not memory.any()


def test_verify_judges_tensors_on_the_device() -> None:
    import torch

    x, weight = torch.randn(100, 512, device="cuda"), torch.randn(512, device="cuda")
    y = dlblas.rms_norm(x, weight)
    assert dlblas.verify("rms_norm", (x, weight), y).ok
    y[3, 7] += 1
    verdict = dlblas.verify("rms_norm", (x, weight), y)
    assert (verdict.wrong, verdict.first_wrong) == (1, 3 * 512 + 7)
    assert dlblas.verify("rms_norm", (x, weight), y, rows=[0, 2, 4]).ok


def test_info_names_the_gpu() -> None:
    info = json.loads(run_command("info", "--json").stdout)
    gpu = next(row for row in info["devices"] if row["device"] == "cuda:0")
    assert gpu["model"].startswith("NVIDIA") and gpu["arch"] >= 80 and gpu["units"] > 0
    assert info["cuda"]["why_not"] == "" and info["cuda"]["nvrtc"]
    assert gpu["model"] in run_command("info").stdout


def test_the_command_line_takes_a_device(tmp_path: pathlib.Path) -> None:
    dims = ("rms_norm", "--dims", "T=512,C=4096", "--dtype", "bf16", "--device", "cuda")
    store = {"DLBLAS_CACHE": str(tmp_path / "store")}
    done = run_command("tune", *dims, "--seconds", "2", "--json", **store)
    assert done.returncode == 0, done.stderr
    winner = json.loads(done.stdout)["winner"]["implementation"]
    explained = run_command("explain", *dims, "--json", **store)
    assert json.loads(explained.stdout)["implementation"] == winner
    refused = run_command("explain", *dims[:-1], "cuda:99")
    assert refused.returncode == 2 and "cuda:99" in refused.stderr


def test_the_demo_runs_on_the_gpu(tmp_path: pathlib.Path) -> None:
    out = tmp_path / "demo.json"
    done = run_command(
        "demo", "--quick", "--device", "cuda", "--out", str(out), "--root", str(tmp_path / "root")
    )
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads(out.read_text())
    assert record["device"] == "cuda:0" and not record["broken"]
    assert all(row["vs_rival"] > 0 for row in record["first"]["keys"])
