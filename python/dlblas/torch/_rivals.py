"""Registers torch's own functions as candidates in every process that has torch: RIVALS of
ops/<family>/rivals.py and ops/<family>/<op>/rivals.py.

A candidate that was never measured ranks last, so nothing changes until a search has measured one;
its record then applies in every process that has torch. In: nothing. Out: ``register``, called once
by _register.py; ``module_for``, the module that a search's worker imports, which then spends the
second that importing torch takes. Read next: ops/attention/rivals.py, ../_worker_command.py.
"""

from __future__ import annotations

import functools
import hashlib
import pkgutil
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import torch

from .. import _dtypes, _functions

MODULE = f"{__package__}.rivals"
_DEVICES = {"cpu": 1, "cuda": 2}


class Asked(NamedTuple):
    """A problem as the library passes it: sizes (a bucketed one is its bucket's end), dtypes and
    layouts of the tensors present, key scalars (for some, whether they are given)."""

    letters: dict[str, int]
    dtypes: dict[str, str]
    scalars: dict[str, Any]
    layouts: dict[str, int]


class Rival(NamedTuple):
    """A candidate in torch's own functions."""

    op: str
    name: str
    device: str  # "cpu" or "cuda"
    serves: Callable[[Asked], str | None]  # why a problem is not served, or None
    run: Callable[..., None]  # on torch tensors, by the schema's names; writes the results


@functools.cache
def rivals() -> tuple[Rival, ...]:
    """Those of all operators of this library."""
    folder = import_module("dlblas.ops").__path__
    names = [module.name for module in pkgutil.iter_modules(folder)]
    modules = [import_module(f"dlblas.ops.{name}") for name in names if name.endswith("_rivals")]
    found = [rival for module in modules for rival in module.RIVALS]
    return tuple(rival for rival in found if rival.op in _functions.FUNCTIONS)


def module_for(op: str) -> str | None:
    return MODULE if any(op == rival.op for rival in rivals()) else None


@functools.cache
def _digest(module: str) -> str:
    """A hash of the source that computes and of torch's version: other records are stale."""
    words = hashlib.sha256(torch.__version__.encode())
    try:
        with open(str(import_module(module).__file__), "rb") as text:
            words.update(text.read())
    except OSError:  # a package that is no folder: by its version alone
        pass
    return words.hexdigest()[:16]


def _supports(op: str, serves: Callable[[Asked], str | None]) -> Callable[[Any], str | None]:
    schema = _functions.FUNCTIONS[op].schema
    _, letters, inputs, results, scalars = _functions.native["own_schema"](schema)
    tensors = (*(row[0] for row in inputs), *results)
    keys = tuple(row[0] for row in scalars)

    def ask(row: tuple[Any, ...]) -> str | None:
        sizes, held, values, *_ = row
        there = {n: t for n, t in zip(tensors, held, strict=True) if t[1]}
        return serves(
            Asked(
                dict(zip(letters, sizes, strict=True)),
                {n: _dtypes.NAMES[t[0], t[1]] for n, t in there.items()},
                dict(zip(keys, values, strict=True)),
                {n: t[2] for n, t in there.items()},
            )
        )

    return ask


def _step(rival: Rival) -> Callable[..., str | None]:
    """The function that the library calls, made when it is first called."""
    made: list[Callable[..., str | None]] = []

    def step(*call: Any) -> str | None:
        if not made:
            # Imported by name: dlblas.own is a layer above this package.
            torch_step = import_module("dlblas.own._function").torch_step
            made.append(torch_step(rival.op, rival.run))
        return made[0](*call)

    return step


def register() -> None:
    """Registers each rival."""
    for rival in rivals():
        _functions.native["own_register"](
            rival.op, rival.name, _digest(rival.run.__module__), _DEVICES[rival.device], 0, 0, (),
            (), None, _supports(rival.op, rival.serves), None, _step(rival), True, None,
        )  # fmt: skip
