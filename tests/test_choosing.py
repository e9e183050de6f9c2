"""Which implementation a call gets and how ``explain`` reports it: environment, pins, recorded
failures."""

from __future__ import annotations

import hashlib
import os
import pathlib
import re
import subprocess
import sys

import dlblas
import numpy as np
import pytest

TUNE_AND_SPOIL = """
import pathlib, re, sys, hashlib, numpy as np, dlblas
x, w = np.ones((8, 64), "f"), np.ones(64, "f")
dlblas.get_op("rms_norm", (x, w), seconds=0.2)
for path in pathlib.Path(sys.argv[1]).glob("v1/results/*/*"):
    kept = []
    for line in path.read_text().splitlines()[:-1]:
        name, _, value = line.partition(" ")
        if name.endswith(".samples_ms"):
            value = ""
        if name.endswith(".failure"):
            value = "wrong_result"
        kept.append(f"{name} {value}")
    body = "\\n".join(kept) + "\\n"
    digest = hashlib.sha256(body.encode()).hexdigest()
    path.unlink()
    (path.parent / digest).write_text(body + f"sha256 {digest}\\n")
"""
SHOW = """
import numpy as np, dlblas
x, w = np.ones((8, 64), "f"), np.ones(64, "f")
print(dlblas.explain("rms_norm", x, w))
"""


def run(program: str, cache: pathlib.Path, **env: str) -> str:
    return run_both(program, cache, **env).stdout


def run_both(program: str, cache: pathlib.Path, **env: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", program, str(cache)],
        env={**os.environ, "DLBLAS_CACHE": str(cache), **env},
        capture_output=True,
        text=True,
        timeout=480,
    )
    assert done.returncode == 0, done.stderr
    return done


def test_deterministic_by_environment(tmp_path: pathlib.Path) -> None:
    program = """
import dlblas
a, b = dlblas.Spec((64, 256), "f32"), dlblas.Spec((256, 64), "f32")
print(dlblas.explain("matmul", a, b))
"""
    plain = run(program, tmp_path)
    asked = run(program, tmp_path, DLBLAS_DETERMINISTIC="1")
    refusal = re.compile("onednn +no: is not deterministic, and the call asks for it")
    assert not refusal.search(plain) and refusal.search(asked)


def test_disabled_implementations_and_no_implementation(tmp_path: pathlib.Path) -> None:
    every = "cpu_avx512,cpu_avx2,cpu_baseline,reference"
    program = """
import numpy as np, dlblas
print(dlblas.explain("rms_norm", np.ones((2, 4), "f"), np.ones(4, "f")))
try:
    dlblas.rms_norm(np.ones((2, 4), "f"), np.ones(4, "f"))
except LookupError as error:
    print(type(error).__name__, isinstance(error, NotImplementedError), error)
"""
    refused = "UnsupportedError True rms_norm: call has no implementation; expected one candidate"
    for listed in (every, f" {every} ".replace(",", " , ")):
        out = run(program, tmp_path, DLBLAS_DISABLE=listed)
        # Printed once by explain and once by the error.
        assert out.count("cpu_baseline    no: disabled by DLBLAS_DISABLE") == 2, listed
        assert "a call fails: rms_norm: call has no implementation; expected one candidate" in out
        assert refused in out


def test_a_disabled_name_that_nothing_has_is_warned_about_once(tmp_path: pathlib.Path) -> None:
    program = SHOW + "dlblas.rms_norm(x, w); print(dlblas.explain('rms_norm', x, w))"
    said = run_both(program, tmp_path, DLBLAS_DISABLE="cuda_rign, cpu_avx2").stderr
    assert said.count("DLBLAS_DISABLE") == 1, said
    assert "no implementation has so far: cuda_rign; the nearest is cuda_ring;" in said
    assert "registered later" in said
    assert not run_both(program, tmp_path, DLBLAS_DISABLE="cuda_ring,,cpu_avx2").stderr


def test_require_hit_is_explained(tmp_path: pathlib.Path) -> None:
    out = run(SHOW, tmp_path, DLBLAS_REQUIRE_HIT="1")
    assert "cpu_baseline    yes" in out
    assert "a call fails: rms_norm: call has no tuned result and DLBLAS_REQUIRE_HIT is set" in out


def test_what_was_measured_wrong_is_not_served(tmp_path: pathlib.Path) -> None:
    run(TUNE_AND_SPOIL, tmp_path)
    out = run(SHOW, tmp_path)
    assert out.count("failed: wrong_result") >= 1
    assert "  >  reference" in out


def test_pin_that_does_not_fit_shows_every_candidate() -> None:
    a, b = np.ones((4, 8), "f"), np.ones((8, 4), "f")
    with (
        dlblas.pinned("matmul", "cpu_row_avx2"),
        pytest.raises(dlblas.errors.UnsupportedError) as caught,
    ):
        dlblas.matmul(np.ones((64, 8), "f"), b)
    text = str(caught.value)
    assert "pinned: cpu_row_avx2: no: a has more than 8 rows" in text
    assert "cpu_baseline" in text and "reference" in text
    dlblas.matmul(a, b)


def test_inplace_errors_speak_of_their_own_arguments() -> None:
    x, w = np.ones((2, 4), "f"), np.ones(4, "f")
    with pytest.raises(dlblas.errors.ArgumentError) as caught:
        dlblas.add_rms_norm_(x, x, w)
    assert str(caught.value) == (
        "add_rms_norm_: x overlaps residual; expected memory of its own, "
        "got memory shared with residual; give a copy of one of them"
    )
    assert (
        hashlib.sha256(x.tobytes()).digest()
        == hashlib.sha256(np.ones((2, 4), "f").tobytes()).digest()
    )
