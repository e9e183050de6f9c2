"""docs/add_an_operator.md, replayed in a copy of the tree. The new operators are validated, tuned,
explained, differentiated, compiled for GPUs, restored from the store and called from Python and C++
without validation or binding code of their own; tests and checks that cover all operators include
them; no shared file changes. At full depth the copy passes everything that `make check` and `make
lint` run: ctest, pytest and lint.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig

import depth
import pytest
import tree_copy

# One pytest-xdist worker runs all of these, so that what they share is built once.
pytestmark = pytest.mark.xdist_group("add_an_operator")
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import check_headers  # noqa: E402
import follow_doc  # noqa: E402

TARGETS = ("python_stage", "dlblas_generated", "dlblas_describe", "dlblas_compile_all")
# Programs that cover all operators of the registry.
PROGRAMS = ("test_reasons", "test_schemas", "test_schema", "test_estimates", "test_generate")
# The fast checks of lint; at full depth all of lint runs.
CHECKS = ("arrows", "device_headers", "operator_size", "rates", "schema_cases",
          "isa_objects", "exports", "getenv")  # fmt: skip
ADDED = ("softcap", "softcap_backward", "gated_scale")
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


def run(*command: str, cwd: pathlib.Path, seconds: float = 1500, **env: str) -> str:
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, timeout=seconds
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    copy = tmp_path_factory.mktemp("tree")
    files = tree_copy.copy_tree(copy)
    passed = ROOT / "build" / "checks"
    if passed.is_dir():  # lint reads again what changed, here as there
        shutil.copytree(passed, copy / "build" / "checks")
    before = digests(copy, files)
    added = follow_doc.follow(ROOT / "docs" / "add_an_operator.md", copy)
    assert {p.relative_to(copy).parts[:2] for p in added} == {("ops", "gated"), ("ops", "logits")}
    # Objects of unchanged files come from the compiler cache if there is one.
    cache = tree_copy.environment(copy)
    told = tree_copy.options() | {"CMAKE_PREFIX_PATH": str(ROOT / "build" / "deps" / "usr")}
    options = [f"-D{name}={value}" for name, value in told.items()]
    run("cmake", "-S", ".", "-B", "build", "-G", "Ninja", *options, cwd=copy, **cache)
    run("cmake", "--build", "build", "-j2", "--target", *TARGETS, cwd=copy, **cache)
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
    assert names == {"cpu_one_pass": True, "cpu_two_passes": True, "reference": True,
                     "cuda_block": False}  # fmt: skip
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


ROWS = """
import json, numpy as np, dlblas
x = np.random.default_rng(0).normal(size=(3, 7, 130)).astype(np.float32) * 40
np.testing.assert_allclose(dlblas.softcap(x), 30 * np.tanh(x / 30), rtol=2e-6)
want = 5 * np.tanh(x / 5)
dlblas.softcap_(x, 5.0)
np.testing.assert_allclose(x, want, rtol=2e-6)
try:
    dlblas.softcap(x, cap=0.0)
except dlblas.errors.ArgumentError as error:
    refused = str(error)
op = dlblas.get_op("softcap", (x,), seconds=1.0)
np.testing.assert_allclose(op(x), 30 * np.tanh(x / 30), rtol=2e-6)
report = dlblas.explain("softcap", x).as_dict()
print(json.dumps({"refused": refused, "names": [c["implementation"] for c in report["candidates"]],
                  "source": op.report["source"], "measured": dlblas.counters()["measured"]}))
"""

GRADIENT = """
import json, torch, dlblas.torch

x = (20 * torch.randn(5, 3, 64, dtype=torch.float64)).float().requires_grad_()
dy = torch.randn(5, 3, 64)
for function in dlblas.softcap, torch.ops.dlblas.softcap, torch.compile(torch.ops.dlblas.softcap):
    (got,) = torch.autograd.grad(function(x, 30.0), x, dy)
    torch.testing.assert_close(got, dy * (1 - torch.tanh(x / 30) ** 2), rtol=1e-5, atol=1e-5)
