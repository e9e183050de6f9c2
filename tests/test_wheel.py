"""The wheel: one py3-none file that imports in a clean environment, holds what build/python holds,
and needs nothing but libc and its companion libraries.
"""

from __future__ import annotations

import email
import email.message
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import venv
import zipfile

import pytest
import tree_copy

# One pytest-xdist worker runs them all: their shared fixtures are built once.
pytestmark = pytest.mark.xdist_group("wheel")
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import tree  # noqa: E402

VERSION = (ROOT / "VERSION").read_text().strip()
MAX_BYTES = 10 << 20
# What g++ on Debian 12 requires; for a release, see test_release_wheel.py.
NEWEST_GLIBC = (2, 36)


def run(*command: str | pathlib.Path, **env: str) -> str:
    kept = {
        key: value for key, value in os.environ.items() if not key.startswith(("DLBLAS_", "PYTHON"))
    }
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        env={**kept, **env},
        cwd="/",
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Built without isolation from a copy: a warm compiler cache knows its paths from build/."""
    out, copy = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("tree")
    tree_copy.copy_tree(copy)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps"]
    told = {f"cmake.define.{name}": value for name, value in tree_copy.options().items()}
    settings = [f"--config-settings={n}={v}" for n, v in (told | {"build-dir": "build"}).items()]
    cache = tree_copy.environment(copy) | {"CXX": "c++"}  # the compiler that CMake finds by itself
    run(*pip, "--no-build-isolation", *settings, "--wheel-dir", out, copy, **cache)
    (made,) = out.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def clean_venv(wheel: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A virtual environment that holds the wheel and nothing else: no NumPy, no pip."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder, with_pip=False)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--python",
        folder / "bin" / "python",
    ]
    run(*pip, "install", "--quiet", "--no-index", wheel)
    return folder


def test_name_size_and_metadata(wheel: pathlib.Path) -> None:
    tag = wheel.name.removeprefix(f"dlblas_fused-{VERSION}-")
    assert re.fullmatch(r"py3-none-(many)?linux_\w+\.whl", tag), wheel.name
    assert wheel.stat().st_size <= MAX_BYTES
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        text = archive.read(f"dlblas_fused-{VERSION}.dist-info/METADATA").decode()
    metadata = email.message_from_string(text)
    assert metadata["Version"] == VERSION
    assert metadata["Name"] == "dlblas-fused"  # PyPI's dlblas cannot replace it by an upgrade
    assert all("extra ==" in needed for needed in metadata.get_all("Requires-Dist", []))
    assert metadata.get_all("Provides-Extra") == ["numpy", "torch", "test"]
    assert "Operating System :: POSIX :: Linux" in metadata.get_all("Classifier", [])
    assert any(name.endswith("/LICENSE") for name in names)
    assert_readable_alone(metadata)


def assert_readable_alone(metadata: email.message.Message) -> None:
    """A package index shows it without the tree: no link leads to a file of the tree."""
    assert metadata["Description-Content-Type"] == "text/markdown"
    text = str(metadata.get_payload())
    assert text.startswith("# dlblas\n")
    assert re.findall(r"\]\((?!https?://|#)", text) == []
    for file in re.findall(r"`((?:docs/)?\w+\.md)`", text):
        assert (ROOT / file).is_file(), file
    assert "(install: `docs/install.md`)" in text and text.count("```") % 2 == 0
    blocks = [re.findall(r"^```.*?^```$", one, re.M | re.S) for one in (text, README)]
    assert blocks[0] == blocks[1] != []


README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_description_is_made_of_the_readme(tmp_path: pathlib.Path) -> None:
    """As the backend generates it, without a build."""
    names = ["pyproject.toml", "README.md", "LICENSE", "VERSION", "CMakeLists.txt"]
    for name in [*names, "tools/wheel_readme.py"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    code = (
        "import os, sys; from scikit_build_core import build; os.chdir(sys.argv[1]);"
        "os.mkdir('out'); build.prepare_metadata_for_build_wheel('out')"
    )
    run(sys.executable, "-c", code, tmp_path)
    (made,) = tmp_path.glob("out/*.dist-info/METADATA")
    metadata = email.message_from_string(made.read_text(encoding="utf-8"))
    assert (metadata["Name"], metadata["Version"]) == ("dlblas-fused", VERSION)
    assert_readable_alone(metadata)


def test_holds_what_the_staged_package_holds(wheel: pathlib.Path) -> None:
    staged = ROOT / "build" / "python"
    wanted = {
        str(path.relative_to(staged))
        for path in staged.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    # In build/, the library has a second name: the build's programs load it by its version.
    assert names == wanted - {f"dlblas/lib/libdlblas.so.{VERSION.partition('.')[0]}"}


CONSUMER = ROOT / "tests" / "consumer"


def test_cmake_projects_find_it(clean_venv: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Shared library, headers and version check, from `pip install` alone."""
    home = {"HOME": str(tmp_path)}
    folder = run(clean_venv / "bin" / "dlblas", "--cmake-dir", **home).strip()
    build = tmp_path / "build"
    run("cmake", "-S", CONSUMER, "-B", build, "-G", "Ninja", f"-Ddlblas_DIR={folder}")
    assert f"dlblas_DIR:UNINITIALIZED={folder}" in (build / "CMakeCache.txt").read_text()
    run("cmake", "--build", build)
    assert run(build / "consumer", **home) == f"dlblas {VERSION} ok\n"


