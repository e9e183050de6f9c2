"""The examples of docs/own.md run as documented, and are as short as documented.

Those that need a GPU say so in one sentence where there is none. Read next: test_examples.py.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import dlblas
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
PACKAGE = pathlib.Path(dlblas.__file__).parent.parent


def run(
    tmp_path: pathlib.Path, script: str, *args: str, **env: str
) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(PACKAGE),
        "DLBLAS_CACHE": str(tmp_path / "cache"),
        **env,
    }
    return subprocess.run(
        [sys.executable, str(EXAMPLES / script), *args],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900,
    )  # fmt: skip


@pytest.mark.parametrize(
    "name",
    ["own_torch.py", "own_triton.py", "own_cuda.py", "own_dlblas.py", "own_cpp/own_norm.cpp"],
)
def test_an_example_is_short(name: str) -> None:
    assert len((EXAMPLES / name).read_text(encoding="utf-8").splitlines()) < 40


@pytest.mark.parametrize("name", ["own_torch.py", "own_dlblas.py"])
def test_on_the_cpu(name: str, tmp_path: pathlib.Path) -> None:
    pytest.importorskip("torch")
    done = run(tmp_path, name, CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("verified\n"), done.stdout


@pytest.mark.parametrize("name", ["own_triton.py", "own_cuda.py"])
def test_without_a_gpu_they_say_so(name: str, tmp_path: pathlib.Path) -> None:
    pytest.importorskip("torch")
    done = run(tmp_path, name, CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"{name} needs a GPU") and done.stdout.count("\n") == 1


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["own_torch.py", "own_triton.py", "own_cuda.py"])
def test_on_a_gpu(name: str, tmp_path: pathlib.Path) -> None:
    pytest.importorskip("torch")
    done = run(tmp_path, name)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("verified\n"), done.stdout


def build(tmp_path: pathlib.Path, source: str, name: str) -> pathlib.Path:
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    text = tmp_path / f"{name}.cpp"
    text.write_text(source, encoding="utf-8")
    made = tmp_path / f"{name}.so"
    flags = ["-std=c++20", "-O2", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-shared", "-fPIC"]
    done = subprocess.run(
        [compiler, *flags, "-I", str(ROOT / "include"), str(text), "-o", str(made)],
        capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return made


def test_a_shared_object_of_its_own(tmp_path: pathlib.Path) -> None:
    source = (EXAMPLES / "own_cpp" / "own_norm.cpp").read_text(encoding="utf-8")
    made = build(tmp_path, source, "own_norm")
    done = run(tmp_path, "own_cpp/run.py", str(made))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("verified\n") and "rows=" in done.stdout


CHECK = """
import sys, dlblas
import numpy as np
dlblas.own.load(sys.argv[1])
x, w = np.ones((8, 32), np.float32), np.ones(32, np.float32)
x[3] = np.arange(32)
with dlblas.pinned("rms_norm", "own_cpp"):
    try:
        y = dlblas.rms_norm(x, w)
        print(dlblas.verify("rms_norm", (x, w), y).ok)
    except dlblas.Error as error:
        print(type(error).__name__, error)
row = next(r for r in dlblas.info()["operators"] if r["name"] == "rms_norm")
print({i["name"]: i["source_hash"] for i in row["implementations"]}["own_cpp"])
"""


def check(tmp_path: pathlib.Path, made: pathlib.Path, script: str = CHECK) -> list[str]:
    (tmp_path / "check.py").write_text(script, encoding="utf-8")
    cache = str(tmp_path / "cache")
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "DLBLAS_CACHE": cache}
    done = subprocess.run(
        [sys.executable, str(tmp_path / "check.py"), str(made)],
        env=environment, capture_output=True, text=True, timeout=480,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_what_it_throws_is_an_error_and_its_hash_is_its_files(tmp_path: pathlib.Path) -> None:
    source = (EXAMPLES / "own_cpp" / "own_norm.cpp").read_text(encoding="utf-8")
    right, hash_of_right = check(tmp_path, build(tmp_path, source, "right"))
    assert right == "True"
    throwing = source.replace(
        "  float* y = step",
        '  if (step.letter(0) == 8) throw std::runtime_error("eight rows");\n  float* y = step',
    ).replace("#include <cmath>", "#include <cmath>\n#include <stdexcept>")
    text, hash_of_throwing = check(tmp_path, build(tmp_path, throwing, "throwing"))
    assert text == "LaunchError rms_norm: own_cpp failed; expected 0, got eight rows"
    assert hash_of_right != hash_of_throwing


def test_a_shared_object_that_cannot_be_used(tmp_path: pathlib.Path) -> None:
    with pytest.raises(dlblas.errors.ArgumentError, match="load: path cannot be used"):
        dlblas.own.load(tmp_path / "none.so")
    empty = build(tmp_path, "int nothing;", "empty")
    with pytest.raises(dlblas.errors.ArgumentError, match="dlblas_own"):
        dlblas.own.load(empty)
    bad = build(
        tmp_path,
        '#include <dlblas/implementation.hpp>\n'
        'DLBLAS_OWN() { dlblas::register_implementation("rms_norms", {.name = "x"}); }\n',
        "bad",
    )  # fmt: skip
    with pytest.raises(dlblas.errors.UnknownOperatorError, match="rms_norms: operator is unknown"):
        dlblas.own.load(bad)
    throwing = build(
        tmp_path,
        '#include <dlblas/implementation.hpp>\n#include <stdexcept>\n'
        'DLBLAS_OWN() { throw std::runtime_error("no luck"); }\n',
        "throwing",
    )  # fmt: skip
    with pytest.raises(dlblas.errors.InternalError, match="no luck"):
        dlblas.own.load(throwing)


OPERATOR = r"""
#include <cmath>
#include <dlblas/implementation.hpp>
static void reference(const dlblas::Step& step, std::span<const std::int64_t> rows,
                      double* const* values, double* const* magnitudes) {
  const std::int64_t width = step.letter(1);
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::int64_t c = 0; c < width; ++c) {
      const double v = std::exp(step.input<float>(0)[rows[i] * width + c]);
      values[0][i * width + c] = magnitudes[0][i * width + c] = v;
    }
}
DLBLAS_OWN() {
  dlblas::register_operator(
      {.schema = "own_cpp_exp(x: f32[*T, C]) -> y: like(x)[*T, C]", .reference = reference});
}
"""

USE = """
import sys, dlblas
import numpy as np
dlblas.own.load(sys.argv[1])
x = np.random.default_rng(0).standard_normal((6, 10)).astype(np.float32)
np.testing.assert_allclose(dlblas.own_cpp_exp(x), np.exp(x), rtol=1e-6)

