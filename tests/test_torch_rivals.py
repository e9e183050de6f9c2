"""torch's attention as a candidate: what it computes, what it refuses, and who judges it.

In processes of their own, whose registrations end with them. Read next:
python/dlblas/torch/rivals.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import dlblas
import pytest

pytest.importorskip("torch")

SCRIPT = """
import dlblas, dlblas.torch.rivals, torch

print("modules", dlblas.own.modules())
dlblas.pin("flash_attention_lse", "torch_sdpa")
made = torch.Generator().manual_seed(5)
for batch, group, causal, scale in ((2, 3, False, None), (1, 2, True, None), (2, 1, True, -0.2)):
    q, k, v = (torch.randn(batch, 37, heads, 24, generator=made) for heads in (2 * group, 2, 2))
    if causal:
        k[:, 30], v[:, 33:] = float("nan"), float("inf")
    call = dict(causal=causal, scale=scale, return_lse=True)
    ours = dlblas.flash_attention(q, k, v, **call)
    dlblas.pin("flash_attention_lse", "reference")
    wanted = dlblas.flash_attention(q, k, v, **call)
    dlblas.pin("flash_attention_lse", "torch_sdpa")
    for mine, want in zip(ours, wanted):
        cut = slice(0, 30) if causal else slice(None)
        at = (slice(None), cut) if mine.ndim == 4 else (..., cut)
        torch.testing.assert_close(mine[at], want[at], rtol=1e-5, atol=1e-5)
        assert mine[at].isfinite().all()
print("equal")
dlblas.pin("flash_attention_lse", None)
q, k = torch.randn(1, 5, 2, 8), torch.randn(1, 9, 2, 8)
for more in (dict(causal=True), dict(window=3), dict(softcap=2.0)):
    print(dlblas.explain("flash_attention_lse", q, k, k, **more))
"""


def environment(root: Path) -> dict[str, str]:
    package = str(Path(dlblas.__file__).parent.parent)
    paths = filter(None, [package, os.environ.get("PYTHONPATH", "")])
    more = {"PYTHONPATH": os.pathsep.join(paths), "DLBLAS_CACHE": str(root / "store")}
    return {**os.environ, **more}


def test_what_it_computes_and_refuses(tmp_path: Path) -> None:
    file = tmp_path / "uses_rivals.py"
    file.write_text(SCRIPT, encoding="utf-8")
    env = environment(tmp_path)
    done = subprocess.run([sys.executable, file], env=env, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert "dlblas.torch.rivals" in done.stdout.splitlines()[0]  # a worker can import it
    assert "equal" in done.stdout
    for words in ("top left", "takes no window", "takes no softcap"):
        assert words in done.stdout, words


def test_the_oracle_judges_it(tmp_path: Path) -> None:
    words = ["--dims", "B=1,S=16,L=16,Hkv=2,G=2,D=32,Dv=32", "--dtype", "f32", "--seconds", "5"]
    env = environment(tmp_path)
    base = [sys.executable, "-m", "dlblas", "--import", "dlblas.torch.rivals"]
    for verb in (
        ["tune", "flash_attention_lse", *words],
        ["explain", "flash_attention_lse", *words[:-2]],
    ):
        done = subprocess.run([*base, *verb], env=env, text=True, capture_output=True)
        assert done.returncode == 0, done.stderr
    row = next(line for line in done.stdout.splitlines() if "torch_sdpa" in line)
    assert "yes" in row and "µs" in row
