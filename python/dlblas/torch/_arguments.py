"""Converts arguments that dlblas's functions accept and torch's operators do not: dtypes by name,
and numbers in place of tensors without dimensions.

Out: ``reader``. Used where Python calls torch.ops: in traced code, and on tensors without memory.
Read next: _compile.py, ../_other_forms.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .. import _dtypes, _functions
from ._fakes import TORCH_DTYPES
from ._operations import OPERATIONS


def reader(function: _functions.Function) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Returns a function that converts named arguments to what torch accepts, in Python that
    torch's tracer can follow. Texts that name no dtype stay unchanged."""
    dtypes = tuple(p.name for p in function.params if p.kind == "dtype")
    long_names = {
        word: TORCH_DTYPES[short] for word, short in _dtypes.names() if short in TORCH_DTYPES
    }
    operation = OPERATIONS[function.name]
    numbers = {
        tensor.name: TORCH_DTYPES["f32" if "f32" in tensor.dtypes else tensor.dtypes[0]]
        for tensor in operation.tensors[: operation.num_inputs]
        if not tensor.dims and tensor.dtypes
    }

    def read(given: dict[str, Any]) -> dict[str, Any]:
        for key in dtypes:
            if isinstance(given.get(key), str):
                given[key] = long_names.get(given[key], given[key])
        for key, dtype in numbers.items():
            if isinstance(given.get(key), (int, float)):
                like = next(v for v in given.values() if isinstance(v, torch.Tensor))
                given[key] = torch.full((), given[key], dtype=dtype, device=like.device)
        return given

    return read
