"""The cases: the operators' cases.json expanded over dtypes, layouts and values.

In: the library's own description of its operators, the families' cases and formulas. Out: ``Case``,
each run with every implementation. Two names for the same shape, dtype, layout, values and
arguments are one case. Read next: run.py.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from .. import _native
from .tensors import KINDS, OUTPUT_KINDS

# (tensors in f64, scalars, rounding: a callable with .dtype) → results in f64
Formula = Callable[[dict[str, Any], dict[str, Any], Any], tuple[Any, ...]]

INPLACE, OVERLAPPING = "inplace", "overlapping"
SPLIT = ("mixed_leading", "heads_first")  # layouts with two leading dimensions


class Case(NamedTuple):
    """One shape with one dtype, layout, and kind of values. ``dims``: letter → size, or sizes for
    ``*T``."""

    op: str
    name: str
    dims: dict[str, Any]
    dtype: str
    layout: str
    values: str
    args: dict[str, Any]

    @property
    def identity(self) -> str:
        """Equal for cases that differ only in name."""
        rest = [value for name, value in self._asdict().items() if name != "name"]
        return json.dumps(rest, sort_keys=True)

    def repro(self, implementation: str, seed: int, config: str | None = None) -> str:
        text = (
            f"python -m dlblas test --op {self.op} --impl {implementation} --case {self.name} "
            f"--dtype {self.dtype} --layout {self.layout} --values {self.values} --seed {seed}"
        )
        own = sys.modules.get("dlblas.own")
        text += "".join(f" --import {module}" for module in (own.modules() if own else ()))
        return text if config is None else f"{text} --config '{config}'"


class Registry(NamedTuple):
    """The library's description of itself (``dlblas.info()``), by operator name, and the families'
    formulas."""

    operators: dict[str, dict[str, Any]]
    device: dict[str, Any]
    formulas: dict[str, Formula]
    rows: list[dict[str, Any]]  # of every operator's cases.json
    why_no_cuda: str  # empty: kernels for CUDA run here

    def implementations(self, op: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.operators[op]["implementations"]
        return found

    def inplace_form(self, op: str) -> dict[str, Any] | None:
        forms: list[dict[str, Any]] = self.operators[op]["forms"]
        return next((form for form in forms if form["inplace"]), None)


def load_registry() -> Registry:
    info = _native.info()
    operators = {op["name"]: op for op in info["operators"]}
    folder = Path(_native.library_path()).parent.parent / "ops"
    rows: list[dict[str, Any]] = []
    formulas: dict[str, Formula] = {}
    # Each operator has its own files; a family may also have files that its operators share.
    for family in sorted({op["family"] for op in operators.values()} | set(operators)):
        path = folder / f"{family}.cases.json"
        if path.exists():
            rows += [
                row
                for row in json.loads(path.read_text(encoding="utf-8"))
                if row["op"] in operators
            ]
        try:
            found = import_module(f"dlblas.ops.{family}_formulas")
            formulas.update(getattr(found, "FORMULAS", {}))  # a family's file may only be shared
        except ModuleNotFoundError:  # an operator without one: its reference counts for nothing
            continue
    for name in operators:
        rows += _registered_cases(name)
    return Registry(operators, info["devices"][0], formulas, rows, _why_no_cuda(info))


def _registered_cases(op: str) -> list[dict[str, Any]]:
    """Cases of a user's operator; a process that registered none does not import dlblas.own."""
    own = sys.modules.get("dlblas.own")
    return own.cases(op) if own else []


def _why_no_cuda(info: dict[str, Any]) -> str:
    cuda = info["cuda"]
    if cuda["why_not"] or len(info["devices"]) < 2:
        return str(cuda["why_not"] or "the driver shows no device")
    if cuda["nvrtc_why_not"]:
        return str(cuda["nvrtc_why_not"])
    try:
        import torch  # lends memory and copies
    except ImportError:
        return "torch is not installed"
    return "" if torch.cuda.is_available() else "torch has no CUDA here"


def expand(registry: Registry) -> Iterator[Case]:
    """Every distinct case whose row is meant for tests, in file order."""
    seen = set()
    for row in registry.rows:
        if "test" not in row["use"]:
            continue
        for dtype in row["dtypes"]:
            for layout in row.get("layouts", ["contiguous"]):
                for values in _values_of(row):
                    args = row.get("args", {})
                    case = Case(row["op"], row["name"], row["dims"], dtype, layout, values, args)
                    if case.identity not in seen:
                        seen.add(case.identity)
                        yield case


def _values_of(row: dict[str, Any]) -> list[str]:
    """Adds "mixed" if the row has "large" and "nan": the operator then takes them side by side."""
    listed: list[str] = row.get("values", ["normal"])
    return [*listed, "mixed"] if {"large", "nan"} <= set(listed) else listed


def split_leading(sizes: dict[str, Any], letters: set[str]) -> dict[str, Any] | None:
    """Two leading dimensions for a layout of SPLIT: T = 24 becomes [2, 12]. None if this shape has
    no such split."""
    split = dict(sizes)
    for letter in letters:
        if not isinstance(sizes[letter], list):
            if sizes[letter] < 4 or sizes[letter] % 2:
                return None
            split[letter] = [2, sizes[letter] // 2]
    return split if letters else None


def kind_of(layout: str, name: str, matrices: list[str], written: bool) -> str:
    """The layout of one tensor. ``nt``: one letter per matrix input in schema order, t for
    transposed; ``row_strided_b``: tensor b alone; any other: all tensors, but written ones only if
    a result may have that layout."""
    if set(layout) <= {"n", "t"}:
        order = dict(zip(matrices, layout, strict=False))
        return "transposed" if order.get(name) == "t" else "contiguous"
    if layout in (INPLACE, OVERLAPPING):
        return "contiguous"
    if layout in KINDS:
        return layout if not written or layout in OUTPUT_KINDS else "contiguous"
    kind, _, only = layout.rpartition("_")
    if kind not in KINDS:
        known = ", ".join(KINDS)
        raise ValueError(f"layout {layout} is unknown; expected letters n and t, or one of {known}")
    return kind if only == name else "contiguous"
