"""Triton kernels as implementations: their meta-parameters are knobs, the grid a callable or tuple.

A kernel's arguments are matched by name: ``x`` or ``x_ptr`` for a tensor, letters, scalars, knobs.
``num_warps``, ``num_stages`` and the like are knobs of the launch. Configurations of an
``@triton.autotune`` become the space. Triton itself is never imported here. Read next:
_function.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ._function import Signature, match
from ._problem import Operator
from ._space import Knobs
from ._text import is_kernel as is_kernel
from ._words import refuse, refuse_type

_LAUNCH = ("num_warps", "num_stages", "num_ctas", "maxnreg")


def unwrap(fn: Any) -> tuple[Any, list[dict[str, Any]]]:
    """The kernel below @triton.autotune, and the configurations that it listed."""
    configs = []
    if hasattr(fn, "configs") and hasattr(fn, "fn"):
        for config in fn.configs:
            launch = {n: getattr(config, n, None) for n in _LAUNCH}
            configs.append({**config.kwargs, **{n: v for n, v in launch.items() if v is not None}})
        fn = fn.fn
    return fn, configs


def bind(op: Operator, kernel: Any, knobs: Knobs) -> tuple[Signature, dict[str, str]]:
    """The arguments that the kernel takes, and our name → its name for each."""
    known = {*op.tensors, *op.scalars, *op.letters, *knobs.domains}
    theirs: dict[str, str] = {}
    for name in kernel.arg_names:
        short = name.removesuffix("_ptr")
        theirs[name if name in known or short not in op.tensors else short] = name
    declared = dict.fromkeys(theirs, True)
    launch = {name: True for name in knobs.domains if name in _LAUNCH}
    return match(op, knobs, {**declared, **launch}, False, "fn"), theirs


def call_of(op: Operator, kernel: Any, theirs: Mapping[str, str], grid: Any) -> Callable[..., None]:
    """A Python function that takes all letters and knobs and launches the kernel."""
    wanted = frozenset(theirs)

    def launch(**named: Any) -> None:
        given = {theirs[n]: v for n, v in named.items() if n in wanted}
        extra = {n: v for n, v in named.items() if n in _LAUNCH and n not in given}
        size = grid
        if callable(grid):
            size = grid({**named, **given, **extra})
        kernel[size](**given, **extra)

    return launch


def check_grid(op: str, grid: Any) -> Any:
    if grid is None:
        raise refuse(
            op, "grid", "is missing", "a function of a kernel's arguments, or a tuple", "None",
            "pass for example grid=lambda meta: (meta['T'],)",
        )  # fmt: skip
    if callable(grid):
        return grid
    if isinstance(grid, Sequence) and all(isinstance(n, int) for n in grid):
        return tuple(grid)
    raise refuse_type(op, "grid", "a function or a tuple of integers", grid, "see docs/own.md")
