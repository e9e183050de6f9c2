#!/usr/bin/env python3
"""Builds the wheels for every Linux with glibc 2.28 or later: dist/*-manylinux_2_28_<arch>.whl.

`make release-wheel` runs it. The compiler is zig's clang (PyPI's ziglang), which links against the
symbols of an older glibc, for x86-64 and aarch64, on any host. The C++ runtime is zig's libc++,
static and hidden. Only the unwinder stays shared (libgcc_s, as in every build): with a private one,
a thread that Python ends inside a call would abort the process. Read next:
docs/install.md, tests/test_release_wheel.py.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

import arm64
import tree

GLIBC = "2.28"
ARCHES = ("x86_64", "aarch64")
RUNTIME = ("libc++.a", "libc++abi.a")
# The libgcc_s symbols that libc++abi and C++ code need, with versions both architectures have.
UNWINDER = """GCC_3.0 { global:
_Unwind_DeleteException; _Unwind_GetIP; _Unwind_GetLanguageSpecificData; _Unwind_GetRegionStart;
_Unwind_RaiseException; _Unwind_Resume; _Unwind_SetGR; _Unwind_SetIP; };
"""


def run(command: list[str], env: dict[str, str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **env})
    if done.returncode != 0:
        sys.stderr.write(done.stdout + done.stderr)
        raise SystemExit(f"release_wheel: {' '.join(command[:3])} … failed, as said above")
    return done.stdout + done.stderr


def find_zig() -> tuple[pathlib.Path, str]:
    """The path of zig, and its version."""
    package = importlib.util.find_spec("ziglang")
    if package is None or package.origin is None:
        raise SystemExit("release_wheel: zig is missing; run `pip install ziglang`")
    zig = pathlib.Path(package.origin).parent / "zig"
    return zig, run([str(zig), "version"], {}).strip()


class Toolchain:
    """A compiler for one architecture in `folder`: bin/c++, its runtime, toolchain.cmake."""

    def __init__(self, arch: str, folder: pathlib.Path, cache: pathlib.Path) -> None:
        self.arch, self.folder = arch, folder
        self.zig, self.version = find_zig()
        self.target = f"{arch}-linux-gnu.{GLIBC}"
        # zig builds libc++ once, at the first link, and keeps it there.
        self.env = {"ZIG_GLOBAL_CACHE_DIR": str(cache), "ZIG_LOCAL_CACHE_DIR": str(cache)}
        # The wrapper is our own script: ccache must identify the compiler it runs, not its date.
        self.env |= {
            "CCACHE_COMPILERTYPE": "clang",
            "CCACHE_COMPILERCHECK": f"string:zig {self.version} {self.target}",
        }

    def make(self) -> None:
        compiler = self.folder / "bin" / "c++"
        compiler.parent.mkdir(parents=True, exist_ok=True)
        compiler.write_text(f'#!/bin/sh\nexec "{self.zig}" c++ -target {self.target} "$@"\n')
        compiler.chmod(0o755)
        runtime = [*self.static_runtime(compiler), self.shared_unwinder()]
        lines = [
            f'set(CMAKE_CXX_COMPILER "{compiler}")',
            "set(CMAKE_LINK_DEPENDS_USE_LINKER FALSE)",  # no --dependency-file there
            f'set(CMAKE_SHARED_LINKER_FLAGS_INIT "-s -nostdlib++ {" ".join(runtime)}")',
        ]
        if self.arch != platform.machine():  # the build runs dlblas_generate
            lines += ['set(CMAKE_SYSTEM_NAME "Linux")']
            lines += [f'set(CMAKE_SYSTEM_PROCESSOR "{self.arch}")']
            lines += [f'set(CMAKE_CROSSCOMPILING_EMULATOR "{";".join(arm64.emulator())}")']
        (self.folder / "toolchain.cmake").write_text("\n".join(lines) + "\n")

    def static_runtime(self, compiler: pathlib.Path) -> list[str]:
        """zig's libc++ and libc++abi, as its own link line names them."""
        probe = self.folder / "probe.cpp"
        probe.write_text("#include <stdexcept>\nvoid f() { throw std::runtime_error({}); }\n")
        out = self.folder / "probe.so"
        flags = ["-O2", "-fPIC", "-shared", "-v"]  # zig has a libc++ for each kind of optimising
        said = run([str(compiler), *flags, str(probe), "-o", str(out)], self.env)
        found = {name: re.search(rf"\S+/{re.escape(name)}", said) for name in RUNTIME}
        for name, match in found.items():
            if match is None:
                raise SystemExit(f"release_wheel: zig {self.version} links no {name}; try another")
        return [str(pathlib.Path(m.group()).resolve()) for m in found.values() if m]

    def shared_unwinder(self) -> str:
        """Builds a stub to link against, which has only libgcc_s's name and symbols."""
        names = re.findall(r"_Unwind_\w+", UNWINDER)
        source, versions = self.folder / "libgcc_s.c", self.folder / "libgcc_s.map"
        source.write_text("".join(f"void {name}(void) {{}}\n" for name in names))
        versions.write_text(UNWINDER)
        library = self.folder / "libgcc_s.so.1"
        command = [str(self.zig), "cc", "-target", self.target, "-shared", "-nostdlib", "-fPIC"]
        command += [str(source), "-o", str(library), "-Wl,-soname,libgcc_s.so.1"]
        run([*command, f"-Wl,--version-script={versions}"], self.env)
        return str(library)


def build(root: pathlib.Path, arch: str, out: pathlib.Path) -> pathlib.Path:
    folder = root / "build" / "release" / arch
    toolchain = Toolchain(arch, folder, root / "build" / "release" / "zig")
    toolchain.make()
    made = folder / "wheel"
    shutil.rmtree(made, ignore_errors=True)
    tag = f"py3-none-manylinux_{GLIBC.replace('.', '_')}_{arch}"
    settings = {
        "build-dir": str(folder / "cmake"),
        "cmake.define.CMAKE_TOOLCHAIN_FILE": str(folder / "toolchain.cmake"),
        "wheel.tags": tag,
    }
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", str(root)]
    command += ["--no-deps", "--no-build-isolation", "--wheel-dir", str(made)]
    # Keeps folders of the build machine out of __FILE__, which torch receives at registration.
    env = {**toolchain.env, "CXXFLAGS": f"-ffile-prefix-map={root}=."}
    run([*command, *(f"-C{key}={value}" for key, value in settings.items())], env)
    (wheel,) = made.glob("*.whl")
    out.mkdir(parents=True, exist_ok=True)
    return pathlib.Path(shutil.copy2(wheel, out))


def main() -> int:
    parser = tree.parser(__doc__)
    parser.add_argument("--arch", choices=ARCHES, action="append", help="(default: both)")
    parser.add_argument("--out", type=pathlib.Path, help="folder (default: dist)")
    args: argparse.Namespace = parser.parse_args()
    root = args.root.resolve()
    for arch in args.arch or ARCHES:
        wheel = build(root, arch, args.out or root / "dist")
        print(f"release_wheel: {wheel} ({wheel.stat().st_size / 2**20:.1f} MiB)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
