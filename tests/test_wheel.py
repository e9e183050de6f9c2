"""The wheel: one py3-none file that imports in a clean environment, holds what build/python holds,
and needs nothing but libc and its friends.
"""

from __future__ import annotations

import email
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import venv
import zipfile

import pytest
import tree_copy

# One worker of pytest-xdist runs them all: what they share is built once.
pytestmark = pytest.mark.xdist_group("wheel")
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import tree  # noqa: E402

VERSION = (ROOT / "VERSION").read_text().strip()
MOST_BYTES = 10 << 20
# What g++ on Debian 12 needs; for a release see test_release_wheel.py.
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
    """Built without isolation, of a copy: a warm compiler cache knows its paths from build/."""
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
    tag = wheel.name.removeprefix(f"dlblas-{VERSION}-")
    assert re.fullmatch(r"py3-none-(many)?linux_\w+\.whl", tag), wheel.name
    assert wheel.stat().st_size <= MOST_BYTES
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        text = archive.read(f"dlblas-{VERSION}.dist-info/METADATA").decode()
    metadata = email.message_from_string(text)
    assert metadata["Version"] == VERSION
    assert metadata.get_all("Requires-Dist") is None
    assert any(name.endswith("/LICENSE") for name in names)


def test_holds_what_the_staged_package_holds(wheel: pathlib.Path) -> None:
    staged = ROOT / "build" / "python"
    wanted = {
        str(path.relative_to(staged))
        for path in staged.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == wanted


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
    """With this environment's NumPy and nothing else of it: no registry is asked."""
    numpy = importlib.util.find_spec("numpy")
    assert numpy and numpy.origin
    for package in pathlib.Path(numpy.origin).parent.parent.glob("numpy*"):
        (tmp_path / package.name).symlink_to(package)
    env = {"PYTHONPATH": str(tmp_path), "DLBLAS_CACHE": str(tmp_path / "cache")}
    said = run(
        clean_venv / "bin" / "python", "-c", tree.readme_python(ROOT)[0], **env, HOME=str(tmp_path)
    )
    assert re.search(r"^  > +\w+ +yes", said, re.M), said
