"""Benchmark problems of the operators with a torch formula (``peers.py`` in their folder), at the
benchmark shapes of their cases.json: tensors as the schema specifies, on any device.

Used by: cpu_rows.py, gpu_rows.py.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch

import dlblas
from dlblas import _dtypes, _specs

Row = dict[str, Any]
Tensors = dict[str, torch.Tensor]
Formula = Callable[..., Any]

_DRAWN = 1 << 22  # elements; more are made on the device
_WORDS = 1 << 30  # no index of a problem is as large
_ALIGNED = 256  # bytes


class Problem(NamedTuple):
    """One case of an operator: the shapes of its tensors, and the other arguments of a call."""

    row: Row
    case: Row
    dtype: str
    specs: dict[str, Any]
    scalars: dict[str, Any]

    @property
    def op(self) -> str:
        return str(self.row["name"])

    def facts(self, name: str) -> Row:
        return next(dict(t) for t in self.row["tensors"] if t["name"] == name)

    def has_rows(self, name: str) -> bool:
        """True for a tensor with the letter of rows, or, if none has it, for a matrix."""
        if any(map(_has_letter, self.row["tensors"])):
            return _has_letter(self.facts(name))
        return len(self.facts(name)["dims"]) > 1

    def num_rows(self) -> int:
        """The number of its rows; 1 if it has no such letter."""
        return math.prod(np.atleast_1d(self.case["dims"].get("T", 1)).tolist())

    def elements(self) -> int:
        """The elements of the largest tensor that has rows."""
        return max(int(math.prod(s.shape)) for n, s in self.specs.items() if self.has_rows(n))

    def elements_of_all(self) -> int:
        """The elements of the largest tensor, weights included."""
        return max(int(math.prod(s.shape)) for s in self.specs.values())

    def told(self) -> Row:
        """Its sizes; if an earlier case has the same, also the arguments that it has not."""
        args = self.case.get("args", {})
        same = next(
            c for c in _specs.cases(self.row, "bench") if c["dims"] == self.case["dims"]
        ).get("args", {})
        more = [n if v is True else f"{n}={v}" for n, v in args.items() if same.get(n) != v]
        return {**self.case["dims"], **({"with": ", ".join(more)} if more else {})}


def _has_letter(tensor: Row) -> bool:
    return any(d["text"] in ("T", "*T") for d in tensor["dims"])


def _peers_of(row: Row) -> ModuleType | None:
    module = f"dlblas.ops.{row['name']}_peers"
    return import_module(module) if importlib.util.find_spec(module) else None


def formula_of(row: Row) -> Formula | None:
    """The operator's torch formula; None if its folder has no peers.py."""
    peers = _peers_of(row)
    return getattr(peers, row["name"]) if peers else None


def sections_of(row: Row) -> tuple[str, ...]:
    """Sections of the operator's own on a GPU, if its peers.py names some: the others leave it."""
    return getattr(_peers_of(row), "SECTIONS", ())


def problems_of(row: Row, *wanted: str) -> Iterator[Problem]:
    """Each case in each of the wanted dtypes that it has; in its first if it has none of them."""
    for case in _specs.cases(row, "bench"):
        for dtype in [d for d in wanted if d in case["dtypes"]] or case["dtypes"][:1]:
            args = case.get("args", {})
            dtypes = {"": dtype, **{n: d for n, d in args.items() if isinstance(d, str)}}
            tensors = {tensor["name"] for tensor in row["tensors"]}
            known = {n: d for n, d in dtypes.items() if n in tensors or not n}
            specs = _specs.tensor_specs(row, case["dims"], known, args)
            scalars = {n: v for n, v in args.items() if n not in tensors}
            sizes = _specs.size_arguments(row, case["dims"])
            yield Problem(row, case, dtype, specs, {**scalars, **sizes})


def torch_dtype(name: str) -> torch.dtype:
    made = getattr(torch, _dtypes.TABLE[name][2])
    assert isinstance(made, torch.dtype)
    return made


