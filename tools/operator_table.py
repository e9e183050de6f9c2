"""Makes the operator table of docs/all_operators.md from the operators' own files, and the table of
README.md with one row per family.

A row is four Markdown texts (names, what they compute, on CPUs, on GPUs) of OVERVIEW in
ops/<family>/<family>.py or ops/<family>/<op>/<op>.py; rows are ordered by family. An operator that
no row names gets a row from its formula and its implementations. A row names an operator by its
name or in-place form, by a face (public function) of ops/<family>/api.py that calls it, or by the
operator whose gradient it is. In: dlblas.info(), the staged package. Used by: figures.py.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import json
import pathlib
import re
from importlib import import_module
from typing import Any

Row = dict[str, Any]
HEAD = ["operator", "computes", "on CPUs", "on GPUs"]


def _words(module: str, name: str) -> Any:
    with contextlib.suppress(ModuleNotFoundError):
        return getattr(import_module(f"dlblas.ops.{module}"), name, None)
    return None


def _source(module: str) -> str:
    """A module's text, not imported because it may need torch; "" if there is none."""
    found = importlib.util.find_spec(f"dlblas.{module}")
    return pathlib.Path(found.origin).read_text("utf-8") if found and found.origin else ""


def _called(node: ast.AST, names: list[str]) -> set[str]:
    """The operators of each FUNCTIONS["<operator>"] below; f-string fields match any word."""
    found: set[str] = set()
    told = {str(one.value) for one in ast.walk(node) if isinstance(one, ast.Constant)}
    for one in ast.walk(node):
        if not (isinstance(one, ast.Subscript) and getattr(one.value, "id", "") == "FUNCTIONS"):
            continue
        pattern = ""
        if isinstance(one.slice, ast.Name):  # FUNCTIONS[name] for name in ("one", "two")
            found |= told & {*names}
        if isinstance(one.slice, ast.Constant):
            pattern = re.escape(str(one.slice.value))
        elif isinstance(one.slice, ast.JoinedStr):
            pattern = "".join(
                re.escape(str(p.value)) if isinstance(p, ast.Constant) else r"\w+"
                for p in one.slice.values
            )
        found |= {name for name in names if pattern and re.fullmatch(pattern, name)}
    return found


def faces_of(text: str, names: list[str]) -> dict[str, set[str]]:
    """Each function of a module's __all__, and the operators that it calls, directly or through the
    module's other functions and variables."""
    tree = ast.parse(text)
    direct: dict[str, set[str]] = {}
    used: dict[str, set[str]] = {}
    offered: list[str] = []
    declared: dict[str, tuple[str, ...]] = {}  # MADE_OF: what a module of torch's calls
    for node in tree.body:
        named = [n for t in getattr(node, "targets", []) for n in ast.walk(t)]
        targets = [n.id for n in named if isinstance(n, ast.Name)]
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            targets = [node.target.id]
        if isinstance(node, ast.FunctionDef):
            targets = [node.name]
        if targets == ["__all__"] and isinstance(node, ast.Assign):
            offered = ast.literal_eval(node.value)
        if targets == ["MADE_OF"] and isinstance(node, ast.Assign):
            declared = ast.literal_eval(node.value)
        for target in targets:
            direct[target] = _called(node, names)
            used[target] = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}

    def reach(name: str, seen: set[str]) -> set[str]:
        if name in seen or name not in direct:
            return set()
        seen.add(name)
        return direct[name].union(*(reach(other, seen) for other in used[name]))

    return {
        face: reach(face, set()).union({*declared.get(face, ())} & {*names}) for face in offered
    }


class Names:
    """Maps a name in the table to operators."""

    def __init__(self, info: Row) -> None:
        self.rows: list[Row] = info["operators"]
        self.forms = {form["name"]: row["name"] for row in self.rows for form in row["forms"]}
        operators = [row["name"] for row in self.rows]
        self.faces: dict[str, set[str]] = {}
        for family in {row["family"] for row in self.rows}:
            self.faces |= faces_of(_source(f"ops.{family}_api"), operators)
        for face, called in self.faces.items():  # torch's functions of the same name
            called |= _called(ast.parse(_source(f"kernels.{face}")), operators)
        self.gradients: dict[str, set[str]] = {}
        for op in operators:
            for forward, told in (_words(op, "AUTOGRAD") or {}).items():
                said = json.dumps(told)
                found = {one for one in operators if f'"{one}"' in said}
                self.gradients[forward] = self.gradients.get(forward, set()) | found

    def served(self, texts: list[str]) -> set[str]:
        """The operators that these texts name. An unknown name is an error."""
        names = {name for text in texts for name in re.findall(r"`(\w+)`", text)}
        if unknown := names - {*self.forms} - {*self.faces}:
            raise SystemExit(f"operator_table: OVERVIEW names no operator: {sorted(unknown)}")
        found = {self.forms[name] for name in names & {*self.forms}}
        found = found.union(*(self.faces[name] for name in names & {*self.faces}))
        return found.union(*(self.gradients.get(op, set()) for op in found))


def _backend(row: Row, backend: str) -> str:
    names = [i["name"] for i in row["implementations"] if i["backend"] == backend]
    return ", ".join(f"`{name}`" for name in names if name != "reference") or "–"


def _markdown(lines: list[list[str]]) -> str:
    return "".join(f"| {' | '.join(c.replace('|', chr(92) + '|') for c in t)} |\n" for t in lines)


def _rows(info: Row) -> list[tuple[str, list[str]]]:
    """Family and cells of each row of the table."""
    names = Names(info)
    told: list[tuple[str, list[str]]] = []  # family, row
    for family in sorted({row["family"] for row in names.rows}):
        modules = [family, *sorted(r["name"] for r in names.rows if r["family"] == family)]
        for module in dict.fromkeys(modules):
            told += [(family, list(cells)) for cells in _words(module, "OVERVIEW") or ()]
    served = names.served([cells[0] for _, cells in told])
    for row in names.rows:
        if row["name"] not in served:
            what = [f"`{row['name']}`", f"`{row['formula']}`"]
            told.append((row["family"], [*what, _backend(row, "cpu"), _backend(row, "cuda")]))
    return sorted(told, key=lambda one: one[0])


def make(info: Row) -> str:
    """The table as Markdown."""
    return _markdown([HEAD, ["---"] * len(HEAD), *(cells for _, cells in _rows(info))])


def families(info: Row) -> str:
    """The table with one row per family as Markdown: how many operators, and the names to call.
    Leaves out gradients, which torch calls, and parts of a face (quantize_token of quantize)."""
    names = Names(info)
    gradients = set[str]().union(*names.gradients.values())
    parts = tuple(f"{face}_" for face in names.faces)
    lines = []
    for family in sorted({row["family"] for row in names.rows}):
        inside = [row["name"] for row in names.rows if row["family"] == family]
        faces = faces_of(_source(f"ops.{family}_api"), inside)
        whole = {name for name in inside if name not in gradients and not name.startswith(parts)}
        called = ", ".join(f"`{name}`" for name in sorted({*whole, *faces}))
        lines.append([f"{family} ({len(inside)})", called])
    return _markdown([["family (operators)", "call"], ["---", "---"], *lines])
