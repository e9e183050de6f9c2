#!/usr/bin/env python3
"""Renews tools/requirements.lock: one exact version of every package that set-up may install, with
the sha256 of every wheel that pip may pick.

    python tools/lock.py            asks PyPI for the newest versions that requirements-*.txt allow
    python tools/lock.py --check    offline: checks that the lock satisfies requirements-*.txt

In: tools/requirements-<part>.txt. Out: the lock, with one section per part and one per optional
package. pip's resolver runs for glibc 2.28 and each Python and architecture of setup.py; wheels
that a newer glibc would get instead are added. This takes some minutes: pip reads metadata, and
downloads a wheel only if its metadata is not published separately. pip evaluates markers for the
Python that runs it, so this script follows the dependencies' markers itself. Exit codes: 0 done, 1
with a message: the lock is wrong or a package has no wheel. Read next: setup.py, which installs
from the lock.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile
from typing import Any, NamedTuple

import setup
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

OLD_GLIBC, NEW_GLIBC = 28, 44  # 2.28, as for our own wheels; the newest, for a while to come
HEADER = """# Made by tools/lock.py from requirements-*.txt; tools/setup.py checks the hashes.
# Pythons: {pythons}. Architectures: {arches}, glibc 2.28 and later.
"""


def pinned(names: list[str], python: str) -> list[str]:
    """The lock's lines for these packages and that Python, with hashes and without markers, for
    `pip install --require-hashes --no-deps`. A name may include an exact version. Packages that the
    lock lacks are left out."""
    found = []
    for lines in setup.sections(setup.LOCK.read_text()).values():
        for line in lines:
            named, _, hashes = line.partition(" --hash=")
            package, _, marker = named.partition(" ; ")
            asked = package in names or package.partition("==")[0] in names
            environment = {"python_version": python, "python_full_version": f"{python}.0"}
            if asked and (not marker or Marker(marker).evaluate(environment)):
                found.append(f"{package} --hash={hashes}")
    return found


class Target(NamedTuple):
    python: str
    arch: str

    def environment(self) -> dict[str, str]:
        """The values that markers see on this target."""
        return {
            "implementation_name": "cpython", "implementation_version": f"{self.python}.0",
            "os_name": "posix", "platform_machine": self.arch, "platform_release": "",
            "platform_python_implementation": "CPython", "platform_system": "Linux",
            "platform_version": "", "python_full_version": f"{self.python}.0",
            "python_version": self.python, "sys_platform": "linux",
        }  # fmt: skip

    def holds(self, marker: Marker | None, extras: set[str]) -> bool:
        if marker is None:
            return True
        return any(marker.evaluate({**self.environment(), "extra": e}) for e in ("", *extras))

    def pip(self, glibc: int) -> list[str]:
        tag = self.python.replace(".", "")
        options = ["--python-version", self.python, "--implementation", "cp"]
        for abi in (f"cp{tag}", "abi3", "none"):
            options += ["--abi", abi]
        levels = [f"manylinux_2_{minor}" for minor in range(glibc, 16, -1)]
        levels += ["manylinux2014", *(f"manylinux_2_{minor}" for minor in range(16, 4, -1))]
        for level in [*levels, "manylinux2010", "manylinux1", "linux"]:
            options += ["--platform", f"{level}_{self.arch}"]
        return options


TARGETS = [Target(python, arch) for python in setup.PYTHONS for arch in setup.ARCHES]


class Package(NamedTuple):
    name: str
    version: str
    needs: list[Requirement]
    hashes: set[str]

    def meets(self, need: Requirement) -> bool:
        return need.specifier.contains(self.version, prereleases=True)


def wanted(part: str, target: Target, optional: bool = False) -> list[Requirement]:
    """A part's requirements that apply to the target: the mandatory ones, or the optional ones."""
    found = []
    for line in (setup.TOOLS / f"requirements-{part}.txt").read_text().splitlines():
        text, _, note = (word.strip() for word in line.partition("#"))
        if text and (note == "optional") == optional:
            need = Requirement(text)
            found += [need] if target.holds(need.marker, set()) else []
    return found