@dlblas.register("own_cpp_exp", "by_numpy")
def by_numpy(x, y):
    np.exp(x, out=y)

print(dlblas.tune("own_cpp_exp", (x,), seconds=1)["winner"]["implementation"])
"""


def test_an_operator_from_a_shared_object(tmp_path: pathlib.Path) -> None:
    assert check(tmp_path, build(tmp_path, OPERATOR, "own_exp"), USE) == ["by_numpy"]


THROWING = r"""
#include <dlblas/implementation.hpp>
#include <stdexcept>
using dlblas::ProblemRef, dlblas::Step;
static void run(const Step& step) {
  step.parallel_for(0, 4096, 1, [](std::int64_t, std::int64_t) {
    throw std::runtime_error("run words");
  });
}
static const char* supports(const ProblemRef&) { throw std::runtime_error("supports words"); }
static std::int64_t workspace(const ProblemRef&, const std::int64_t*) {
  throw std::runtime_error("workspace words");
}
static void reference(const Step&, std::span<const std::int64_t>, double* const*,
                      double* const*) {}
static void bound(const ProblemRef&, int, double*) { throw std::runtime_error("bound words"); }
DLBLAS_OWN() {
  dlblas::register_implementation("rms_norm", {.name = "t_run", .run = run});
  dlblas::register_implementation("rms_norm", {.name = "t_says", .run = run,
                                               .supports = supports});
  dlblas::register_implementation("rms_norm", {.name = "t_room", .run = run,
                                               .workspace = workspace});
  dlblas::register_operator({.schema = "own_thrown(x: f32[*T, C]) -> y: like(x)[*T, C]",
                             .reference = reference, .bound = bound});
}
"""

CATCH = """
import sys, dlblas
import numpy as np
dlblas.own.load(sys.argv[1])
x, w = np.ones((8, 32), np.float32), np.ones(32, np.float32)
for name in ("t_run", "t_says", "t_room"):
    with dlblas.pinned("rms_norm", name):
        try:
            dlblas.rms_norm(x, w)
        except dlblas.Error as error:
            print(type(error).__name__, [s for s in str(error).splitlines() if "words" in s][0])
try:
    dlblas.verify("own_thrown", (x,), dlblas.own_thrown(x))
except dlblas.Error as error:
    print(type(error).__name__, error)
"""


def test_nothing_thrown_ends_the_process(tmp_path: pathlib.Path) -> None:
    assert check(tmp_path, build(tmp_path, THROWING, "throwing"), CATCH) == [
        "LaunchError rms_norm: t_run failed; expected 0, got run words",
        "UnsupportedError   pinned: t_says: no: its supports() threw supports words",
        "LaunchError rms_norm: workspace of t_room failed; expected 0 bytes or more, got "
        "workspace words",
        "LaunchError own_thrown: bound failed; expected three numbers from 0 on, got bound words",
    ]


REFUSED = r"""
#include <cstdlib>
#include <dlblas/implementation.hpp>
static void run(const dlblas::Step&) {}
DLBLAS_OWN() {
  const std::string what = std::getenv("WHAT");
  dlblas::OwnImplementation own{.name = "t", .run = run, .knobs = {{"a", {1, 2}}}};
  if (what == "preset") own.preset = {1, 1};
  if (what == "labels") own.knobs[0].labels = {"p"};
  if (what == "alike") own.knobs[0].labels = {"p", "p"};
  if (what == "hash") own.source_hash = "two words";
  dlblas::register_implementation("rms_norm", own);
}
"""


def test_what_the_header_refuses_is_typed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = build(tmp_path, REFUSED, "refused")
    for what, words in {
        "preset": "dlblas: preset has a wrong length; expected 1, got 2",
        "labels": "dlblas: knobs has a wrong number of labels for a; expected 2, got 1",
        "alike": "rms_norm: knobs has a label twice; expected different labels of a, got p",
        "hash": "rms_norm: source_hash is no word; expected 1 to 256 letters without spaces, got "
        "two words",
    }.items():
        monkeypatch.setenv("WHAT", what)
        with pytest.raises(dlblas.errors.ArgumentError) as caught:
            dlblas.own.load(made)
        assert str(caught.value) == words
