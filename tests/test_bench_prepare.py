"""``dlblas bench`` on a GPU, as far as it goes without one: what a clock chose comes and goes with
a section."""

from __future__ import annotations

import pathlib
import subprocess
from typing import Any

import pytest


def test_no_choice_by_timing_outlives_its_section(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dlblas import bench

    environments = list[dict[str, str]]()

    def run(command: list[str], env: dict[str, str], **_: Any) -> Any:
        inductor = pathlib.Path(env["TORCHINDUCTOR_CACHE_DIR"])
        inductor.mkdir()
        (inductor / "kernel.best_config").write_text("{}")
        environments.append(env)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "everybody's"))
    monkeypatch.setattr(bench.subprocess, "run", run)
    monkeypatch.setattr(bench.importlib.util, "find_spec", lambda name: name)
    for section in ("gpu_norm", "gpu_norm_long"):
        assert bench.run(section, f"{tmp_path}/", None, None, False, "abc") == 0
    for name in ("TORCHINDUCTOR_CACHE_DIR", "DLBLAS_CACHE"):
        folders = {pathlib.Path(env[name]).parent for env in environments}
        assert len(folders) == 2 and not any(folder.exists() for folder in folders)
