"""A C++ project finds, builds against and runs an installed dlblas; from source it gets no more."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONSUMER = ROOT / "tests" / "consumer"
VERSION = (ROOT / "VERSION").read_text().strip()


def run(*command: str | pathlib.Path) -> str:
    env = {key: value for key, value in os.environ.items() if not key.startswith("DLBLAS_")}
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, env=env, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_find_package_from_an_installed_tree(tmp_path: pathlib.Path) -> None:
    prefix, build = tmp_path / "prefix", tmp_path / "build"
    run("cmake", "--install", ROOT / "build", "--prefix", prefix)
    # Nothing of Python's, and nothing that is not meant for the public.
    assert sorted(p.name for p in prefix.iterdir()) == ["include", "lib"]
    run("cmake", "-S", CONSUMER, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}")
    assert str(prefix) in (build / "CMakeCache.txt").read_text()
    run("cmake", "--build", build)
    # The installed tree may move: the program is pointed at where it is now.
    moved = prefix.rename(tmp_path / "moved")
    env = f"LD_LIBRARY_PATH={moved / 'lib'}"
    assert run("env", env, build / "consumer") == f"dlblas {VERSION} ok\n"


def test_a_wrong_version_is_not_found(tmp_path: pathlib.Path) -> None:
    run("cmake", "--install", ROOT / "build", "--prefix", tmp_path / "prefix")
    text = (CONSUMER / "CMakeLists.txt").read_text().replace("dlblas 0.1", "dlblas 9.9")
    (tmp_path / "CMakeLists.txt").write_text(text)
    command = [
        "cmake",
        "-S",
        tmp_path,
        "-B",
        tmp_path / "b",
        f"-DCMAKE_PREFIX_PATH={tmp_path / 'prefix'}",
    ]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode != 0
    assert f"version: {VERSION}" in done.stderr


def test_from_source_only_the_library_is_added(tmp_path: pathlib.Path) -> None:
    run("cmake", "-S", CONSUMER, "-B", tmp_path, "-G", "Ninja", f"-DDLBLAS_TREE={ROOT}")
    targets = run("cmake", "--build", tmp_path, "--target", "help")
    assert "libdlblas.so" in targets
    assert not re.search(r"python_stage|^test_\w+:", targets, re.MULTILINE)


def test_another_platform_is_refused_in_one_sentence(tmp_path: pathlib.Path) -> None:
    platform = ["-DCMAKE_SYSTEM_NAME=FreeBSD", "-DCMAKE_SYSTEM_PROCESSOR=riscv64"]
    command = ["cmake", "-S", str(ROOT), "-B", str(tmp_path), "-G", "Ninja", *platform]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    said = " ".join(done.stderr.split())
    assert "dlblas builds on Linux x86-64 and aarch64 only, and this is FreeBSD riscv64." in said
