#!/usr/bin/env python3
"""Tests the wheel with several versions of torch on the CPU: for each, the tests of the torch
bindings and the README's examples run against the wheel, installed in an environment.

    python tools/torch_matrix.py --folder FOLDER --wheel dist/*.whl 3.12=2.10.0 3.13=newest

Each environment takes 5 to 8 GB in FOLDER and is kept there for the next run. Run by hand, not in
CI; tools/torch_matrix.log is the log of one run. Out: one line per step, then a table; exit code 1
if something failed.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import platform
import re
import subprocess
import sys
import time

import lock
import tree

DEFAULT = ["3.12=2.10.0", "3.13=newest"]
# Packages from requirements.lock, with their dependencies.
BESIDE = ["numpy", "pytest", "ml-dtypes", "hypothesis", "iniconfig", "packaging", "pluggy"]
BESIDE += ["pygments", "sortedcontainers", "attrs", "exceptiongroup", "tomli", "typing-extensions"]
TESTS = ["tests/test_nn.py", "tests/test_process_rules.py"]  # and tests/test_torch_*.py


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S', time.gmtime())}  {text}", flush=True)


def run(
    command: list[str], cwd: pathlib.Path | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("DLBLAS_", "PYTHON"))}
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env={**kept, **env})


def must(command: list[str]) -> str:
    done = run(command)
    if done.returncode != 0:
        raise SystemExit(f"torch_matrix: {' '.join(command[:4])} … failed\n{done.stderr[-2000:]}")
    return done.stdout


def find_python(version: str) -> str:
    """A Python of this version: one of pyenv's, or the one on PATH."""
    pyenv = pathlib.Path.home() / ".pyenv" / "versions"
    for path in [*map(str, sorted(pyenv.glob(f"{version}.*/bin/python"))), f"python{version}"]:
        try:
            if run([path, "-c", ""]).returncode == 0:
                return path
        except FileNotFoundError:
            continue
    raise SystemExit(f"torch_matrix: there is no Python {version}")


def environment(folder: pathlib.Path, python: str, torch: str, wheel: pathlib.Path) -> str:
    """The interpreter of an environment with that torch and this wheel."""
    inside = folder / "bin" / "python"
    if not inside.exists():
        must([find_python(python), "-m", "venv", str(folder)])
    pip = [str(inside), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    # The lock lacks the versions of torch that are tried here, so they have no hashes.
    wheels = ["--only-binary", ":all:"]
    must([*pip, *wheels, "torch" if torch == "newest" else f"torch=={torch}"])
    listed = folder / "beside.txt"
    listed.write_text("\n".join(lock.pinned(BESIDE, python)) + "\n")
    must([*pip, *wheels, "--require-hashes", "--no-deps", "--requirement", str(listed)])
    must([*pip, "--no-index", "--force-reinstall", str(wheel)])
    return str(inside)


def examples(root: pathlib.Path, python: str, folder: pathlib.Path) -> str:
    """The first error of the README's Python examples; empty if all ran."""
    for text in tree.readme_python(root):
        done = run([python, "-c", text], folder, DLBLAS_CACHE=str(folder / "cache"))
        if done.returncode != 0:
            return done.stderr.strip().splitlines()[-1]
    return ""


def try_one(root: pathlib.Path, folder: pathlib.Path, entry: str, wheel: pathlib.Path) -> list[str]:
    """One row of the table: the versions, what passed, what failed."""
    version, _, torch = entry.partition("=")
    here = folder / f"python{version}-torch{torch}"
    here.mkdir(parents=True, exist_ok=True)
    say(f"{entry}: installing into {here.name}")
    python = environment(here / "venv", version, torch, wheel)
    say(f"{entry}: the README's examples")
    failed = examples(root, python, here)
    query = "import platform, torch; print(platform.python_version(), torch.__version__)"
    row = [*must([python, "-c", query]).split(), failed or "ran"]
    site = must([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip()
    tests = [str(p) for p in sorted((root / "tests").glob("test_torch_*.py"))]
    tests += [str(root / name) for name in TESTS]
    say(f"{entry}: {len(tests)} files of tests")
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(root)]
    command += ["--import-mode=importlib", "-rf", "-m", "not gpu", *tests]
    done = run(command, root, DLBLAS_TEST_PYTHON=site, COLUMNS="400")  # reasons in whole
    lines = done.stdout.splitlines()
    for line in lines:
        if line.startswith(("FAILED", "ERROR")):
            say(f"{entry}: {line}")
    summary = next(
        (line for line in reversed(lines) if re.search(r"\d+ (passed|failed|error)", line)), ""
    )
    say(f"{entry}: {summary or done.stderr[-500:]}")
    if done.returncode != 0:
        failed = failed or "tests"
    return [*row, summary, "FAILED" if failed else "ok"]


def main() -> int:
    parser = tree.parser(__doc__)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--wheel", type=pathlib.Path, required=True)
    parser.add_argument("entries", nargs="*", metavar="PYTHON=TORCH", help=" ".join(DEFAULT))
    args: argparse.Namespace = parser.parse_args()
    root, folder = args.root.resolve(), args.folder.resolve()
    commit = run(["git", "describe", "--always", "--dirty"], root).stdout.strip()
    say(f"{args.wheel.name} of {commit}; {platform.platform()}")
    rows = [try_one(root, folder, e, args.wheel.resolve()) for e in args.entries or DEFAULT]
    print("python   torch          examples  tests")
    for python, torch, ran, summary, verdict in rows:
        print(f"{python:8} {torch:14} {ran:9} {summary}  {verdict}")
    return int(any(row[-1] != "ok" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