def make_tensor(problem: Problem, name: str, sets: int, device: str) -> torch.Tensor:
    """[sets, …] of one input, as its schema specifies; all sets share one table or vector."""
    spec = problem.specs[name]
    facts, dtype = problem.facts(name), torch_dtype(spec.dtype)
    shape, count = tuple(spec.shape), math.prod(spec.shape)
    alike = not problem.has_rows(name) and not facts["written"]
    if facts["fill"] in ("", "normal") and dtype.is_floating_point:
        made = torch.randn((1 if alike else sets, *shape), device=device, dtype=torch.bfloat16)
        return made.to(dtype).expand(sets, *shape)
    if dtype.is_floating_point and (count > _DRAWN or dtype not in (torch.float32, torch.float64)):
        # Positive, or negative.
        made = torch.rand((1 if alike else sets, *shape), device=device) + 0.01
        made = -made if facts["fill"] == "negative" else made
        return made.to(dtype).expand(sets, *shape)
    from dlblas.harness import abi

    array = np.empty(shape, _dtypes.TABLE[spec.dtype][2])
    letters = (problem.case["dims"][letter["name"]] for letter in problem.row["letters"])
    abi.make_input(problem.op, name, [int(np.prod(n)) for n in letters], 7, array)
    largest = array.max(initial=0)
    # A negative index counts from the end in torch. Words of packed codes are not indices.
    if array.dtype.kind == "i" and largest < _WORDS:
        unused = np.setdiff1d(np.arange(largest), array)
        array[array < 0] = np.resize(unused if unused.size else 0, np.count_nonzero(array < 0))
    return torch.from_numpy(array).to(device).expand(sets, *shape)


def aligned_empty(
    sets: int, shape: Iterable[int], dtype: torch.dtype, device: str = "cuda"
) -> torch.Tensor:
    """[sets, …], each set aligned like an allocation: a misaligned set would be another problem,
    with another kernel."""
    shape = tuple(shape)
    step = -(-math.prod(shape) * dtype.itemsize // _ALIGNED) * _ALIGNED // dtype.itemsize
    steps = torch.empty(shape, dtype=dtype, device="meta").stride()
    return torch.empty((sets, step), dtype=dtype, device=device).as_strided(
        (sets, *shape), (step, *steps)
    )


def aligned(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself if each set is aligned or all sets are one; else an aligned copy."""
    if tensor.stride(0) * tensor.dtype.itemsize % _ALIGNED == 0:
        return tensor
    made = aligned_empty(len(tensor), tensor.shape[1:], tensor.dtype, str(tensor.device))
    return made.copy_(tensor)


def as_list(made: Any) -> list[torch.Tensor]:
    return [] if made is None else list(made) if isinstance(made, tuple) else [made]


def run(problem: Problem, tensors: Tensors) -> Any:
    return getattr(dlblas, problem.op)(**tensors, **problem.scalars)


def bytes_of(problem: Problem, results: list[torch.Tensor]) -> int:
    """Bytes that the operator must move: of tables only the rows used, of written inputs only what
    is stored there (of pages beside results, one slot per row)."""
    count, read, stored = problem.num_rows(), 0, 0
    for name, spec in problem.specs.items():
        size = math.prod(spec.shape) * _dtypes.TABLE[spec.dtype][1] // 8
        if problem.facts(name)["written"]:
            slots = math.prod(spec.shape[:2])
            if results and len(spec.shape) > 2 and not problem.has_rows(name):
                stored += int(size * min(1, count / slots))
            continue
        used = count / spec.shape[0] if len(spec.shape) > 1 and not problem.has_rows(name) else 1
        read += int(size * min(1, used))
    written = sum(r.numel() * r.element_size() for r in results) + stored
    return read + (written or read)


def formula_scalars(problem: Problem) -> dict[str, Any]:
    known = import_module(f"dlblas.ops.{problem.op}_peers")
    names = getattr(known, problem.op).__annotations__
    return {n: v for n, v in problem.scalars.items() if n in names}