print(json.dumps({}))
"""


def test_a_row_program_runs_at_every_level(tree: pathlib.Path, tmp_path: pathlib.Path) -> None:
    got = python(tree, tmp_path / "store", ROWS)
    assert {"cpu_baseline", "cpu_avx2", "cpu_avx512", "cuda_registers"} <= set(got["names"])
    assert got["refused"].startswith("softcap: cap is out of range; expected 1e-6 … 1e6, got 0")
    assert got["source"] == "tuned" and got["measured"] > 1
    assert python(tree, tmp_path / "store", ROWS)["source"] == "store"


def test_its_gradient(tree: pathlib.Path, tmp_path: pathlib.Path) -> None:
    pytest.importorskip("torch")
    python(tree, tmp_path / "store", GRADIENT)


def test_its_kernels_compile(tree: pathlib.Path) -> None:
    program = str(tree / "build" / "dlblas_compile_all")
    folders = [str(p) for p in pathlib.Path(sysconfig.get_path("platlib")).glob("nvidia/*/lib")]
    libs = ":".join(filter(None, [os.environ.get("DLBLAS_LIBS", ""), *folders]))
    for op, kernel in zip(ADDED, ("cuda_registers", "cuda_registers", "cuda_block"), strict=True):
        done = subprocess.run(
            [program, "--op", op], cwd=tree, env={**os.environ, "DLBLAS_LIBS": libs},
            capture_output=True, text=True, timeout=900,
        )  # fmt: skip
        if "NVRTC was not found" in done.stderr:
            pytest.skip("no NVRTC")
        out = done.stdout + done.stderr
        assert done.returncode == 0 and f"{op}.{kernel}" in out and ", 0 problems" in out, out


def pytest_in(
    tree: pathlib.Path, *options: str, least: int, seconds: float = 1500, **env: str
) -> None:
    out = run(
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, cwd=tree,
        seconds=seconds, DLBLAS_TEST_PYTHON=str(tree / "build" / "python"),
        PYTHONPATH=str(tree / "build" / "python"), **env,
    )  # fmt: skip
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|error)", out)}
    assert counts["passed"] > least and not counts.get("failed") and not counts.get("error"), out


def test_what_goes_over_all_operators_takes_them_up(tree: pathlib.Path) -> None:
    """The harness with every layout and dtype, the oracle's refusals, opcheck and fakes; tests that
    require something of all operators at once."""
    at_once = ["every_operator_is_cut", "each_is_about", "letters_of_many", "no_long_sum"]
    pytest_in(tree, "-k", " or ".join((*ADDED, *at_once)), "tests", least=20)


def test_tests_read_what_the_room_says(tree: pathlib.Path) -> None:
    """Without an edit of theirs, where a new operator needs other tests than most."""
    told = "from rooms import facts_of; print(*facts_of('gated_scale').largest.items())"
    path = tree / "ops" / "gated" / "gated_scale" / "tests.py"
    path.write_text('TESTS = {"gated_scale": {"largest": {"F": 64}}}\n')
    try:
        assert run(sys.executable, "-c", told, cwd=tree / "tests").strip() == "('F', 64)"
        tests = ["tests/test_rooms.py", "tests/test_oracle_says_no.py"]
        wanted = "gated_scale-F or letters_of_many"
        pytest_in(tree, "-k", wanted, *tests, least=2, DLBLAS_TEST_DEPTH="full")
    finally:
        path.unlink()


def test_their_pages(tree: pathlib.Path) -> None:
    """The documentation site lists them, with a meaning for each letter; regenerating the table of
    operators adds a row for each, with no manual edit."""
    fast = [] if depth.depth_of().full else ["-k", "not test_the_site"]  # a minute of sphinx
    pytest_in(tree, *fast, "tests/test_website.py", least=10)
    pages = [tree / "README.md", tree / "docs" / "all_operators.md"]
    before = [page.read_text(encoding="utf-8") for page in pages]
    try:
        for page in pages:
            run(sys.executable, "tools/figures.py", "--file", str(page.relative_to(tree)), cwd=tree)
        after = [page.read_text(encoding="utf-8") for page in pages]
        pytest_in(tree, "-k", "tables_have_every", "tests/test_docs.py", least=0)
    finally:
        for page, text in zip(pages, before, strict=True):
            page.write_text(text, encoding="utf-8")
    for op in ADDED:
        assert after[1].count(f"| `{op}` |") == 1 and f"| `{op}` |" not in before[1], op
    assert "| gated (1) |" in after[0] and "| gated (1) |" not in before[0]


def test_the_registrys_programs(tree: pathlib.Path) -> None:
    build = tree / "build"
    run("cmake", "--build", "build", "-j2", "--target", *PROGRAMS, cwd=tree,
        **tree_copy.environment(tree))  # fmt: skip
    for program in PROGRAMS:
        run(str(build / program), "--gtest_brief=1", cwd=build)


def test_the_checks_of_lint(tree: pathlib.Path) -> None:
    sources = [str(path.relative_to(tree)) for family in ("gated", "logits")
               for path in sorted((tree / "ops" / family).rglob("*"))]  # fmt: skip
    python = [path for path in sources if path.endswith(".py")]
    tools = pathlib.Path(sys.executable).parent
    for command in (["ruff", "check", "--quiet"], ["ruff", "format", "--check"]):
        run(str(tools / command[0]), *command[1:], *python, cwd=tree)
    cpp = [path for path in sources if path.endswith((".cpp", ".hpp"))]
    run(str(tools / "clang-format"), "--dry-run", "-Werror", *cpp, cwd=tree)
    run(str(tools / "codespell"), *sources, cwd=tree)
    for header in (path for path in sources if path.endswith(".hpp")):
        assert check_headers.compile_alone(tree, header) == ""
    for check in CHECKS:
        out = run(sys.executable, f"tools/check_{check}.py", cwd=tree)
        assert check != "operator_size" or "softcap_backward" in out


def test_everything(tree: pathlib.Path) -> None:
    """`make check` and `make lint`, except for setting up the machine."""
    if not depth.depth_of().full:
        pytest.skip("DLBLAS_TEST_DEPTH=full builds and runs every test and check in the copy")
    night = 4 * 3600
    if (ROOT / ".venv").exists():
        (tree / ".venv").symlink_to(ROOT / ".venv")
    run("cmake", "--build", "build", "-j2", cwd=tree, seconds=night, **tree_copy.environment(tree))
    run(sys.executable, "tools/figures.py", cwd=tree)  # the README's rows
    for command in (  # some tests and checks ask git for the files
        ["init", "-q"], ["add", "-A"],
        ["-c", "user.name=copy", "-c", "user.email=copy@localhost", "commit", "-qm", "copy"],
    ):  # fmt: skip
        run("git", *command, cwd=tree)
    # Sampled, as `make test` is.
    sample = {"seconds": night, "DLBLAS_TEST_DEPTH": "sample"}
    run("ctest", "--test-dir", "build", "-j2", "--output-on-failure", cwd=tree, **sample)
    run(sys.executable, "tools/lint.py", cwd=tree, **sample)
    # Without this file: the walkthrough is already applied in the copy.
    pytest_in(tree, "-n2", "--dist=loadgroup", "--ignore=tests/test_add_an_operator.py", "tests",
              least=1000, **sample)  # fmt: skip


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
