"""A C++ project finds an installed dlblas, shared or static, builds against it and runs; built from
source, it gets nothing more. The examples in examples/cpp build against that tree and run."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import tree_copy

# One pytest-xdist worker runs all of these, so that what they share is built once.
pytestmark = pytest.mark.xdist_group("consumer")
ROOT = pathlib.Path(__file__).resolve().parent.parent
CONSUMER = ROOT / "tests" / "consumer"
EXAMPLES = ROOT / "examples" / "cpp"
VERSION = (ROOT / "VERSION").read_text().strip()
STATIC = (ROOT / "build" / "libdlblas.a").exists()
needs_static = pytest.mark.skipif(not STATIC, reason="build/ was made without DLBLAS_STATIC")

# What each example must print.
SAYS = {
    "minimal": ["19 22 43 50"],
    "rms_norm": ["new ", "given ", "in place ", "implementation"],
    "matmul_tuned": ["out[0] = 64, expected 64", "measured: "],
    "own_stream": [
        "a new result, in memory of the program's: right",
        "into a destination: right",
        "rms_norm: weight has length 1023; expected C = 1024",
        "asked of the program: 1 results",
        "\nok\n",
    ],
}


COMMANDS = ["-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]  # of the project's own files, too


def attempt(
    *command: str | pathlib.Path, timeout: int = 900, **more: str
) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if not key.startswith("DLBLAS_")}
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        env={**env, **more},
        timeout=timeout,
    )


def run(*command: str | pathlib.Path, timeout: int = 900, **more: str) -> str:
    done = attempt(*command, timeout=timeout, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """An installed tree that was moved afterwards: nothing in it may depend on its first place."""
    folder = tmp_path_factory.mktemp("installed")
    run("cmake", "--install", ROOT / "build", "--prefix", folder / "prefix")
    return (folder / "prefix").rename(folder / "moved")


def configure(source: pathlib.Path, build: pathlib.Path, *options: str) -> None:
    run("cmake", "-S", source, "-B", build, "-G", "Ninja", *options)


def build_consumer(installed: pathlib.Path, build: pathlib.Path, component: str) -> pathlib.Path:
    options = [f"-DCMAKE_PREFIX_PATH={installed}", f"-DDLBLAS_COMPONENT={component}"]
    configure(CONSUMER, build, *options)
    assert str(installed) in (build / "CMakeCache.txt").read_text()
    run("cmake", "--build", build)
    return build / "consumer"


def test_find_package_from_an_installed_tree(
    installed: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    # Nothing that belongs to Python, and nothing that is not public.
    assert sorted(p.name for p in installed.iterdir()) == ["include", "lib"]
    consumer = build_consumer(installed, tmp_path / "build", "shared")
    assert run(consumer) == f"dlblas {VERSION} ok\n"


def test_no_installed_text_names_a_folder(installed: pathlib.Path) -> None:
    texts = [p for p in installed.rglob("*") if p.suffix in {".cmake", ".h", ".hpp", ".pc"}]
    assert len(texts) > 12
    for path in texts:
        text = path.read_text(encoding="utf-8")
        assert str(ROOT) not in text and str(installed.parent) not in text, path


def test_pkg_config_finds_the_tree(installed: pathlib.Path, tmp_path: pathlib.Path) -> None:
    if not shutil.which("pkg-config"):
        pytest.skip("no pkg-config here")
    where = {"PKG_CONFIG_PATH": str(installed / "lib" / "pkgconfig")}
    assert run("pkg-config", "--modversion", "dlblas", **where) == f"{VERSION}\n"
    flags = run("pkg-config", "--cflags", "--libs", "dlblas", **where).split()
    program, rpath = tmp_path / "program", f"-Wl,-rpath,{installed / 'lib'}"
    run("g++", "-std=c++20", CONSUMER / "main.cpp", *flags, rpath, "-o", program)
    assert run(program) == f"dlblas {VERSION} ok\n"


def files_below(folder: pathlib.Path) -> set[pathlib.Path]:
    """Includes links: a library's plain name is one."""
    found = (p for p in folder.rglob("*") if p.is_symlink() or not p.is_dir())
    return {p.relative_to(folder) for p in found}


