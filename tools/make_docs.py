#!/usr/bin/env python3
"""Builds the documentation site: the tree's Markdown, and one page per operator, from the registry.

In: docs/, the folders' README.md, the built package and dlblas_describe. Out: build/site, which
works offline and from a folder. Prints one line per broken link, fetch from another site and Sphinx
warning; exit code 1 if there are any. Run by `make docs`. Read next: website/stage.py.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys

import figures
from website import check, cpp_api, operators, pictures, python_api, search, sources, stage

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON_ENTRY = "- [The Python reference](python_reference.md): every public name"
CPP_ENTRY = "- [Typed functions of C++](cpp_operators.md): `<dlblas/ops.hpp>`, one per operator"
SETTINGS = pathlib.Path(__file__).resolve().parent / "website"


def ask_library(root: pathlib.Path, describe: pathlib.Path) -> operators.Library:
    """The data for the operators' pages; the package must be on sys.path."""
    import dlblas

    info = dlblas.info()
    found = [library["path"] for library in info["libraries"] if library["found"]]
    places = os.pathsep.join(filter(None, [os.environ.get("DLBLAS_LIBS", ""), *found]))
    done = subprocess.run(
        [str(describe)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "DLBLAS_LIBS": places},
    )
    results = figures.newest(root / "benchmarks" / "results")
    current = figures.current_source(root)
    return operators.Library(info, json.loads(done.stdout), results, current)


def picture(library: operators.Library, name: str) -> str:
    """The picture of a table of figures; "" for short tables and those that compare nothing."""
    if name == "gpu_top" or name not in figures.TABLES:  # the README's; of operators
        return ""
    kinds, _ = figures.TABLES[name]
    rows = [row for row in library.results if row["what"] in kinds]
    title = name.removeprefix("gpu_").replace("_", " ").capitalize()
    title += ", on a GPU" if name.startswith("gpu_") else ", on CPUs"
    return pictures.ratios(figures.in_order(rows), with_name=True, title=title)


def python_reference(library: operators.Library) -> str:
    import dlblas

    forms = {form["name"] for row in library.info["operators"] for form in row["forms"]}
    return python_api.page(dlblas, forms)


def run_sphinx(staged: pathlib.Path, out: pathlib.Path) -> list[str]:
    """Runs Sphinx; its warnings, one per line."""
    command = [sys.executable, "-m", "sphinx", "-q", "-E", "-b", "html", "-d", f"{staged}-trees"]
    command += ["-c", str(SETTINGS), str(staged), str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    lines = [line.replace(f"{staged}/", "") for line in done.stderr.splitlines() if line.strip()]
    if done.returncode and not lines:
        lines = ["sphinx failed without a word"]
    return lines


def ops_header(package: pathlib.Path) -> str:
    """The header of typed functions, generated with the library in the package."""
    return (package / "dlblas" / "include" / "dlblas" / "ops.hpp").read_text(encoding="utf-8")


def build(
    root: pathlib.Path, out: pathlib.Path, describe: pathlib.Path, package: pathlib.Path
) -> list[str]:
    """Rebuilds the site from scratch; everything that is wrong with it."""
    staged = stage.Stage(root, out.with_name(f"{out.name}-pages"))
    for folder in (out, staged.out):
        shutil.rmtree(folder, ignore_errors=True)
    library = ask_library(root, describe)
    staged.picture = lambda name: picture(library, name)
    operators.write_pages(library, staged)
    staged.write("python_reference", python_reference(library))
    staged.write("cpp_operators", cpp_api.page(ops_header(package)))
    staged.copy_pages(
        {
            "operators/index": lambda document: operators.overview(library, document),
            "python_reference": lambda _: PYTHON_ENTRY,
            "cpp_operators": lambda _: CPP_ENTRY,
        }
    )
    wrong = [f"{page}: {target} leads nowhere" for page, target in staged.broken]
    wrong += run_sphinx(staged.out, out)
    search.write_index(out)
    sources.write_pages(root, out, staged.sources)
    return wrong + check.problems(out)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--root", type=pathlib.Path, default=ROOT)
    parser.add_argument("--out", type=pathlib.Path, help="default build/site")
    parser.add_argument("--package", type=pathlib.Path, help="folder of dlblas; build/python")
    parser.add_argument("--describe", type=pathlib.Path, help="default build/dlblas_describe")
    args = parser.parse_args()
    root = args.root.resolve()
    package = args.package or root / "build" / "python"
    sys.path.insert(0, str(package))
    out = (args.out or root / "build" / "site").resolve()
    wrong = build(root, out, args.describe or root / "build" / "dlblas_describe", package)
    for line in wrong:
        print(f"docs: {line}", file=sys.stderr)
    pages = len(list(out.rglob("*.html")))
    print(f"docs: {pages} pages, {len(wrong)} problems; open {out / 'index.html'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
