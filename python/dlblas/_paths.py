"""The folders of this package that C++ programs and users' own kernels are built with.

Out: ``get_include``, ``cmake_dir``, ``link_flags``: what ``dlblas --include``, ``--cmake-dir`` and
``--libs`` print. Read next: docs/cpp.md, cmake/python.cmake.
"""

from __future__ import annotations

import os

from . import _native


def _folder(*parts: str) -> str:
    return os.path.join(os.path.dirname(os.path.dirname(_native.library_path())), *parts)


def get_include() -> str:
    """The folder of ``<dlblas/dlblas.hpp>``, for a compiler's ``-I``."""
    return _folder("include")


def cmake_dir() -> str:
    """The folder of ``dlblasConfig.cmake``, for ``-Ddlblas_DIR=``."""
    return _folder("lib", "cmake", "dlblas")


def link_flags() -> str:
    """Linker options: the library, and the folder where a program finds it at run time."""
    folder = _folder("lib")
    return f"-L{folder} -ldlblas -Wl,-rpath,{folder}"