def without_marker(need: Requirement) -> str:
    extras = f"[{','.join(sorted(need.extras))}]" if need.extras else ""
    return f"{need.name}{extras}{need.specifier}"


def ask_pip(target: Target, glibc: int, needs: list[str], *options: str) -> dict[str, Package]:
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install"]
        command += ["--quiet", "--dry-run", "--ignore-installed", "--report", str(report)]
        command += ["--only-binary", ":all:", "--target", folder, *target.pip(glibc)]
        done = subprocess.run([*command, *options, *needs], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(
                f"lock: Python {target.python} on {target.arch}: pip found no wheels for all:\n"
                + done.stderr.strip()
            )
        packages: dict[str, Package] = {}
        for entry in json.loads(report.read_text())["install"]:
            meta: dict[str, Any] = entry["metadata"]
            name = canonicalize_name(meta["name"])
            needs_of = [Requirement(text) for text in meta.get("requires_dist", [])]
            sha256 = entry["download_info"]["archive_info"]["hashes"]["sha256"]
            packages[name] = Package(name, meta["version"], needs_of, {sha256})
        return packages


def reached(
    roots: list[Requirement], packages: dict[str, Package], target: Target
) -> tuple[set[str], list[Requirement]]:
    """The packages that these roots need on a target, and the needs that no package meets."""
    names: set[str] = set()
    unmet: list[Requirement] = []
    seen: set[tuple[str, frozenset[str]]] = set()
    todo = list(roots)
    while todo:
        need = todo.pop()
        name = canonicalize_name(need.name)
        package = packages.get(name)
        if package is None or not package.meets(need):
            unmet.append(need)
            continue
        names.add(name)
        if (name, frozenset(need.extras)) in seen:
            continue
        seen.add((name, frozenset(need.extras)))
        todo += [n for n in package.needs if target.holds(n.marker, set(need.extras))]
    return names, unmet


def resolve(target: Target) -> tuple[dict[str, Package], dict[str, str]]:
    """All packages for one target, and the section of each: the first whose roots need it."""
    sections = {part: wanted(part, target) for part in setup.PARTS}
    for part in setup.PARTS:
        for need in wanted(part, target, optional=True):
            sections[f"{part}, optional: {canonicalize_name(need.name)}"] = [need]
    roots = [need for needs in sections.values() for need in needs]
    asked = [without_marker(need) for need in roots]
    while True:
        packages = ask_pip(target, OLD_GLIBC, asked)
        _, unmet = reached(roots, packages, target)
        more = sorted({without_marker(need) for need in unmet} - set(asked))
        if not more:
            break
        asked += more
    section_of: dict[str, str] = {}
    for section, needs in sections.items():
        for name in sorted(reached(needs, packages, target)[0]):
            section_of.setdefault(name, section)
    packages = {name: packages[name] for name in section_of}
    # Add hashes of wheels that a newer glibc gets; if they differ, those of every level between.
    exact = {name: f"{name}=={package.version}" for name, package in packages.items()}
    levels, names = [NEW_GLIBC], list(packages)
    while levels and names:
        other = ask_pip(target, levels.pop(0), [exact[name] for name in names], "--no-deps")
        if len(names) == len(packages):
            names = [name for name in names if not other[name].hashes <= packages[name].hashes]
            levels = list(range(OLD_GLIBC + 1, NEW_GLIBC))
        for name, package in other.items():
            packages[name].hashes.update(package.hashes)
    print(f"lock: Python {target.python} on {target.arch}: {len(packages)} packages", flush=True)
    return packages, section_of


def marker_of(targets: set[Target]) -> str:
    """The marker that is true for exactly these targets."""

    def of_pythons(pythons: list[str]) -> str:
        places = [setup.PYTHONS.index(python) for python in pythons]
        if places != list(range(places[0], places[-1] + 1)):
            return " or ".join(f'python_version == "{python}"' for python in pythons)
        least = f'python_version >= "{pythons[0]}"' if places[0] > 0 else ""
        last = len(setup.PYTHONS) - 1
        most = f'python_version <= "{pythons[-1]}"' if places[-1] < last else ""
        if len(pythons) == 1 and least and most:
            return f'python_version == "{pythons[0]}"'
        return " and ".join(filter(None, (least, most)))

    by_arch = {a: [p for p in setup.PYTHONS if Target(p, a) in targets] for a in setup.ARCHES}
    if len({tuple(pythons) for pythons in by_arch.values()}) == 1:
        return of_pythons(by_arch[setup.ARCHES[0]])
    parts = []
    for arch, pythons in by_arch.items():
        if pythons:
            machine, inner = f'platform_machine == "{arch}"', of_pythons(pythons)
            parts.append(f"{machine} and ({inner})" if inner else machine)
    return " or ".join(parts)


def text_of(found: dict[Target, tuple[dict[str, Package], dict[str, str]]]) -> str:
    """The text of the lock file."""
    sections: dict[str, dict[tuple[str, str], dict[Target, set[str]]]] = {}
    for target, (packages, section_of) in found.items():
        for name, section in section_of.items():
            entry = sections.setdefault(section, {}).setdefault((name, packages[name].version), {})
            entry[target] = packages[name].hashes
    text = HEADER.format(pythons=", ".join(setup.PYTHONS), arches=", ".join(setup.ARCHES))
    order = [
        name for part in setup.PARTS for name in sorted(sections) if name.split(",")[0] == part
    ]
    for section in order:
        text += f"\n# [{section}]\n"
        for (name, version), targets in sorted(sections[section].items()):
            marker = marker_of(set(targets))
            hashes = sorted(set().union(*targets.values()))
            line = f"{name}=={version}" + (f" ; {marker}" if marker else "")
            text += " \\\n".join([line, *(f"    --hash=sha256:{h}" for h in hashes)]) + "\n"
    return text


def problems(text: str) -> list[str]:
    """Problems of a lock on any target: unmet requirements, missing hashes, two versions."""
    found = []
    for target in TARGETS:
        locked: dict[str, list[Requirement]] = {}
        for lines in setup.sections(text).values():
            for line in lines:
                need = Requirement(line.split(" --hash")[0])
                if "--hash=sha256:" not in line or not str(need.specifier).startswith("=="):
                    found.append(f"{need.name} has no exact version with a hash")
                if target.holds(need.marker, set()):
                    locked.setdefault(canonicalize_name(need.name), []).append(need)
                    if len(locked[canonicalize_name(need.name)]) > 1:
                        found.append(f"{need.name} has two versions for {' '.join(target)}")
        pinned = f"scikit-build-core{locked['scikit-build-core'][0].specifier}"
        if f'requires = ["{pinned}"]' not in (setup.ROOT / "pyproject.toml").read_text():
            found.append(f"pyproject.toml's build-system does not require {pinned}")
        asked = [n for p in setup.PARTS for o in (0, 1) for n in wanted(p, target, bool(o))]
        for need in asked:
            entry = locked.get(canonicalize_name(need.name))
            if entry is None:
                found.append(f"{need.name} is not there for Python {' on '.join(target)}")
            elif not need.specifier.contains(str(entry[0].specifier)[2:], prereleases=True):
                found.append(f"{entry[0].name}{entry[0].specifier} does not meet {need}")
    return sorted(set(found))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare, offline")
    check = parser.parse_args().check
    if not check:
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            found = dict(zip(TARGETS, pool.map(resolve, TARGETS), strict=True))
        setup.LOCK.write_text(text_of(found))
    wrong = problems(setup.LOCK.read_text())
    for line in wrong:
        print(f"lock: {line}; run python tools/lock.py", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