def test_a_compiler_and_pkg_config_find_it(
    clean_venv: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    home, command = {"HOME": str(tmp_path)}, clean_venv / "bin" / "dlblas"
    include = run(command, "--include", **home).strip()
    code = "import dlblas; print(dlblas.get_include())"
    assert run(clean_venv / "bin" / "python", "-c", code, **home).strip() == include
    libs = run(command, "--libs", **home).split()
    program = tmp_path / "program"
    line = ["g++", "-std=c++20", f"-I{include}", CONSUMER / "main.cpp"]
    run(*line, *libs, "-o", program)
    assert run(program, **home) == f"dlblas {VERSION} ok\n"
    assert run(command, "--include", "--libs", **home).splitlines() == [include, " ".join(libs)]
    own = ROOT / "examples" / "own_cpp" / "own_norm.cpp"
    run(*line[:3], "-O1", "-shared", "-fPIC", own, "-o", tmp_path / "own_norm.so")
    if shutil.which("pkg-config"):
        where = {"PKG_CONFIG_PATH": str(pathlib.Path(include).parent / "lib" / "pkgconfig")}
        flags = run("pkg-config", "--cflags", "--libs", "dlblas", **where).split()
        run("g++", "-std=c++20", CONSUMER / "main.cpp", *flags, "-o", program)
        assert run(program, **home) == f"dlblas {VERSION} ok\n"


def test_programs_are_stripped_and_name_no_folder(
    wheel: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    for name in ("libdlblas.so", "dlblas_worker"):
        path = tmp_path / "dlblas" / "lib" / name
        assert ".symtab" not in run("readelf", "--section-headers", "--wide", path)
        dynamic = run("readelf", "--dynamic", "--wide", path)
        assert "[libdlblas.so]" in dynamic  # the one name that the file has
        assert "[$ORIGIN]" in dynamic or name == "libdlblas.so"
    for path in (tmp_path / "dlblas" / "lib").rglob("*.*"):
        if path.suffix in (".cmake", ".pc"):
            assert str(ROOT) not in path.read_text(), path


def test_library_exports_and_needs_only_what_it_may(
    wheel: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with zipfile.ZipFile(wheel) as archive:
        library = archive.extract("dlblas/lib/libdlblas.so", tmp_path)
    said = run(sys.executable, ROOT / "tools" / "check_exports.py", "--library", library)
    assert "needs lib" in said
    versions = re.findall(
        r"GLIBC_(\d+)\.(\d+)", run("readelf", "--version-info", "--wide", library)
    )
    assert max((int(major), int(minor)) for major, minor in versions) <= NEWEST_GLIBC


def test_imports_in_a_clean_environment(clean_venv: pathlib.Path, tmp_path: pathlib.Path) -> None:
    code = (
        "import json, sys, dlblas\n"
        "print(json.dumps([dlblas.__version__, dlblas.__file__,"
        " sorted({'numpy', 'torch'} & set(sys.modules))]))"
    )
    home = {"HOME": str(tmp_path)}
    said = json.loads(run(clean_venv / "bin" / "python", "-c", code, **home))
    assert said[0] == VERSION
    assert pathlib.Path(said[1]).is_relative_to(clean_venv)
    assert said[2] == []
    info = json.loads(run(clean_venv / "bin" / "dlblas", "info", "--json", **home))
    assert info["version"] == VERSION
    assert {"matmul", "rms_norm", "add_rms_norm"} <= {op["name"] for op in info["operators"]}


def test_readme_example_after_pip_install(clean_venv: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """With this environment's NumPy and nothing else of it: no package index is contacted."""
    numpy = importlib.util.find_spec("numpy")
    assert numpy and numpy.origin
    for package in pathlib.Path(numpy.origin).parent.parent.glob("numpy*"):
        (tmp_path / package.name).symlink_to(package)
    env = {"PYTHONPATH": str(tmp_path), "DLBLAS_CACHE": str(tmp_path / "cache")}
    said = run(
        clean_venv / "bin" / "python", "-c", tree.readme_python(ROOT)[0], **env, HOME=str(tmp_path)
    )
    assert re.search(r"^  > +\w+ +yes", said, re.M), said
