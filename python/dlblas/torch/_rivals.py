"""Registers torch's own attention as candidates in every process that has torch: rows for
``_attention.py``, whose functions are imported when one of them runs.

A candidate that was never measured ranks last, so nothing changes until a search has measured one;
its record then applies in every process that has torch. In: nothing. Out: ``register``, called once
by _register.py; ``module_for``, the module that a search's worker imports, which then spends the
second that importing torch takes. Read next: _attention.py, ../_worker_command.py.
"""

from __future__ import annotations

import hashlib
import os
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


_BY_ROWS = 2  # layouts before it: contiguous, and rows apart


def _common(asked: Asked) -> str | None:
    if any(size == 0 for size in asked.letters.values()):
        return "a size is 0"
    if asked.letters["D"] != asked.letters["Dv"]:
        return "heads of q and v differ"
    for name, layout in asked.layouts.items():
        if layout >= _BY_ROWS:  # those behind may have steps below 0, which torch has not
            return f"{name} has rows in another order"
    for name in ("bias", "dlse"):
        if name in asked.dtypes:
            return f"takes no {name}"
    for name in ("window", "softcap"):
        if asked.scalars.get(name):
            return f"takes no {name}"
    return None


def _dense(asked: Asked) -> str | None:
    if asked.scalars["causal"] and asked.letters["S"] != asked.letters["L"]:
        return "torch aligns a causal mask top left, where S is not L"
    return _common(asked)


def _on_cpus(asked: Asked) -> str | None:
    if next(iter(asked.dtypes.values())) != "f32":
        return "torch's sums of 16 bits are less exact than asked"
    return _dense(asked) if "S" in asked.letters else _common(asked)


def _on_gpus(asked: Asked) -> str | None:
    if asked.dtypes["q"] not in ("f16", "bf16"):
        return "q is not of 16 bits"
    if asked.letters["D"] % 8 or asked.letters["D"] > 256:
        return "heads are no multiple of 8 up to 256"
    return _dense(asked)


def _gradient_on_gpus(asked: Asked) -> str | None:
    if asked.scalars["causal"]:
        return "torch spreads NaN of a row to keys that the row does not see"
    return _on_gpus(asked)


# Operator, name, device, and the function that says why a problem is not served, or None.
ROWS: list[tuple[str, str, str, Callable[[Asked], str | None]]] = [
    ("flash_attention_lse", "torch_sdpa", "cpu", _on_cpus),
    ("flash_attention_lse", "torch_flash", "cuda", _on_gpus),
    ("flash_attention_lse", "torch_cudnn", "cuda", _on_gpus),
    ("flash_attention_varlen_lse", "torch_sdpa", "cpu", _on_cpus),
    ("flash_attention_backward", "torch_sdpa", "cpu", _on_cpus),
    ("flash_attention_backward", "torch_flash", "cuda", _gradient_on_gpus),
    ("flash_attention_backward", "torch_cudnn", "cuda", _gradient_on_gpus),
]


def module_for(op: str) -> str | None:
    return MODULE if any(op == row[0] for row in ROWS) else None


def _digest() -> str:
    """A hash of the source that computes and of torch's version: other records are stale."""
    words = hashlib.sha256(torch.__version__.encode())
    try:
        with open(os.path.join(os.path.dirname(__file__), "_attention.py"), "rb") as text:
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


def _step(op: str, name: str) -> Callable[..., str | None]:
    made: list[Callable[..., str | None]] = []

    def step(*call: Any) -> str | None:
        if not made:
            # Imported by name: dlblas.own, which _attention.py uses, is a layer above this package.
            made.append(import_module(f"{__package__}._attention").step_of(op, name))
        return made[0](*call)

    return step


def register() -> None:
    """Registers every row whose operator this library has."""
    digest = _digest()
    for op, name, device, serves in ROWS:
        if op in _functions.FUNCTIONS:
            _functions.native["own_register"](
                op, name, digest, _DEVICES[device], 0, 0, (), (), None, _supports(op, serves), None,
                _step(op, name), True, None,
            )  # fmt: skip
