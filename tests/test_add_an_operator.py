"""docs/add_an_operator.md, replayed in a copy of the tree: the new operator is validated, tuned,
explained, restored from the store and called from Python and C++ with no validation or binding code
of its own, and no shared file changed."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import follow_doc  # noqa: E402

PROGRAM = """
#include <dlblas/dlblas.hpp>
#include <dlblas/ops.hpp>
#include <cmath>
#include <cstdio>
#include <vector>
int main() {
  std::vector<float> x{1, -2, 3, 4, 5, 6}, scale{1, 2, 10};
  const auto got = dlblas::gated_scale(
      dlblas::TensorRef(x.data(), {1, 6}),
      dlblas::GatedScaleOptions{.scale = dlblas::TensorRef(scale.data(), {3}),
                                .gate = dlblas::GatedScaleGate::kRelu});
  const float* y = got.y.span<float>().data();
  std::printf("%g %g %g %g\\n", y[0], y[1], y[2], got.peak.span<float>()[0]);
}
"""

SESSION = """
import json, numpy as np, dlblas
x = np.random.default_rng(0).normal(size=(3, 7, 64)).astype(np.float32)
scale = np.full(32, 2, np.float32)
options = {"seconds": 1.0}
op = dlblas.get_op("gated_scale", (x, scale, "relu"), **options)
y, peak = op(x, scale, "relu")
want = np.maximum(x[..., :32], 0) * x[..., 32:] * 2
np.testing.assert_allclose(y, want, rtol=1e-5)
np.testing.assert_allclose(peak[..., 0], np.abs(want).max(-1), rtol=1e-5)
assert y.shape == (3, 7, 32) and peak.shape == (3, 7, 1)
plain, _ = dlblas.gated_scale(x, gate="sigmoid")
np.testing.assert_allclose(plain, x[..., 32:] / (1 + np.exp(-x[..., :32])), rtol=1e-4, atol=1e-6)
errors = []
for call in (lambda: dlblas.gated_scale(x[..., :7]), lambda: dlblas.gated_scale(x, gate="tanh"),
             lambda: dlblas.gated_scale(x, scale[:5])):
    try:
        call()
    except dlblas.errors.Error as error:
        errors.append(str(error))
explained = dlblas.explain("gated_scale", x, scale, "relu").as_dict()
before = dlblas.counters()["measured"]
dlblas.get_op("gated_scale", (x[:, :6].copy(), scale, "relu"), **options)  # 18 rows: another bucket
other = dlblas.counters()["measured"] - before
dlblas.get_op("gated_scale", (x[:, :6].copy(), scale, "relu"), **options)
again = dlblas.counters()["measured"] - before - other
print(json.dumps({"explained": explained, "errors": errors, "counters": dlblas.counters(),
                  "source": op.report["source"], "again": again}))
"""


def digests(tree: pathlib.Path, files: list[str]) -> dict[str, str]:
    return {f: hashlib.sha256((tree / f).read_bytes()).hexdigest() for f in files}


def run(*command: str, cwd: pathlib.Path, **env: str) -> str:
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, timeout=1500
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    copy = tmp_path_factory.mktemp("tree")
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    files = [f for f in listed.split("\0") if f and (ROOT / f).is_file()]
    for name in files:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name)
    before = digests(copy, files)
    added = follow_doc.follow(ROOT / "docs" / "add_an_operator.md", copy)
    assert {p.relative_to(copy).parts[:2] for p in added} == {("ops", "gated")}
    # Objects of unchanged files come from the compiler cache, where there is one.
    cache = {"CCACHE_BASEDIR": str(copy), "CCACHE_NOHASHDIR": "1"}
    run(
        "cmake",
        "-S",
        ".",
        "-B",
        "build",
        "-G",
        "Ninja",
        "-DDLBLAS_BUILD_TESTS=OFF",
        cwd=copy,
        **cache,
    )
    run("cmake", "--build", "build", "-j2", cwd=copy, **cache)
    assert digests(copy, files) == before, "a shared file changed"
    return copy


def python(tree: pathlib.Path, store: pathlib.Path, program: str) -> dict:
    out = run(
        sys.executable,
        "-c",
        program,
        cwd=tree,
        PYTHONPATH=str(tree / "build" / "python"),
        DLBLAS_CACHE=str(store),
    )
    return json.loads(out.splitlines()[-1])


def test_python_tunes_explains_and_remembers(tree: pathlib.Path, tmp_path: pathlib.Path) -> None:
    first = python(tree, tmp_path / "store", SESSION)
    assert first["source"] == "tuned" and first["counters"]["measured"] >= 18  # two tables of nine
    names = {c["implementation"]: c["supports"] for c in first["explained"]["candidates"]}
    assert names == {"cpu_one_pass": True, "cpu_two_passes": True, "reference": True}
    assert first["explained"]["source"] == "store"
    assert first["again"] == 0
    assert first["errors"] == [
        "gated_scale: x has size 7 in dimension 2; expected a multiple of 2 (2F), got 7",
        'gated_scale: gate has a wrong value; expected one of "sigmoid", "relu", got "tanh"',
        "gated_scale: scale has length 5; expected F = 32 from x [T=21, 2F=64], got 5",
    ]
    second = python(tree, tmp_path / "store", SESSION)
    assert second["source"] == "store"
    assert second["counters"]["measured"] == 0 and second["counters"]["compiled"] == 0


def test_harness_covers_it(tree: pathlib.Path) -> None:
    out = run(
        sys.executable, "-m", "dlblas", "test", "--op", "gated_scale", cwd=tree,
        PYTHONPATH=str(tree / "build" / "python"),
    )  # fmt: skip
    assert "cpu_one_pass" in out and "cpu_two_passes" in out


def test_cpp_calls_it(tree: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "main.cpp").write_text(PROGRAM)
    build = tree / "build"
    run("g++", "-std=c++20", "main.cpp", f"-I{tree}/include", f"-I{build}/generated/include",
        f"-L{build}", "-ldlblas", f"-Wl,-rpath,{build}", "-o", "main", cwd=tmp_path)  # fmt: skip
    assert run(str(tmp_path / "main"), cwd=tmp_path).split() == ["4", "0", "180", "180"]
