"""oneDNN is present when tests run, competes for matmul, and its version is part of the record.

``make test`` installs it: a set-up that stops doing so must fail here, not silently test less.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import Any

import dlblas
import numpy as np
import pytest


def _library() -> dict[str, Any]:
    (row,) = (row for row in dlblas.info()["libraries"] if row["name"] == "onednn")
    return dict(row)


def test_it_is_found() -> None:
    row = _library()
    assert row["found"] is True, row["why_not"]
    assert int(row["version"].split(".")[0]) >= 3, row["version"]


@pytest.mark.parametrize("rows", [1, 16, 512])
def test_it_competes_for_matmul(rows: int) -> None:
    a, b = np.ones((rows, 256), "f4"), np.ones((256, 128), "f4")
    candidates = dlblas.explain("matmul", a, b).as_dict()["candidates"]
    (row,) = (row for row in candidates if row["implementation"] == "onednn")
    assert row["supports"] is True, row["reason"]
    with dlblas.pinned("matmul", "onednn"):
        np.testing.assert_array_equal(dlblas.matmul(a, b), np.full((rows, 128), 256, "f4"))


@pytest.mark.parametrize("depth", [66, 67])
def test_an_inf_that_ends_a_row_of_bf16_stays(depth: int) -> None:
    """oneDNN multiplies K in pairs: with an odd K, it multiplied the last value by a padding 0."""
    import ml_dtypes

    rng = np.random.default_rng(depth)
    a = rng.standard_normal((33, depth)).astype(ml_dtypes.bfloat16)
    b = (1 + rng.random((depth, 49))).astype(ml_dtypes.bfloat16)
    a[0, -1] = np.inf
    candidates = dlblas.explain("matmul", a, b).as_dict()["candidates"]
    (row,) = (row for row in candidates if row["implementation"] == "onednn")
    if depth % 2:
        assert row["supports"] is False and "an odd one becomes NaN" in row["reason"], row
    names = [row["implementation"] for row in candidates if row["supports"]]
    for name in names:
        with dlblas.pinned("matmul", name):
            assert np.isposinf(dlblas.matmul(a, b).astype("f4")[0]).all(), name


EQUAL_TERMS = """
import dlblas, numpy as np
for shape in ((1, 65536, 1), (1, 65536, 16), (8, 65536, 1)):
    a, b = np.full(shape[:2], 0.37, "f4"), np.full(shape[1:], 0.71, "f4")
    rows = dlblas.explain("matmul", a, b).as_dict()["candidates"]
    if next(row for row in rows if row["implementation"] == "onednn")["supports"]:
        with dlblas.pinned("matmul", "onednn"):
            verdict = dlblas.verify("matmul", (a, b), dlblas.matmul(a, b))
        assert verdict.ok and verdict.worst < 0.8, (shape, verdict)
longer = dlblas.Spec((1, 65537), "f32"), dlblas.Spec((65537, 1), "f32")
rows = dlblas.explain("matmul", *longer).as_dict()["candidates"]
row = next(row for row in rows if row["implementation"] == "onednn")
assert not row["supports"] and "too inexact beyond 65536" in row["reason"], row
"""


@pytest.mark.parametrize("isa", ["SSE41", "AVX2", "DEFAULT"])
def test_long_sums_are_refused_before_they_are_inexact(isa: str) -> None:
    """On CPUs without AVX-512, oneDNN sums a column of few rows in one chain: with 2^18 equal terms
    its error was four times what the oracle allows."""
    path = os.pathsep.join([str(pathlib.Path(dlblas.__file__).parent.parent), *sys.path])
    env = {**os.environ, "ONEDNN_MAX_CPU_ISA": isa, "PYTHONPATH": path}
    subprocess.run([sys.executable, "-c", EQUAL_TERMS], check=True, timeout=120, env=env)


def test_its_version_is_stored_with_its_samples(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLBLAS_CACHE", str(tmp_path))
    program = (
        f"import sys; sys.path.insert(0, {str(pathlib.Path(dlblas.__file__).parent.parent)!r})\n"
        "import dlblas, numpy as np\n"
        'a = np.random.default_rng(7).standard_normal((64, 64)).astype("f4")\n'
        'dlblas.get_op("matmul", (a, a), seconds=0.2, max_evaluations=20)\n'
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
    (record,) = tmp_path.glob("v1/results/*/*")
    lines = record.read_text().splitlines()
    (cand,) = {line.split(".")[1] for line in lines if line.endswith(".implementation onednn")}
    (stored,) = (line for line in lines if line.startswith(f"cand.{cand}.source_hash "))
    assert stored.endswith("-" + _library()["version"])
