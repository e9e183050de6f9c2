"""Modules of the package import each other in one direction: their graph has no cycle.

Every import statement counts, wherever it stands: inside a function, because torch or NumPy may not
be installed or must not slow `import dlblas`, and under TYPE_CHECKING as well. So a lazy import
never hides a cycle, and no exception is needed. Files of families, ops/<family>/*.py, count as
modules of the package, which they are once it is built. Imports by a computed name do not count:
they load operators' files and, in `__getattr__`, what a package offers; no family imports a module
of the package that way. Read next: python/dlblas/__init__.py.
"""

from __future__ import annotations

import ast
import pathlib
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python" / "dlblas"
# Python files of families that are modules of the package, except tests' and pure data.
FAMILIES = {
    f"dlblas.ops.{path.parent.name}_{path.stem}": path
    for path in sorted(ROOT.glob("ops/*/*.py"))
    if path.stem not in ("tests", path.parent.name)
}
FACES = {name: path for name, path in FAMILIES.items() if path.name == "api.py"}

Graph = dict[str, set[str]]


def modules_of(package: pathlib.Path) -> dict[str, pathlib.Path]:
    """Module name -> file."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def named_by(tree: ast.AST, package: str) -> Iterator[tuple[str, str]]:
    """(module, name in it or "") for every import statement at any depth."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            module = ".".join([*above, node.module or ""]).strip(".")
            module = module if node.level else node.module or ""
            yield from ((module, alias.name) for alias in node.names)


def graph_of(package: pathlib.Path, more: dict[str, pathlib.Path] | None = None) -> Graph:
    """Module -> modules that it imports. Importing a module also runs the packages that contain it,
    except those that also contain the importing module: they are already running."""
    modules = modules_of(package) | (more or {})
    graph: Graph = {}
    for importer, path in modules.items():
        inside = importer if path.name == "__init__.py" else importer.rpartition(".")[0]
        targets = graph.setdefault(importer, set())
        for module, name in named_by(ast.parse(path.read_text(encoding="utf-8")), inside):
            target = f"{module}.{name}" if f"{module}.{name}" in modules else module
            targets |= {target} & modules.keys()
            parts = target.split(".")
            above = {".".join(parts[:i]) for i in range(1, len(parts))} & modules.keys()
            targets |= {p for p in above if not f"{importer}.".startswith(f"{p}.")}
        targets.discard(importer)
    return graph


def circle_in(graph: Graph) -> list[str]:
    """Modules that each import the next, the last one the first; empty where there is no cycle."""
    done: set[str] = set()

    def visit(module: str, path: list[str]) -> list[str]:
        if module in path:
            return path[path.index(module) :]
        if module in done:
            return []
        for target in sorted(graph[module]):
            if found := visit(target, [*path, module]):
                return found
        done.add(module)
        return []

    return next((found for module in sorted(graph) if (found := visit(module, []))), [])


def test_no_circle() -> None:
    graph = graph_of(PACKAGE, FAMILIES)
    assert "dlblas._spread" in graph["dlblas.ops.rope_api"] and len(FACES) > 10
    # The build writes _faces.py, which imports all of them; so does every module that imports it.
    graph["dlblas._faces"] = {"dlblas._made_of", *FACES}
    for module, path in modules_of(PACKAGE).items():
        if "_faces import" in path.read_text(encoding="utf-8"):
            graph[module].add("dlblas._faces")
    assert "dlblas._native" in graph["dlblas._functions"] and len(graph) > 50  # it sees imports
    circle = circle_in(graph)
    assert not circle, " -> ".join([*circle, circle[0]])


@pytest.mark.parametrize("name", FACES)
def test_a_family_imports_no_computed_name_of_the_package(name: str) -> None:
    for node in ast.walk(ast.parse(FACES[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "import_module":
            words = ast.unparse(node.args[0])
            assert words == "'numpy'" or words.startswith("type("), words


@pytest.mark.parametrize(
    ("files", "circle"),
    [
        ({"a.py": "from . import b", "b.py": ""}, []),
        ({"a.py": "from . import b", "b.py": "def f():\n    from .a import x"}, ["p.a", "p.b"]),
        ({"a.py": "import p.b", "b.py": "if TYPE_CHECKING:\n    from p.a import X"},
         ["p.a", "p.b"]),
        ({"a.py": "from .b import c", "b/__init__.py": "", "b/c.py": "from ..a import x"},
         ["p.a", "p.b.c"]),
        # b/c.py does not name a.py, but its package, which runs first, does.
        ({"a.py": "from .b import c", "b/__init__.py": "from .. import a", "b/c.py": ""},
         ["p.a", "p.b"]),
        ({"__init__.py": "from . import a", "a.py": "from . import b", "b.py": "import p"},
         ["p", "p.a", "p.b"]),
    ],
)  # fmt: skip
def test_a_circle_is_seen(tmp_path: pathlib.Path, files: dict[str, str], circle: list[str]) -> None:
    for name, text in {"__init__.py": "", **files}.items():
        path = tmp_path / "p" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert circle_in(graph_of(tmp_path / "p")) == circle
