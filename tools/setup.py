#!/usr/bin/env python3
"""Makes .venv, and what Debian alone has in build/deps: all set-up behind `make demo`, `make test`,
`make docs` and `make release-wheel`.

python3 tools/setup.py demo|docs|test|release. Needs a Python >= 3.10 with venv, and nothing else;
touches only the tree. A stamp with the hash of the requirement files makes a second run do nothing,
so it works offline. Exit codes: 0 done, 1 a fetch failed (one sentence names the package), 2 this
machine lacks something.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
REQUIREMENTS = {"demo": ["demo"], "docs": ["demo", "docs"], "test": ["demo", "test", "docs"]}
REQUIREMENTS["release"] = [*REQUIREMENTS["test"], "release"]
DEBIAN = ["libgtest-dev", "googletest"]


def stop(code: int, sentence: str) -> None:
    print(f"setup: {sentence}", file=sys.stderr)
    raise SystemExit(code)


def requirements(kind: str) -> list[str]:
    lines: list[str] = []
    for part in REQUIREMENTS[kind]:
        text = (ROOT / "tools" / f"requirements-{part}.txt").read_text()
        lines += [line.strip() for line in text.splitlines() if line.strip() and line[0] != "#"]
    return lines


def make_venv() -> None:
    if (VENV / "bin" / "python").exists():
        return
    if importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None:
        stop(2, "this Python lacks its venv module; run `sudo apt-get install python3-venv`.")
    print("setup: making .venv", flush=True)
    made = subprocess.run([sys.executable, "-m", "venv", str(VENV)], capture_output=True, text=True)
    if made.returncode != 0:
        shutil.rmtree(VENV, ignore_errors=True)
        stop(2, "making .venv failed; run `sudo apt-get install python3-venv` and try again.")


def install(wanted: list[str]) -> None:
    """One package at a time, so that a failed fetch names itself; an optional one may fail."""
    pip = [str(VENV / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-input"]
    pip += ["--disable-pip-version-check", "--prefer-binary"]
    for line in wanted:
        requirement, _, note = (part.strip() for part in line.partition("#"))
        print(f"setup: {requirement}", flush=True)
        done = subprocess.run([*pip, requirement], capture_output=True, text=True)
        if done.returncode != 0 and note != "optional":
            why = [text for text in done.stderr.splitlines() if text.startswith("ERROR")]
            print("\n".join(why[:3]), file=sys.stderr)
            stop(
                1, f"could not install {requirement} from PyPI; check the network and run it again."
            )


def link_tree() -> None:
    """`import dlblas` and the `dlblas` command use the package that cmake/python.cmake stages."""
    query = "import sysconfig; print(sysconfig.get_path('purelib'))"
    python = str(VENV / "bin" / "python")
    site = subprocess.run([python, "-c", query], capture_output=True, text=True, check=True)
    path = pathlib.Path(site.stdout.strip()) / "dlblas_tree.pth"
    path.write_text(f"{ROOT / 'build' / 'python'}\n")
    script = VENV / "bin" / "dlblas"
    script.write_text('#!/bin/sh\nexec "$(dirname "$0")/python" -m dlblas "$@"\n')
    script.chmod(0o755)


def apt_options() -> list[str]:
    """Package lists of our own, for a machine whose lists are empty: works without root."""
    state = ROOT / "build" / "apt"
    for folder in ("lists/partial", "cache/archives/partial"):
        (state / folder).mkdir(parents=True, exist_ok=True)
    options = ["-o", f"Dir::State::Lists={state / 'lists'}", "-o", f"Dir::Cache={state / 'cache'}"]
    update = ["apt-get", *options, "-o", "APT::Sandbox::User=", "update"]
    subprocess.run(update, capture_output=True, check=False)
    return options


def unpack_debian() -> None:
    deps = ROOT / "build" / "deps"
    if pathlib.Path("/usr/include/gtest/gtest.h").exists() or (deps / "usr/include/gtest").exists():
        return
    if shutil.which("apt-get") is None:
        stop(2, "GoogleTest is missing and there is no apt-get; install GoogleTest.")
    archives = deps / "archives"
    archives.mkdir(parents=True, exist_ok=True)
    for package in DEBIAN:
        print(f"setup: {package} (unpacked into build/deps)", flush=True)
        command = ["apt-get", "-o", "APT::Sandbox::User=", "download", package]
        if subprocess.run(command, cwd=archives, capture_output=True).returncode != 0:
            command = ["apt-get", *apt_options(), "download", package]
            if subprocess.run(command, cwd=archives, capture_output=True).returncode != 0:
                stop(1, f"could not fetch Debian's {package}; check the network and run it again.")
        for archive in archives.glob(f"{package}_*.deb"):
            subprocess.run(["dpkg-deb", "-x", str(archive), str(deps)], check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=sorted(REQUIREMENTS))
    kind = parser.parse_args().kind
    if sys.version_info < (3, 10):  # noqa: UP036 (this file is what says so)
        stop(
            2,
            f"dlblas needs Python 3.10 or newer, and {sys.executable} is {sys.version.split()[0]}.",
        )
    if shutil.which(os.environ.get("CXX", "c++")) is None:
        stop(2, "no C++ compiler was found; run `sudo apt-get install g++`.")
    wanted = requirements(kind)
    digest = hashlib.sha256("\n".join([str(ROOT), *wanted]).encode()).hexdigest()
    stamps = {name: VENV / f".setup-{name}" for name in REQUIREMENTS}
    if not (stamps[kind].exists() and stamps[kind].read_text() == digest):
        make_venv()
        install(wanted)
        link_tree()
        stamps[kind].write_text(digest)
    if kind == "test":
        unpack_debian()
    return 0


if __name__ == "__main__":
    sys.exit(main())
