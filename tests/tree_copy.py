"""Copies of the tree whose builds find their objects in the compiler cache that build/ filled: the
same flags, and the same paths from the build's folder. In: the checkout. Out: a copy, options of
CMake, an environment.
"""

from __future__ import annotations

import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def copy_tree(to: pathlib.Path) -> list[str]:
    """The files that git knows, and new ones that it does not ignore; returns their names."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = [f for f in listed.split("\0") if f and (ROOT / f).is_file()]
    for name in files:
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, to / name)
    return files


def options() -> dict[str, str]:
    """What build/ was configured with and changes its compiler's command line."""
    cache = (ROOT / "build" / "CMakeCache.txt").read_text()
    werror = "DLBLAS_WERROR:BOOL=ON" in cache
    return {"CMAKE_BUILD_TYPE": "Release", "DLBLAS_WERROR": "ON" if werror else "OFF"}


def environment(copy: pathlib.Path) -> dict[str, str]:
    """Of a build in <copy>/build: ccache knows paths by their way from there."""
    return {"CCACHE_BASEDIR": str(copy), "CCACHE_NOHASHDIR": "1", "CCACHE_DEPEND": "1"}
