#!/usr/bin/env python3
"""An arm64 test machine: Debian's arm64 Python under qemu, in build/arm64.

Installs nothing and needs no root: `apt-get download` fetches packages with private package lists,
and they are only unpacked. Used by tools/release_wheel.py and tests/test_release_wheel.py; by hand,
`python tools/arm64.py FILE…` runs an arm64 Python.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import tree

FOLDER = tree.ROOT / "build" / "arm64"
ROOT = FOLDER / "root"
PYTHON = ROOT / "usr" / "bin" / "python3.11"
PACKAGES = (
    "libc6 libgcc-s1 libstdc++6 zlib1g libexpat1 libffi8 libssl3 libbz2-1.0 liblzma5 libuuid1"
)
PACKAGES += " libpython3.11-minimal python3.11-minimal libpython3.11-stdlib"
QEMU = "qemu-aarch64-static"
CONFIGURATION = """APT::Architecture "{arch}";
APT::Architectures {{ "{arch}"; }};
APT::Sandbox::User "";
Dir::State::Lists "{folder}/lists";
Dir::State::status "/dev/null";
Dir::Cache "{folder}/cache";
Dir::Etc::sourcelist "{folder}/sources.list";
Dir::Etc::sourceparts "/dev/null";
"""
SOURCE = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] {mirror} bookworm main\n"


def download(arch: str, packages: list[str]) -> list[pathlib.Path]:
    """Downloads Debian 12 packages for one architecture; the paths of the archives."""
    folder = FOLDER / arch
    for name in ("lists/partial", "cache/archives/partial", "archives"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    mirror = os.environ.get("DEBIAN_MIRROR", "http://deb.debian.org/debian")
    (folder / "sources.list").write_text(SOURCE.format(mirror=mirror))
    configuration = folder / "apt.conf"
    configuration.write_text(CONFIGURATION.format(arch=arch, folder=folder))
    env = {**os.environ, "APT_CONFIG": str(configuration)}
    for command in (["apt-get", "update"], ["apt-get", "download", *packages]):
        done = subprocess.run(
            command, capture_output=True, text=True, env=env, cwd=folder / "archives"
        )
        if done.returncode != 0:
            raise SystemExit(f"arm64: {' '.join(command[:2])} failed\n{done.stderr}")
    return sorted((folder / "archives").glob("*.deb"))


def prepare() -> None:
    if PYTHON.exists() and (FOLDER / "qemu").exists():
        return
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise SystemExit("arm64: Debian's packages are needed, and there is no apt-get")
    emulators = FOLDER / "emulators"
    for archive in download("amd64", ["qemu-user-static"]):
        subprocess.run(["dpkg-deb", "-x", str(archive), str(emulators)], check=True)
    shutil.copy2(emulators / "usr" / "bin" / QEMU, FOLDER / "qemu")
    shutil.rmtree(emulators)  # 300 MB of other machines
    for archive in download("arm64", PACKAGES.split()):
        subprocess.run(["dpkg-deb", "-x", str(archive), str(ROOT)], check=True)


def emulator() -> list[str]:
    """The command prefix that runs an arm64 program."""
    prepare()
    return [str(FOLDER / "qemu"), "-L", str(ROOT)]


def python() -> list[str]:
    return [*emulator(), str(PYTHON)]


if __name__ == "__main__":
    os.execv(python()[0], [*python(), *sys.argv[1:]])
