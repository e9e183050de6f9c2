"""Copies of the tree whose builds hit the compiler cache that build/ filled: they use the same
flags, and the same paths relative to the build folder. In: the checkout. Out: a copy, options of
CMake, an environment.
"""

from __future__ import annotations

import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def copy_tree(to: pathlib.Path) -> list[str]:
    """Copies the files that git tracks, and new ones it does not ignore; returns their names."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = [f for f in listed.split("\0") if f and (ROOT / f).is_file()]
    for name in files:
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, to / name)
    return files


def options() -> dict[str, str]:
    """The options of build/ that change its compiler's command line."""
    cache = (ROOT / "build" / "CMakeCache.txt").read_text()
    werror = "DLBLAS_WERROR:BOOL=ON" in cache
    return {"CMAKE_BUILD_TYPE": "Release", "DLBLAS_WERROR": "ON" if werror else "OFF"}


def environment(copy: pathlib.Path) -> dict[str, str]:
    """For a build in <copy>/build: ccache uses paths relative to that folder."""
    return {
        "CCACHE_BASEDIR": str(copy),
        "CCACHE_NOHASHDIR": "1",
        "CCACHE_DEPEND": "1",
        "CCACHE_SLOPPINESS": "pch_defines,time_macros",  # as CMakeLists.txt sets it
    }
