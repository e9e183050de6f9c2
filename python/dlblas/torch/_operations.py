"""The operators as registered with torch, from the registry's rows.

In: rows of bindings/python/torch_register.cpp. Out: ``OPERATIONS``, by name, and ``operator``.
Everything else in this package reads them. Read next: _register.py, which fills them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from .. import _dims


class Tensor(NamedTuple):
    """One tensor of an operator's schema."""

    name: str
    dims: tuple[_dims.Dim, ...]
    dtypes: tuple[str, ...]
    like: int  # the tensor whose dtype is also allowed, or -1
    like_absent: tuple[str, ...]  # allowed instead where that tensor is absent
    dtype_scalar: int  # the scalar that decides a result's dtype when it is given, or -1
    optional: bool


class Operation(NamedTuple):
    """An operator as registered with torch."""

    name: str  # "x_out"
    schema: str
    form: str  # the function of dlblas that it serves: "x"
    operator: str
    arguments: tuple[tuple[str, int], ...]  # ("tensor" | "result" | "scalar", index in the schema)
    sizes: tuple[tuple[int, str, int | None], ...]  # scalars that give a letter: its name, default
    tensors: tuple[Tensor, ...]  # inputs, then results
    num_inputs: int
    returned: tuple[int, ...]  # which results a call makes
    writes: bool
    refuses_grad: bool  # its kernel does, of tensors that require grad in grad mode

    @property
    def num_returned(self) -> int:
        return len(self.returned)


def _tensor(row: tuple[Any, ...]) -> Tensor:
    made = Tensor(*row)
    read = tuple(_dims.of_tuple(dim) for dim in made.dims)
    return made._replace(dims=read, optional=bool(made.optional))


def read_operation(row: tuple[Any, ...]) -> Operation:
    made = Operation(*row)
    read = tuple(_tensor(tensor) for tensor in made.tensors)
    return made._replace(
        tensors=read, writes=bool(made.writes), refuses_grad=bool(made.refuses_grad)
    )


OPERATIONS: dict[str, Operation] = {}
"""The operations that torch has, by name."""


def operator(name: str) -> Any:
    """torch.ops.dlblas.<name>, its only overload."""
    return getattr(torch.ops.dlblas, name).default
