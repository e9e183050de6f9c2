"""The examples run as their first lines say, exit cleanly, and compare what they claim to compare.

getting_started.py is in test_python_import.py, the C++ ones are in test_consumer.py.
Read next: examples/llama_block.py.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import dlblas
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = pathlib.Path(dlblas.__file__).parent.parent

# Makes all of our norms wrong by a thousandth, on every call path.
SABOTAGE = """
import sys, runpy, torch, dlblas.nn
forward = dlblas.nn.RMSNorm.forward
def wrong(self, x, residual=None):
    y = forward(self, x, residual)
    return y * 1.001 if residual is None else (y[0] * 1.001, y[1])
dlblas.nn.RMSNorm.forward = wrong
for name in ("rms_norm", "add_rms_norm"):  # as examples/llama.py calls them
    def wrong_function(*args, of=getattr(dlblas, name), **kwargs):
        y = of(*args, **kwargs)
        return (y[0] * 1.001, *y[1:]) if isinstance(y, tuple) else y * 1.001
    setattr(dlblas, name, wrong_function)
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""


def run(
    name: str, tmp_path: pathlib.Path, prefix: list[str], *args: str, **env: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *prefix, str(ROOT / "examples" / name), *args],
        env={
            **os.environ,
            "PYTHONPATH": str(PACKAGE),
            "DLBLAS_CACHE": str(tmp_path / "cache"),
            "HF_HUB_OFFLINE": "1",  # a try to download fails
            **env,
        },
        capture_output=True,
        text=True,
        timeout=900,
    )


EXAMPLES = {
    "llama_block.py": ("torch", ["8 gradients", "loss"]),
    "llama.py": ("torch", ["time to first token", "tokens/s", "of a step", "paged_attention"]),
    "huggingface_llama.py": ("transformers", ["5 norms replaced", "loss before and after a step"]),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs(name: str, tmp_path: pathlib.Path) -> None:
    module, lines = EXAMPLES[name]
    pytest.importorskip(module)
    done = run(name, tmp_path, [], CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "cpu, float32" in done.stdout
    for line in lines:
        assert line in done.stdout


@pytest.mark.gpu
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_on_a_gpu(name: str, tmp_path: pathlib.Path) -> None:
    module, lines = EXAMPLES[name]
    pytest.importorskip(module)
    if not pytest.importorskip("torch").cuda.is_available():
        pytest.skip("no CUDA device")
    done = run(name, tmp_path, [], *(["--compile"] if name == "llama_block.py" else []))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "cuda, bfloat16" in done.stdout
    for line in lines:
        assert line in done.stdout


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_sees_a_wrong_norm(name: str, tmp_path: pathlib.Path) -> None:
    pytest.importorskip(EXAMPLES[name][0])
    done = run(name, tmp_path, ["-c", SABOTAGE], CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "differ" in done.stderr
