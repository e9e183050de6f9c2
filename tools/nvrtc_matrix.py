#!/usr/bin/env python3
"""Compiles every CUDA implementation for sm_90a with several versions of NVRTC, without a GPU.

    python tools/nvrtc_matrix.py --folder FOLDER [12.1.105 12.9.86 13.0.88 …]

Each version is fetched from PyPI into FOLDER (100 to 250 MB) and kept there. Run by hand, not in
CI; tools/nvrtc_matrix.log is the log of one run. Out: one line per version; exit code 1 if a
compiler rejected or spilled something. Read next: tools/compile_all.cpp.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import time
import zipfile

import lock
import tree

DEFAULT = ["12.1.105", "12.4.127", "12.8.93", "12.9.86", "13.0.88", "13.5.37"]


def fetch(folder: pathlib.Path, version: str) -> pathlib.Path:
    """The compiler library of one version; its builtins are next to it."""
    where = folder / version
    if not list(where.rglob("libnvrtc.so.*")):
        name = "nvidia-cuda-nvrtc" + ("-cu12" if version.startswith("12.") else "")
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"]
        pip += ["--no-deps", "--only-binary", ":all:", "--dest", str(folder)]
        wanted = f"{name}=={version}"
        locked = [line for python in ("3.10", "3.12") for line in lock.pinned([wanted], python)]
        if locked:
            listed = folder / f"{version}.txt"
            listed.write_text(locked[0] + "\n")
            pip += ["--require-hashes", "--requirement", str(listed)]
        else:  # most of them are not what the lock has
            pip += [wanted]
        subprocess.run(pip, check=True)
        (wheel,) = folder.glob(f"{name.replace('-', '_')}-{version}-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(where)
        wheel.unlink()
    (library,) = (p for p in where.rglob("libnvrtc.so.*") if "alt" not in p.name)
    return library


def main() -> int:
    parser = tree.parser(__doc__)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--program", type=pathlib.Path, help="(default: build/dlblas_compile_all)")
    parser.add_argument("versions", nargs="*", metavar="VERSION", help=" ".join(DEFAULT))
    args = parser.parse_args()
    program = args.program or args.root / "build" / "dlblas_compile_all"
    args.folder.mkdir(parents=True, exist_ok=True)
    failed = False
    for version in args.versions or DEFAULT:
        library = fetch(args.folder.resolve(), version)
        begin = time.monotonic()
        env = {**os.environ, "DLBLAS_LIBS": str(library)}
        done = subprocess.run([program, "90"], capture_output=True, text=True, env=env)
        total = re.search(r"^compile_all: (.*)$", done.stdout, re.M)
        said = total.group(1) if total else done.stderr.strip()
        verdict = "FAILED" if done.returncode else "ok"
        failed |= done.returncode != 0
        print(f"{version:10} {time.monotonic() - begin:5.0f} s  {said}  {verdict}", flush=True)
        if done.returncode:
            print(done.stdout + done.stderr, flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
