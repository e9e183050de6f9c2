"""Explains torch's own errors: its dispatcher refuses tensors that no kernel of ours takes.

In: the operation's name, its arguments in torch's order and the type of torch's error. Out: a typed
error in our words, or None if torch's own words are better. Read next: bindings/python/torch.cpp.
"""

from __future__ import annotations

from typing import Any

import torch

from .._functions import FUNCTIONS
from ..errors import ArgumentError, DeviceError, Error, UnsupportedDtypeError
from ._operations import OPERATIONS


def _refuse(cls: type[Error], *words: str) -> Error:
    op, argument, problem, expected, got, remedy = words
    message = f"{op}: {argument} {problem}; expected {expected}, got {got}; {remedy}"
    return cls.from_library(message, op, argument, expected, got)


def _look(op: str, name: str, tensor: torch.Tensor) -> Error | None:
    if tensor.is_nested:
        return _refuse(
            ArgumentError, op, name, "is a nested tensor", "a dense tensor", type(tensor).__name__,
            "pass its components, or .to_padded_tensor()",
        )  # fmt: skip
    layout = str(tensor.layout).removeprefix("torch.")
    if layout != "strided":
        return _refuse(
            ArgumentError, op, name, "is not a dense tensor", "a strided layout", layout,
            "convert it with .to_dense()",
        )  # fmt: skip
    if tensor.is_quantized:
        return _refuse(
            UnsupportedDtypeError, op, name, "is a quantized tensor", "a plain number type",
            str(tensor.dtype).removeprefix("torch."), "convert it with .dequantize()",
        )  # fmt: skip
    if tensor.device.type not in ("cpu", "cuda", "meta"):
        return _refuse(
            DeviceError, op, name, "is on a device that the library cannot reach", "cpu or cuda",
            str(tensor.device), "move it there",
        )  # fmt: skip
    return None


def typed(name: str, arguments: tuple[Any, ...], error: type[BaseException]) -> Error | None:
    """The error for the first argument that explains torch's, or None."""
    operation = OPERATIONS.get(name)
    if operation is None or not issubclass(error, (NotImplementedError, RuntimeError)):
        return None
    form = FUNCTIONS[operation.form]
    scalars = [p.name for p in form.params if p.kind != "tensor"]
    for (kind, index), value in zip(operation.arguments, arguments, strict=False):
        if kind != "scalar" and isinstance(value, torch.Tensor):
            own = shown = operation.tensors[index].name
            if kind == "result":
                own = shown = "out"
                if len(form.results) > 1:
                    own, shown = f"out[{index}]", f"out[{index}] ({form.results[index]})"
            found = _look(form.name, shown, value)
            if found is not None:
                found.argument = own
                return found
        if kind == "scalar" and type(value) is int and not -(2**63) <= value < 2**63:
            return _refuse(
                ArgumentError, form.name, scalars[index], "is too large", "a 64-bit integer",
                "an integer beyond 2^63", "pass a smaller one",
            )  # fmt: skip
    return None
