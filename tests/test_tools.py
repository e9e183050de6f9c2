"""Each check in tools/ catches what it is for: it reports a violation planted in a small tree, and
nothing else."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
CXX = os.environ.get("CXX", "c++")

# A tree that passes: path -> text.
CLEAN = {
    "src/core/env.cpp": 'const char* kName = "DLBLAS_CACHE";\n',
    "src/core/types.hpp": "#pragma once\nint core_value();\n",
    "src/tuner/measure.cpp": "auto t = std::chrono::steady_clock::now();\n",
    "src/dispatch/select.hpp": '#pragma once\n#include "core/types.hpp"\n// As rms_norm(x) does.\n',
    "cpu/simd.hpp": "#pragma once\ninline int lanes() { return 4; }\n",
    "ops/norm/norm.cpp": '#include "cpu/simd.hpp"\nauto* s = "rms_norm(x: f[C]) -> y: f[C]";\n',
    "ops/norm/norm.hpp": '#pragma once\n#include "cpu/simd.hpp"\nnamespace dlblas::norm::a {\n}\n',
    "ops/norm/simd.hpp": "#pragma once\nnamespace dlblas::avx2 {\nnamespace detail {\n}\n}\n",
    "ops/gemm/gemm.cpp": '#include "core/types.hpp"\n',
    "include/dlblas/dlblas.h": "#ifndef H_\n#define H_\nint dlblas_abi_version(void);\n#endif\n",
    "python/dlblas/env.py": 'NAME = "DLBLAS_CACHE"\n',
    "tools/cases.schema.json": (ROOT / "tools" / "cases.schema.json").read_text(),
}
CASE = {"name": "a", "op": "rms_norm", "dims": {"T": 1, "C": 8}, "dtypes": ["f32"], "use": ["test"]}


def plant(root: pathlib.Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def run(tool: str, root: pathlib.Path, *extra: str) -> tuple[int, str]:
    command = [sys.executable, str(ROOT / "tools" / tool), "--root", str(root), *extra]
    done = subprocess.run(command, capture_output=True, text=True, timeout=480)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    "tool",
    [
        "check_arrows.py",
        "check_collectives.py",
        "check_getenv.py",
        "check_headers.py",
        "check_moved_params.py",
        "check_rates.py",
        "check_read_next.py",
    ],
)
def test_a_clean_tree_passes(tool: str, tmp_path: pathlib.Path) -> None:
    plant(tmp_path, CLEAN)
    code, text = run(tool, tmp_path)
    assert code == 0, text


def test_pyright_reads_the_package(tmp_path: pathlib.Path) -> None:
    plant(tmp_path, {"python/dlblas/good.py": "x: int = 1\n"})
    code, text = run("check_pyright.py", tmp_path)
    assert code == 0, text
    if "left out" in text:
        pytest.skip(text)
    plant(tmp_path, {"python/dlblas/bad.py": "x: int = 1\ny: str = x\n"})
    for _ in range(2):  # what is wrong is not remembered as right
        code, text = run("check_pyright.py", tmp_path)
        assert code == 1 and "dlblas/bad.py:2: " in text, text


VIOLATIONS = [
    (
        "check_arrows.py",
        "src/core/up.hpp",
        '#include "dispatch/select.hpp"\n',
        "core may not include dispatch",
    ),
    ("check_arrows.py", "cpu/up.hpp", '#include "ops/norm/norm.hpp"\n', "cpu may not include ops"),
    (
        "check_arrows.py",
        "src/jit/up.cpp",
        '#include "registry/r.hpp"\n',
        "jit may not include registry",
    ),
    (
        "check_arrows.py",
        "ops/gemm/far.cpp",
        '#include "../norm/norm.hpp"\n',
        "family gemm includes family norm",
    ),
    (
        "check_arrows.py",
        "src/dispatch/op.cpp",
        'if (name == "rms_norm") return;\n',
        "names the operator rms_norm",
    ),
    (
        "check_arrows.py",
        "ops/norm/t.cpp",
        "auto t = std::chrono::steady_clock::now();\n",
        "outside src/tuner",
    ),
    ("check_arrows.py", "src/misc/x.hpp", "#pragma once\n", "not a folder of the architecture"),
    (
        "check_arrows.py",
        "ops/norm/plain.cuh",
        "#pragma once\nnamespace dlblas {\n}\n",
        "plain.cuh:2: opens dlblas; expected dlblas::norm",
    ),
    (
        "check_arrows.py",
        "ops/norm/other.hpp",
        "#pragma once\nnamespace dlblas::norm {\n}\nnamespace dlblas::gemm {\n}\n",
        "other.hpp:4: opens dlblas::gemm; expected dlblas::norm",
    ),
    (
        "check_arrows.py",
        "ops/norm/global.hpp",
        "#pragma once\nnamespace norm {\n}\n",
        "global.hpp:2: opens norm; expected dlblas::norm",
    ),
    (
        "check_arrows.py",
        "ops/common/shared.hpp",
        "#pragma once\nnamespace dlblas::norms {\n}\n",
        "shared.hpp:2: opens dlblas::norms; expected dlblas::<family>",
    ),
    (
        "check_getenv.py",
        "src/core/log.cpp",
        'auto* v = std::getenv("HOME");\n',
        "log.cpp:1: getenv outside",
    ),
    (
        "check_getenv.py",
        "python/dlblas/x.py",
        "os.environ['DLBLAS_NEW']\n",
        "DLBLAS_NEW is not in the table",
    ),
    (
        "check_getenv.py",
        "src/core/env.cpp",
        "".join(f'"DLBLAS_V{i}"\n' for i in range(15)) + '"DLBLAS_CACHE"\n',
        "16 variables; at most 15",
    ),
    (
        "check_headers.py",
        "src/core/bad.hpp",
        "#pragma once\nstd::string s();\n",
        "bad.hpp: does not compile alone",
    ),
    (
        "check_headers.py",
        "src/core/twice.hpp",
        "struct Twice {};\n",
        "twice.hpp: does not compile alone",
    ),
    ("check_headers.py", "include/dlblas/c.h", "class NotC;\n", "c.h: does not compile alone"),
    (
        "check_headers.py",
        "cpu/part.hpp",
        '// Included by cpu/whole.hpp alone.\n#include "cpu/part.hpp"\n',
        "part of cpu/whole.hpp alone",
    ),
    (
        "check_rates.py",
        "ops/norm/a.cpp",
        "constexpr double kRate = 31e9;\n",
        "a.cpp:1: the rate 31e9",
    ),
    (
        "check_read_next.py",
        "ops/norm/x/a.hpp",
        "// A part of x.\n// Read next: core/types.hpp, simd.hpp (lanes),\n// norm/gone.hpp.\n",
        "ops/norm/x/a.hpp: Read next: norm/gone.hpp is not there",
    ),
    ("check_rates.py", "ops/norm/x/a.cuh", "\nauto r = 1.95E+12f;\n", "a.cuh:2: the rate 1.95E+12"),
    (
        "check_rates.py",
        "ops/x/y/z/a.hpp",
        "auto r = 4'200'000'000.0;\n",
        "the rate 4'200'000'000.0",
    ),
    (
        "check_moved_params.py",
        "ops/x/y/a.cuh",
        "__global__ void __launch_bounds__(f(8))\n    k(const __grid_constant__ Params<T, 1> p) {\n"
        "  const Other kept = {p.gemm, 1};\n  if (p.gemm.m) {\n"
        "    GemmParams<Epilogue> mine = {p.gemm, p.epilogue};\n  }\n}\n",
        "a.cuh:5: mine is a struct of members",
    ),
    (
        "check_collectives.py",
        "ops/x/y/a.cuh",
        "bool again = kMany && next(1) > 0;\n\nagain = close || next(last) > 0;\n",
        "a.cuh:3: next behind ||",
    ),
    (
        "check_collectives.py",
        "ops/x/y/a.cuh",
        "float sum() {\n  return mine ? __shfl_xor_sync(~0u, v, 1) : 0;\n}\n",
        "a.cuh:2: __shfl_xor_sync behind ?",
    ),
]


@pytest.mark.parametrize(("tool", "path", "text", "expected"), VIOLATIONS)
def test_a_planted_violation_is_caught(
    tool: str, path: str, text: str, expected: str, tmp_path: pathlib.Path
) -> None:
    plant(tmp_path, {**CLEAN, "src/registry/r.hpp": "#pragma once\n", path: text})
    if "whole" in text:
        plant(tmp_path, {"cpu/whole.hpp": "#pragma once\n"})
    code, out = run(tool, tmp_path)
    assert code == 1
    assert expected in out
    assert all(path in line for line in out.splitlines()), out


def test_headers_are_compiled_again_when_what_they_include_changes(tmp_path: pathlib.Path) -> None:
    plant(tmp_path, CLEAN)
    assert run("check_headers.py", tmp_path)[0] == 0
    plant(tmp_path, {"src/core/types.hpp": "#pragma once\nUnknown core_value();\n"})
    code, out = run("check_headers.py", tmp_path)
    assert code == 1
    assert "src/core/types.hpp" in out and "src/dispatch/select.hpp" in out


def test_what_is_no_rate_passes(tmp_path: pathlib.Path) -> None:
    lines = (
        "// 31e9 bytes a second\n"
        'auto words = "of 4.2e12";\n'
        "constexpr double kLaunch = 2.5e-6, kPart = 0.975;\n"
        "constexpr long kMax = 4000000000, kMask = 0x1e10;\n"
        "constexpr double kSentinel = 1e300;  // no rate\n"
    )
    plant(tmp_path, {"ops/norm/a.cpp": lines, "src/core/rates.cpp": "double r = 31e9;\n"})
    assert run("check_rates.py", tmp_path)[0] == 0


def build_object(root: pathlib.Path, text: str) -> None:
    plant(root, {"ops/norm/cpu/norm_avx2.cpp": text})
    obj = root / "build/CMakeFiles/dlblas_objects.dir/ops/norm/cpu/norm_avx2.cpp.o"
    obj.parent.mkdir(parents=True, exist_ok=True)
    source = root / "ops/norm/cpu/norm_avx2.cpp"
    subprocess.run([CXX, "-std=c++20", "-c", str(source), "-o", str(obj)], check=True)


def test_weak_symbols_in_isa_objects_are_caught(tmp_path: pathlib.Path) -> None:
    build_object(tmp_path, "static int f() { return 1; }\nint g() { return f(); }\n")
    assert run("check_isa_objects.py", tmp_path)[0] == 0
    build_object(tmp_path, "inline int f() { return 1; }\nint g() { return f(); }\n")
    code, out = run("check_isa_objects.py", tmp_path)
    assert code == 1
    assert "norm_avx2.cpp: weak symbol f()" in out


def test_isa_sources_without_objects_are_an_error(tmp_path: pathlib.Path) -> None:
    plant(tmp_path, {"ops/norm/cpu/norm_avx2.cpp": "int g();\n"})
    code, out = run("check_isa_objects.py", tmp_path)
    assert code == 1
    assert "build first" in out


def test_operators_that_cost_too_much_are_caught(tmp_path: pathlib.Path) -> None:
    plant(tmp_path, {"ops/norm/small/small.cpp": "int f();\n" * 249})
    plant(tmp_path, {"ops/norm/small/small_program.hpp": "struct Small;\n"})
    plant(tmp_path, {"ops/norm/large/large.cpp": "int f();\n" * 999})  # its kernels are its own
    objects = tmp_path / "build/CMakeFiles/dlblas_objects.dir"
    for path, told, sizes in (
        ("generated/rows/small_avx2.cpp.o", "small 250 lines {} kB", {59_000: 0, 61_000: 1}),
        ("ops/norm/large/cpu/large_avx512.cpp.o", "large 999 lines {} kB", {59_000: 0, 61_000: 1}),
        ("ops/norm/shared_baseline.cpp.o", ", shared {} kB", {59_000: 0, 61_000: 1}),
        ("ops/norm/large/large.cpp.o", "large 999 lines (host {})", {61_000: 0}),
        ("cpu/gemm/loops_avx2.cpp.o", ", gemm/loops {} kB", {59_000: 0, 61_000: 1}),
        ("cpu/peak_avx2.cpp.o", ", peak {} kB", {59_000: 0}),
    ):
        obj = objects / path
        obj.parent.mkdir(parents=True, exist_ok=True)
        for size, code in sizes.items():
            plant(tmp_path, {"code.cpp": f"extern const char f[{size}] = {{1}};\n"})
            subprocess.run([CXX, "-c", str(tmp_path / "code.cpp"), "-o", str(obj)], check=True)
            got, out = run("check_operator_size.py", tmp_path)
            assert got == code, out
            assert (" bytes of code; " if code else told.format(size // 1000)) in out, out
        obj.unlink()
    plant(tmp_path, {"ops/norm/small/small.py": '"""One line more."""\n'})
    code, out = run("check_operator_size.py", tmp_path)
    assert code == 1 and "small: 251 lines; at most 250" in out


def build_library(root: pathlib.Path, text: str, *flags: str) -> str:
    plant(root, {"lib.cpp": text})
    library = root / "libdlblas.so"
    source = str(root / "lib.cpp")
    subprocess.run([CXX, "-shared", "-fPIC", source, "-o", str(library), *flags], check=True)
    return str(library)


@pytest.mark.parametrize(
    ("text", "flags", "expected"),
    [
        ('extern "C" int dlblas_x() { return 0; }\n', ["-static-libstdc++"], ""),
        (
            'extern "C" int dlblas_x() { return 0; }\nint leak() { return 1; }\n',
            [],
            "exports _Z4leakv",
        ),
        (
            '#include <string>\nextern "C" int dlblas_x() { throw std::string(); }\n',
            ["-fvisibility=hidden"],
            "needs libstdc++.so.6",
        ),
        ("static int nothing;\n", ["-fvisibility=hidden"], "exports nothing"),
    ],
)
def test_exports(text: str, flags: list[str], expected: str, tmp_path: pathlib.Path) -> None:
    code, out = run(
        "check_exports.py", tmp_path, "--library", build_library(tmp_path, text, *flags)
    )
    assert code == (1 if expected else 0), out
    assert expected in out


@pytest.mark.parametrize(
    ("cases", "expected"),
    [
        ([CASE], ""),
        ([], "should be non-empty"),
        ([{**CASE, "shape": [1]}], "'shape' was unexpected"),
        ([{key: CASE[key] for key in CASE if key != "op"}], "'op' is a required property"),
        ([{**CASE, "use": ["train"]}], "'train' is not one of"),
        ([{**CASE, "dims": {"T": -1, "C": 8}}], "at 0/dims/T"),
        ([CASE, CASE], "two cases named a"),
    ],
)
def test_cases(cases: object, expected: str, tmp_path: pathlib.Path) -> None:
    plant(tmp_path, {"ops/norm/rms_norm/cases.json": json.dumps(cases)})
    code, out = run("check_schema_cases.py", tmp_path, "--no-library")
    assert code == (1 if expected else 0), out
    assert expected in out


def test_cases_are_compared_with_the_library(tmp_path: pathlib.Path) -> None:
    """With a stand-in library of one operator: wrong letters, unknown and uncovered operators."""
    letters = [{"name": "T"}, {"name": "C"}]
    info = json.dumps({"operators": [{"name": "rms_norm", "letters": letters}]})
    text = (
        "#include <cstring>\n#include <cstdlib>\n"
        'extern "C" int dlblas_info(char** t) {\n'
        f"  *t = strdup({json.dumps(info)});\n  return 0;\n}}\n"
        'extern "C" void dlblas_free(void* p) { free(p); }\n'
    )
    library = build_library(tmp_path, text)
    for changed, expected in [
        ({}, ""),
        ({"dims": {"T": 1}}, "has dims T; rms_norm wants C, T"),
        ({"op": "other"}, "unknown operator other"),
        ({"op": "other"}, "rms_norm has no case"),
    ]:
        plant(tmp_path, {"ops/norm/rms_norm/cases.json": json.dumps([{**CASE, **changed}])})
        code, out = run("check_schema_cases.py", tmp_path, "--library", library)
        assert code == (1 if expected else 0), out
        assert expected in out


def setup_run(root: pathlib.Path, kind: str, **env: str) -> tuple[int, str]:
    command = [sys.executable, str(root / "tools" / "setup.py"), kind]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **env}, timeout=900
    )
    return done.returncode, done.stderr


def setup_tree(tmp_path: pathlib.Path, lock: str) -> pathlib.Path:
    root = tmp_path / "a tree"
    (root / "tools").mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "tools" / "setup.py", root / "tools")
    (root / "tools" / "requirements.lock").write_text(lock)
    return root


def make_wheel(folder: pathlib.Path) -> tuple[pathlib.Path, str]:
    """A wheel with one module, and its digest."""
    folder.mkdir(exist_ok=True)
    wheel = folder / "tiny_package-1.0-py3-none-any.whl"
    info = "tiny_package-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny_package.py", "")
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-package\nVersion: 1.0\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return wheel, hashlib.sha256(wheel.read_bytes()).hexdigest()


def test_setup_names_the_package_that_could_not_be_fetched(tmp_path: pathlib.Path) -> None:
    root = setup_tree(tmp_path, f"# [demo]\nno-such-package==0 \\\n    --hash=sha256:{'0' * 64}\n")
    code, text = setup_run(root, "demo", PIP_NO_INDEX="1")
    assert code == 1
    assert text.splitlines()[-1].startswith("setup: could not install no-such-package==0 from PyPI")
    # A stamped set-up fetches nothing again: the second run works without any index.
    setup_tree(tmp_path, "# [demo]\n")
    assert setup_run(root, "demo", PIP_NO_INDEX="1") == (0, "")
    assert (root / ".venv" / "bin" / "dlblas").exists()
    assert setup_run(root, "demo", PIP_NO_INDEX="1", PATH="/usr/bin:/bin") == (0, "")


@pytest.mark.attack("packages that are not what the lock names")
def test_setup_installs_what_the_lock_names_and_nothing_else(tmp_path: pathlib.Path) -> None:
    wheel, sha256 = make_wheel(tmp_path / "wheels")
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheel.parent)}
    lock = "# [demo]\ntiny-package==1.0 \\\n    --hash=sha256:{}\n"
    root = setup_tree(tmp_path, lock.format("1" * 64))
    code, text = setup_run(root, "demo", **offline)
    assert (code, text) == (
        1,
        "setup: tiny-package==1.0 from PyPI is not what requirements.lock names: its sha256 "
        "differs, and it was not installed; check the network for what comes between.\n",
    )
    installed = "lib/python3.*/site-packages/tiny_package.py"
    assert not list((root / ".venv").glob(installed))
    # A lock line needs a hash.
    setup_tree(tmp_path, "# [demo]\ntiny-package==1.0\n")
    assert setup_run(root, "demo", **offline)[0] == 1
    assert not list((root / ".venv").glob(installed))
    # An optional package may fail; the rest is installed.
    optional = "# [demo, optional: no-such]\nno-such==1 \\\n    --hash=sha256:" + "2" * 64 + "\n"
    setup_tree(tmp_path, lock.format(sha256) + optional)
    assert setup_run(root, "demo", **offline) == (0, "")
    assert list((root / ".venv").glob(installed))
    # The stamp depends on the lock: another digest is checked again, for a source archive too.
    wheel.rename(wheel.with_name("tiny_package-1.0.tar.gz"))
    shutil.rmtree(root / ".venv")
    code, text = setup_run(root, "demo", **offline)
    assert code == 1 and "could not install tiny-package==1.0" in text


@pytest.mark.attack("packages that are not what the lock names")
def test_setup_of_the_demo_with_hashes(tmp_path: pathlib.Path) -> None:
    """The real set-up of `make demo`, from PyPI, in a new folder."""
    root = setup_tree(tmp_path, (ROOT / "tools" / "requirements.lock").read_text())
    code, text = setup_run(root, "demo", PIP_RETRIES="1")
    if code == 1:
        probe = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--no-deps",
            "-q",
            "-d",
            str(tmp_path),
            "ninja",
        ]
        if subprocess.run(probe, capture_output=True, timeout=800).returncode != 0:
            pytest.skip("PyPI cannot be reached from here")
    assert (code, text) == (0, "")
    python = str(root / ".venv" / "bin" / "python")
    code_text = "import numpy; print(numpy.__version__)"
    done = subprocess.run([python, "-c", code_text], capture_output=True, text=True)
    assert f"numpy=={done.stdout.strip()} " in (ROOT / "tools" / "requirements.lock").read_text()


@pytest.mark.attack("packages that are not what the lock names")
def test_the_lock_holds_what_is_asked_for(tmp_path: pathlib.Path) -> None:
    shutil.copytree(ROOT / "tools", tmp_path / "tools")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    command = [sys.executable, str(tmp_path / "tools" / "lock.py"), "--check"]

    def check() -> tuple[int, str]:
        done = subprocess.run(command, capture_output=True, text=True, timeout=240)
        return done.returncode, done.stderr

    assert check() == (0, "")
    demo = tmp_path / "tools" / "requirements-demo.txt"
    asked = demo.read_text()
    demo.write_text(asked + "one-more>=1\n")
    assert "lock: one-more is not there for Python 3.10 on x86_64; run python" in check()[1]
    demo.write_text(asked.replace("ninja>=1.11", "ninja>=99"))
    assert "lock: ninja==1." in check()[1] and "does not meet ninja>=99" in check()[1]
    demo.write_text(asked)
    lock = tmp_path / "tools" / "requirements.lock"
    text = lock.read_text()
    lock.write_text(re.sub(r"(?m)^ninja==.*\n(    --hash.*\n)+", "ninja>=1.11\n", text))
    assert "lock: ninja has no exact version with a hash" in check()[1]


def test_setup_without_a_compiler_says_what_to_install(tmp_path: pathlib.Path) -> None:
    code, text = setup_run(ROOT, "demo", CXX="no-such-compiler")
    assert code == 2
    assert text == "setup: no C++ compiler was found; run `sudo apt-get install g++`.\n"


def test_setup_without_venv_says_what_to_install(tmp_path: pathlib.Path) -> None:
    """Debian's Python without python3-venv has venv but no ensurepip."""
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "setup.py", tmp_path / "tools")
    (tmp_path / "tools" / "requirements.lock").write_text("")
    hide = (
        "import importlib.util, runpy, sys\nfind = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda n, p=None: None if n == 'ensurepip' else find(n, p)\n"
        f"sys.argv = ['setup.py', 'demo']\nrunpy.run_path({str(tmp_path / 'tools/setup.py')!r},"
        " run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, "-c", hide], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "sudo apt-get install python3-venv" in done.stderr


def test_the_lock_names_one_version_for_a_python() -> None:
    code = "import lock, sys; print('\\n'.join(lock.pinned(sys.argv[2:], sys.argv[1])))"
    for python in ("3.10", "3.12"):
        done = subprocess.run(
            [sys.executable, "-c", code, python, "numpy", "tomli", "pytest==0.0", "no-such"],
            cwd=ROOT / "tools", capture_output=True, text=True,
        )  # fmt: skip
        lines = done.stdout.splitlines()
        names = [line.partition("==")[0] for line in lines]
        assert names == (["numpy", "tomli"] if python == "3.10" else ["numpy"]), done.stderr
        assert all(" --hash=sha256:" in line and ";" not in line for line in lines)
