"""GPU sections of ``dlblas bench``, as far as they run without one: choices made by timing live
only as long as a section, and ``--prepare`` calls the peers, none of our code, and writes no
rows."""

from __future__ import annotations

import contextlib
import pathlib
from typing import Any

import pytest


class _Children:
    """Stands in for the measuring processes: records their requests and environments, and leaves a
    file in Inductor's folder as a choice by timing does."""

    def __init__(self, fails: str = "") -> None:
        self.requests: list[dict[str, Any]] = []
        self.environments: list[dict[str, str]] = []
        self._fails = fails

    def __call__(self, request: Any, env: dict[str, str], on_row: Any) -> tuple[int, str]:
        self.requests.append(request)
        self.environments.append(env)
        inductor = pathlib.Path(env["TORCHINDUCTOR_CACHE_DIR"])
        inductor.mkdir()
        (inductor / "kernel.best_config").write_text("{}")
        row = {"what": request["section"], "op": "rms_norm", "problem": {"T": 1}, "dtype": "bf16"}
        row |= {"method": {}, "ours": {"name": ""}, "peers": [], "against": None, "ratio": None}
        row["card"] = "a card"
        on_row(row)
        fails = self._fails and self._fails == request["prepare"]
        return (1, "ended with exit code 1") if fails else (0, "")


def _no_torch_needed(monkeypatch: pytest.MonkeyPatch, children: _Children) -> Any:
    from dlblas import bench

    monkeypatch.setattr(bench.gpu_child, "measure", children)
    monkeypatch.setattr(bench.importlib.util, "find_spec", lambda name: name)
    return bench


def test_prepare_writes_no_rows_and_keeps_no_choice(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "everybodys"))
    children = _Children()
    bench = _no_torch_needed(monkeypatch, children)
    out = tmp_path / "out"
    out.mkdir()
    assert bench.run("gpu", str(out), None, None, False, "abc", prepare=True) == 0
    assert list(out.iterdir()) == []
    assert bench.run("gpu_norm", str(out), None, None, False, "abc") == 0
    assert len(list(out.iterdir())) == 1
    asked = {(r["section"], r["prepare"]) for r in children.requests}
    assert asked == {
        ("gpu_norm", "rms_norm"),
        ("gpu_norm", "add_rms_norm"),
        ("gpu_norm_long", "rms_norm"),
        ("gpu_norm_long", "add_rms_norm"),
        ("gpu_norm_backward", "rms_norm_backward"),
        ("gpu_norm", ""),  # the measuring one
    }
    # Compiled kernels are shared; choices go to a folder per process, which is removed with it.
    assert {env["TRITON_CACHE_DIR"] for env in children.environments} == {str(tmp_path / "triton")}
    for name in ("TORCHINDUCTOR_CACHE_DIR", "DLBLAS_CACHE"):
        own = {env[name] for env in children.environments}
        assert len(own) == len(children.environments)
        assert not any(pathlib.Path(folder).parent.exists() for folder in own)


def test_prepare_fails_aloud(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    bench = _no_torch_needed(monkeypatch, _Children(fails="add_rms_norm"))
    assert bench.run("gpu_norm", None, None, None, False, prepare=True) == 1
    told = capfd.readouterr()
    assert "gpu_norm add_rms_norm ended with exit code 1" in told.err
    assert told.out.splitlines()[-1] == "prepared: 1 of 2 parts"
    with pytest.raises(Exception, match="--prepare has no work; expected gpu_norm"):
        bench.run("gpu_matmul", None, None, None, False, prepare=True)


@pytest.fixture
def torch_without_gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    """torch, with the parts of torch.cuda that a run without timing needs."""
    torch = pytest.importorskip("torch")

    class Stream:
        def wait_stream(self, _: Any) -> None: ...
        def synchronize(self) -> None: ...

    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda _: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    return torch


@pytest.mark.parametrize("section", ["gpu_norm", "gpu_norm_backward"])
def test_prepare_runs_each_peer_once_and_nothing_of_ours(
    section: str,
    torch_without_gpu: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import dlblas
    from dlblas.bench import gpu, peers

    torch, ran = torch_without_gpu, list[str]()

    def forward(arrays: peers.NormArrays) -> Any:
        def run(i: int) -> Any:
            ran.append("theirs")
            return peers.eager_add_rms_norm(arrays.x[i], arrays.weight, arrays.residual[i])

        return run

    def refuses(*_: Any) -> Any:
        raise NotImplementedError("too wide")

    def backward(ours: Any) -> Any:
        theirs = peers._autograd(peers.eager_rms_norm)

        def make(*tensors: Any) -> Any:
            ran.append("theirs")
            return theirs(*tensors)

        return {"dlblas": ("", refuses), "theirs": ("1", make), "other": ("1", refuses)}

    made = [peers.Peer("theirs", "1", forward), peers.Peer("other", "1", refuses)]
    monkeypatch.setattr(peers, "norm_peers", lambda: [*made, peers.Missing("absent", "no module")])
    monkeypatch.setattr(peers, "backward_peers", backward)
    for name in ("get_op", "tune"):
        monkeypatch.setattr(dlblas, name, lambda *_, name=name, **__: pytest.fail(name))
    monkeypatch.setattr(
        gpu.GpuBench, "normal", lambda _, *shape, **__: torch.randn(shape, dtype=torch.bfloat16)
    )
    op = {"gpu_norm": "add_rms_norm", "gpu_norm_backward": "rms_norm_backward"}[section]
    bench = gpu.GpuBench({"quick": True, "seconds": 0.0, "prepare": op})
    assert gpu._prepare(gpu.SECTIONS[section](bench)) == 0
    lines = capsys.readouterr().out.splitlines()
    problems = ["T=8 C=256", "T=3 C=64"] if section == "gpu_norm" else ["T=64 C=256"]
    assert len(lines) == len(ran) == len(problems)
    for line, problem in zip(lines, problems, strict=True):
        assert line.startswith(f"{section} {op} {problem}: theirs ")
        assert "not other: NotImplementedError: too wide" in line
    monkeypatch.setattr(peers, "norm_peers", lambda: made[1:])
    monkeypatch.setattr(peers, "backward_peers", lambda _: {"other": ("1", refuses)})
    assert gpu._prepare(gpu.SECTIONS[section](bench)) == 1
