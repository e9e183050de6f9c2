"""Functions made of operators (``quantize``, ``group_norm``, ``paged_attention`` …) as torch
operators: ``torch.ops.dlblas.quantize``, with a schema derived from the function's signature.

torch calls the function and sees the operators in it ("CompositeImplicitAutograd"), so it has their
fakes, gradients and kernels, under torch.compile and torch.export too. In: the functions of
_faces.py; IN_TORCH of ops/<family>/api.py, which adds what a signature lacks: types of parameters,
``""`` for one for which torch has no type, and ``"->"`` for results; SIZES_IN_TORCH there, and
OPERATORS_IN_TORCH, the family's files with parts that torch.compile does not look into.
Read next: _register.py, docs/torch.md.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch

from .. import _made_of

_RESULTS = {"None": "()", "Any": "Tensor"}
_PLAIN = ("bool", "float", "int", "str")


def _type(parameter: inspect.Parameter) -> str:
    """The type in torch's schema; empty if torch has none, or if the parameter would change what
    the call returns."""
    name, annotation = parameter.name, str(parameter.annotation)
    if name == "out" or name.startswith("return_"):
        return ""
    if annotation == "Any":
        if name.endswith("dtype"):
            return "ScalarType?"
        return "Tensor" if parameter.default is parameter.empty else "Tensor?"
    plain = annotation.removesuffix(" | None")
    return (plain + "?" * (plain != annotation)) if plain in _PLAIN else ""


def _default(parameter: inspect.Parameter, kind: str) -> str:
    value = parameter.default
    if value is parameter.empty:
        return ""
    if value is None or kind.endswith("?"):  # the function knows its own
        return "=None"
    return f"={json.dumps(value) if isinstance(value, str) else value}"


def _results(annotation: str) -> str:
    if annotation in _RESULTS:
        return _RESULTS[annotation]
    return f"({', '.join(['Tensor'] * annotation.count('Any'))})"


def schema_of(function: Callable[..., Any], types: dict[str, str]) -> tuple[str, tuple[str, ...]]:
    """The schema, as ``"(Tensor x, str granularity) -> (Tensor, Tensor)"``, and its parameters."""
    signature = inspect.signature(function)
    arguments = {}
    for name, parameter in signature.parameters.items():
        kind = types[name] if name in types else _type(parameter)
        if kind:
            arguments[name] = f"{kind} {name}{_default(parameter, kind)}"
    results = types.get("->") or _results(str(signature.return_annotation))
    return f"({', '.join(arguments.values())}) -> {results}", tuple(arguments)


def _kernel(function: Callable[..., Any], names: tuple[str, ...]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:  # what is left out at the end has its default
        given = {n: v for n, v in zip(names, args, strict=False) if v is not None}
        results = function(**given)

        def own(result: Any) -> Any:  # a scale that was given, say: no result is an argument
            return result.clone() if any(result is value for value in args) else result

        if isinstance(results, tuple):
            return tuple(own(result) for result in results)
        return None if results is None else own(results)

    return call


def _register_sizes(library: Any, module: Any) -> None:
    """Registers functions of sizes and numbers that return a size (SIZES_IN_TORCH of
    ops/<family>/api.py): in a graph with symbolic sizes, torch keeps a call of one as a call."""
    for function in getattr(module, "SIZES_IN_TORCH", ()):
        parameters = inspect.signature(function).parameters.values()
        kinds = {"int": "SymInt", "float": "float"}
        arguments = ", ".join(f"{kinds[str(p.annotation)]} {p.name}" for p in parameters)
        name = f"_{function.__name__}"
        library.define(f"{name}({arguments}) -> SymInt", tags=(torch.Tag.pt2_compliant_tag,))
        library.impl(name, function, "CompositeExplicitAutograd")


def _register_whole(library: Any, module: Any) -> None:
    """Registers the torch operators of a family's files (OPERATORS_IN_TORCH of ops/<family>/api.py
    names them; OPERATORS there: schema -> kernel, fake). A tracer keeps a call of one whole: a loop
    whose length depends on a size would be traced again for each length."""
    for file in getattr(module, "OPERATORS_IN_TORCH", ()):
        of_file = import_module(f"{module.__name__.removesuffix('_api')}_{file}")
        for schema, (kernel, fake) in of_file.OPERATORS.items():
            name = schema.partition("(")[0]
            library.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
            library.impl(name, kernel, "CompositeExplicitAutograd")
            library.impl(name, torch.library.fallthrough_kernel, "Autograd")
            torch.library.register_fake(f"dlblas::{name}", fake)


def register(library: Any) -> None:
    """Registers all of them, once; a function may have overloads for an argument's types."""
    modules = {}
    for name in _made_of.names():
        function = _made_of.function_named(name)
        if function is None:
            continue
        module = sys.modules[inspect.unwrap(function).__module__]
        modules[module.__name__] = module
        declared = getattr(module, "IN_TORCH", {}).get(name, {})
        overloads = declared if isinstance(declared, list) else [declared]
        for place, types in enumerate(overloads):
            schema, names = schema_of(function, types)
            full = f"{name}.{types.get('overload', place)}" if place else name
            library.define(full + schema)
            library.impl(full, _kernel(function, names), "CompositeImplicitAutograd")
    for module in modules.values():
        _register_sizes(library, module)
        _register_whole(library, module)