def test_two_components_are_the_whole(installed: pathlib.Path, tmp_path: pathlib.Path) -> None:
    for component in ("runtime", "development"):
        prefix = tmp_path / component
        run("cmake", "--install", ROOT / "build", "--prefix", prefix, "--component", component)
    runtime, development = (files_below(tmp_path / part) for part in ("runtime", "development"))
    # What a program needs to run: the library, and the worker that it starts for measuring.
    assert {p.parent for p in runtime} == {pathlib.Path("lib")}
    libraries = {p.name for p in runtime if re.fullmatch(r"libdlblas\.so\.[\d.]+", p.name)}
    assert libraries and {p.name for p in runtime} == libraries | {"dlblas_worker"}
    assert pathlib.Path("lib/libdlblas.so") in development
    assert not runtime & development
    assert files_below(installed) == runtime | development


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("dlblas 9.9 REQUIRED", f"version: {VERSION}"),
        ("dlblas 0.1 REQUIRED COMPONENTS fortran", "without its component 'fortran'"),
    ],
)
def test_what_is_not_there_is_said(
    asked: str, said: str, installed: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    text = "cmake_minimum_required(VERSION 3.25)\nproject(asks LANGUAGES CXX)\n"
    (tmp_path / "CMakeLists.txt").write_text(f"{text}find_package({asked})\n")
    done = attempt(
        "cmake", "-S", tmp_path, "-B", tmp_path / "b", f"-DCMAKE_PREFIX_PATH={installed}"
    )
    assert done.returncode != 0
    assert said in " ".join(done.stderr.split())


def defined(*options: str) -> set[str]:
    return {line.split()[-1] for line in run("nm", "--defined-only", *options).splitlines() if line}


@needs_static
def test_the_static_library_shows_what_the_shared_one_does(installed: pathlib.Path) -> None:
    """It exports no symbol of the C++ runtime and none of the library's internals."""
    archive = installed / "lib" / "libdlblas.a"
    shown = {name for name in defined("-g", str(archive)) if not name.endswith(":")}
    assert shown == defined("-D", str(installed / "lib" / "libdlblas.so"))
    # No static constructors: unused code adds nothing to a program's start.
    assert ".init_array" not in run("readelf", "-SW", archive)


@needs_static
def test_a_program_with_the_static_library_stands_alone(
    installed: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    static = build_consumer(installed, tmp_path / "static", "static")
    shared = build_consumer(installed, tmp_path / "shared", "shared")
    assert run(static) == f"dlblas {VERSION} ok\n"
    needed = set(re.findall(r"NEEDED.*\[(.+?)\.so", run("readelf", "-d", static)))
    system = {"libstdc++", "libgcc_s", "libm", "libc", "libdl", "libpthread"}
    assert {name for name in needed if not name.startswith("ld-linux")} <= system
    # Every operator and implementation is registered: the linker dropped none.
    inventories = []
    for program in (static, shared):
        told = json.loads(run(program, "--info"))
        inventories.append({o["name"]: o["implementations"] for o in told["operators"]})
    assert inventories[0] == inventories[1]
    assert inventories[0]
    # A shared object that contains the library exports none of its symbols.
    assert defined("-D", str(tmp_path / "static" / "libplugin.so")) == {"plugin_works"}


@pytest.mark.parametrize("component", ["shared", pytest.param("static", marks=needs_static)])
def test_a_project_without_cpp(
    component: str, installed: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    options = [f"-DCMAKE_PREFIX_PATH={installed}", f"-DDLBLAS_COMPONENT={component}"]
    configure(CONSUMER / "c", tmp_path, *options, "-DCMAKE_C_FLAGS=-Wall -Wextra -Werror")
    run("cmake", "--build", tmp_path)
    assert run(tmp_path / "consumer") == f"dlblas {VERSION} ok\n"


def test_fetch_content_adds_the_library_only(tmp_path: pathlib.Path) -> None:
    configure(CONSUMER, tmp_path, f"-DDLBLAS_TREE={ROOT}", *COMMANDS)
    targets = run("cmake", "--build", tmp_path, "--target", "help")
    assert "libdlblas.so" in targets
    commands = json.loads((tmp_path / "compile_commands.json").read_text())
    of_library = [c for c in commands if "dlblas_objects.dir" in c["output"]]
    assert len(of_library) > 50
    for command in of_library:  # whatever the project's build type, here none at all
        assert re.search(r" -O[23] ", command["command"]), command
        assert " -DNDEBUG " in command["command"]
    (own,) = [c for c in commands if c["file"].endswith("consumer/main.cpp")]
    assert not re.search(r" -O| -DNDEBUG", own["command"])  # the project's own flags stay
    assert not re.search(r"python_stage|libdlblas\.a|^test_\w+:", targets, re.MULTILINE)


def test_fetch_content_is_optimised_in_a_debug_project(tmp_path: pathlib.Path) -> None:
    tree = [f"-DDLBLAS_TREE={ROOT}", "-DCMAKE_BUILD_TYPE=Debug", *COMMANDS]
    configure(CONSUMER, tmp_path, *tree)
    commands = json.loads((tmp_path / "compile_commands.json").read_text())
    levels = {
        c["file"]: re.findall(r" -O(\w)", c["command"])[-1:]
        for c in commands
        if "dlblas_objects.dir" in c["output"]
    }
    assert len(levels) > 50 and set(map(tuple, levels.values())) == {("2",), ("3",)}
    (own,) = [c for c in commands if c["file"].endswith("consumer/main.cpp")]
    assert " -O" not in own["command"]
    configure(CONSUMER, tmp_path, *tree, "-DDLBLAS_DEBUG=ON")
    assert "-O2" not in (tmp_path / "compile_commands.json").read_text()


OF_SOME = """
import dlblas, dlblas.kernels, dlblas.nn, numpy as np
x, w = np.ones((3, 64), "f"), np.ones(64, "f")
np.testing.assert_allclose(dlblas.rms_norm(x, w), x, rtol=1e-5)
print(sorted(row["name"] for row in dlblas.info()["operators"]))
try:
    dlblas.linear(x, x)
except dlblas.errors.UnknownOperatorError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def fetched(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The build of a project that fetches a copy of the tree, with the one operator it calls."""
    folder = tmp_path_factory.mktemp("fetched")
    tree, build = folder / "tree", folder / "build"
    tree.mkdir()
    tree_copy.copy_tree(tree)
    options = [f"-DDLBLAS_TREE={tree}", "-DDLBLAS_OPERATORS=rms_norm", "-DDLBLAS_PCH=ON"]
    options += ["-DDLBLAS_STATIC=ON", "-DDLBLAS_COMPONENT=static", "-DDLBLAS_BUILD_PYTHON=ON"]
    options += ["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-O0 -DNDEBUG", *COMMANDS]
    configure(CONSUMER, build, *options)
    run("cmake", "--build", build, "--target", "consumer", "python_stage", timeout=1500)
    return folder


def test_fetch_content_builds_and_runs(fetched: pathlib.Path) -> None:
    consumer = fetched / "build" / "consumer"
    assert run(consumer) == f"dlblas {VERSION} ok\n"
    assert "libdlblas" not in run("readelf", "-d", consumer)


def test_a_library_of_some_operators(fetched: pathlib.Path) -> None:
    """Operators left out are not compiled; Python functions built on them say so when called."""
    tree, build = fetched / "tree", fetched / "build"
    commands = json.loads((build / "compile_commands.json").read_text())
    files = {pathlib.Path(c["file"]) for c in commands}
    assert tree / "ops" / "norm" / "rms_norm" / "rms_norm.cpp" in files
    of_operators = {f.relative_to(tree).parts for f in files if f.is_relative_to(tree / "ops")}
    assert {parts[1] for parts in of_operators} == {"norm"}
    assert {f.name for f in files if f.parent.name == "rows"} == {
        f"rms_norm_{level}.cpp" for level in ("baseline", "avx2", "avx512")
    }
    package = build / "_deps" / "dlblas-build" / "python"
    said = run(sys.executable, "-c", OF_SOME, PYTHONPATH=str(package))
    operators, why = said.splitlines()
    assert operators == "['rms_norm']"
    assert why == "matmul is not in this library; it was built with DLBLAS_OPERATORS of others"


def test_an_operator_that_is_not_there_is_refused(tmp_path: pathlib.Path) -> None:
    done = attempt("cmake", "-S", ROOT, "-B", tmp_path, "-DDLBLAS_OPERATORS=rmsnorm")
    assert done.returncode != 0 and "there is no operator rmsnorm" in done.stderr


@pytest.mark.parametrize("static", [False, pytest.param(True, marks=needs_static)])
def test_the_examples_build_and_run(
    static: bool, installed: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    names = sorted(p.stem for p in EXAMPLES.glob("*.cpp"))
    assert names == sorted(SAYS)
    options = [f"-DSTATIC={'ON' if static else 'OFF'}", "-DCMAKE_COMPILE_WARNING_AS_ERROR=ON"]
    build = tmp_path / "b"
    configure(EXAMPLES, build, f"-DCMAKE_PREFIX_PATH={installed}", *options)
    run("cmake", "--build", build)
    env = {"DLBLAS_CACHE": str(tmp_path / "cache"), "CUDA_VISIBLE_DEVICES": ""}
    for name in names:
        said = run(build / name, **env)
        for text in SAYS[name]:
            assert text in said, f"{name}: {text!r} is not in\n{said}"
    assert "no GPU (" in run(build / "own_stream", **env)


def test_an_example_sees_a_wrong_result(installed: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """The example's check works: if the caller's parallel_for skips a row, the program fails."""
    text = (EXAMPLES / "own_stream.cpp").read_text(encoding="utf-8")
    broken = text.replace("body(middle, end);", "body(middle, end - 1);")
    assert broken != text
    for path in EXAMPLES.iterdir():
        shutil.copy(path, tmp_path)
    (tmp_path / "own_stream.cpp").write_text(broken, encoding="utf-8")
    configure(tmp_path, tmp_path / "b", f"-DCMAKE_PREFIX_PATH={installed}")
    run("cmake", "--build", tmp_path / "b", "--target", "own_stream")
    own = {"DLBLAS_CACHE": str(tmp_path / "cache"), "CUDA_VISIBLE_DEVICES": ""}
    done = attempt(tmp_path / "b" / "own_stream", **own)
    assert done.returncode == 1
    assert "is wrong" in done.stderr


@pytest.mark.gpu
def test_own_stream_on_a_gpu(tmp_path: pathlib.Path) -> None:
    """Built from the tree's headers and the package's library, with torch's NVRTC."""
    import dlblas

    library = pathlib.Path(dlblas.__file__).parent / "lib" / "libdlblas.so"
    compiler = shutil.which("g++") or shutil.which("clang++")
    if not compiler:
        pytest.skip("no C++ compiler here")
    program = tmp_path / "own_stream"
    (tmp_path / "libdlblas.so.0").symlink_to(library)  # the name that a linked program asks for
    flags = ["-std=c++20", "-O1", f"-I{ROOT / 'include'}", f"-Wl,-rpath,{tmp_path}"]
    source = EXAMPLES / "own_stream.cpp"
    run(compiler, *flags, source, library, "-o", program, "-pthread", "-ldl")
    compilers = (p for f in sys.path for p in pathlib.Path(f).glob("nvidia/**/libnvrtc.so*"))
    folders = sorted({str(p.parent) for p in compilers})
    said = run(program, DLBLAS_CACHE=str(tmp_path / "cache"), DLBLAS_LIBS=":".join(folders))
    assert "a replayed graph: right" in said, said
    assert said.endswith("ok\n")


def test_another_platform_is_refused_in_one_sentence(tmp_path: pathlib.Path) -> None:
    platform = ["-DCMAKE_SYSTEM_NAME=FreeBSD", "-DCMAKE_SYSTEM_PROCESSOR=riscv64"]
    done = attempt("cmake", "-S", ROOT, "-B", tmp_path, "-G", "Ninja", *platform)
    assert done.returncode != 0
    said = " ".join(done.stderr.split())
    assert "dlblas builds on Linux x86-64 and aarch64 only, and this is FreeBSD riscv64." in said
