"""Problems from a file, one JSON object per line: those that a run encountered and no search
covered.

In: lines like ``{"op": "rms_norm", "dims": {"T": 16, "C": 4096}, "dtype": "bf16", "scalars":
{"eps": 1e-5}}``; ``dtypes`` may name tensors, ``{"": "bf16", "weight": "f32"}``, and ``"bias":
true`` among the scalars requests an optional one. Lines of ``dlblas.missed(file)``, from any
device, are accepted too. Out: (form, named arguments), as for --dims, --dtype and --arg. Read next:
_specs.py, _cli_compile.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from . import _native, _specs
from ._array import Spec
from ._text import cut, harmless
from .errors import Error, UnknownOperatorError

_FIELDS = ("op", "dims", "dtype", "dtypes", "scalars")
_LINE = '{"op": …, "dims": {…}, "dtype": …, "scalars": {…}}'


class Missed(NamedTuple):
    """One line: its number in the file, and the problem that it describes."""

    line: int
    op: str
    dims: str
    dtype: str
    scalars: list[str]
    transposed: frozenset[str] = frozenset()  # tensors whose last two dimensions lie the other way


def _word(value: Any) -> str:
    """A value as it is written on a command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "x".join(map(_word, value)) if isinstance(value, list) else str(value)


def _words(values: Mapping[str, Any]) -> list[str]:
    return [f"{name}={_word(value)}" if name else _word(value) for name, value in values.items()]


_TRANSPOSED = ("transposed", "matrices_transposed")


def _scalars_of(row: Any, words: list[str]) -> list[str]:
    """A key's scalars as they are written on a command line. A scalar of which the key only says
    that it is set gets the schema's value for that case: kernels do not depend on more."""
    params = row["forms"][0]["params"]
    usually_empty = {param["name"] for param in params if param.get("default") == ""}
    kept = []
    for word in words:
        name, _, value = word.partition("=")
        value = value.replace('"', "")
        if value == "set" and (
            told := re.search(rf"\b{name}: [^,]*key\(set=([^)]+)\)", row["schema"])
        ):
            value = told[1]
        if value not in ("none", "default") and (value or name not in usually_empty):
            kept.append(f"{name}={value}")
    return kept


def _of_key(number: int, key: dict[str, str]) -> Missed | None:
    """A line of ``dlblas.missed``: the sizes, dtypes and scalars of a key, and which matrices are
    transposed; other layouts are taken as contiguous."""
    parts = [key.get(name) for name in ("op", "dims", "tensors", "scalars")]
    if not all(isinstance(part, str) for part in parts):
        return None
    try:
        row = _native.operator_row(key["op"])
    except UnknownOperatorError:
        return None
    tensors = [word.split(":") for word in key["tensors"].split() if ":" in word]
    told = {words[0]: words[1] for words in tensors}
    transposed = frozenset(words[0] for words in tensors if {*words[2:3]} & {*_TRANSPOSED})
    inputs = [tensor["name"] for tensor in row["tensors"]]
    given = [name for name in inputs if told.get(name, "absent") != "absent"]
    dtypes = [f"{name}={told[name]}" for name in given]
    if dtypes:
        dtypes.insert(0, dtypes[0].partition("=")[2])
    dims = ",".join(key["dims"].split())
    scalars = _scalars_of(row, key["scalars"].split())
    usual = [tensor["name"] for tensor in row["tensors"] if tensor["usual"]]
    scalars += [f"{name}=false" for name in usual if name not in given]
    return Missed(number, key["op"], dims, ",".join(dtypes), scalars, transposed)


def _parse(number: int, text: str) -> Missed:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if isinstance(value, dict) and "tensors" in value and (missed := _of_key(number, value)):
        return missed
    good = (
        isinstance(value, dict) and isinstance(value.get("op"), str) and not set(value) - {*_FIELDS}
    )
    parts = [value.get(name) or {} for name in ("dims", "dtypes", "scalars")] if good else []
    if not good or not all(isinstance(part, dict) for part in parts):
        got = harmless(cut(text, 100))
        raise _specs.refuse(
            "compile", f"--missed line {number}", "is malformed", _LINE, got, "one object per line"
        )
    dims, dtypes, scalars = parts
    common = {"": value["dtype"]} if value.get("dtype") else {}
    dtype = ",".join(_words({**common, **dtypes}))
    return Missed(number, value["op"], ",".join(_words(dims)), dtype, _words(scalars))


def read(path: str) -> list[Missed]:
    """The file's lines; empty ones are skipped."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return [_parse(n, text) for n, text in enumerate(file, 1) if text.strip()]


def _with_last_two_swapped(spec: Spec) -> Spec:
    """The same shape with its second-to-last dimension contiguous."""
    *lead, rows, columns = spec.shape
    strides, step = [1, rows], rows * columns
    for size in reversed(lead):
        strides.insert(0, step)
        step *= size
    return Spec(spec.shape, spec.dtype, strides=tuple(strides), device=spec.device)


def arguments(
    op: str, dims: str, dtype: str, scalars: list[str], device: str,
    transposed: frozenset[str] = frozenset(),
) -> tuple[str, Any]:  # fmt: skip
    """(form, named arguments) of one problem that is given as text, on a device."""
    row, form, fixed = _specs.operator_row(op)
    dtypes = _specs.parse_dtypes(row["name"], dtype)
    optional = {tensor["name"] for tensor in row["tensors"] if tensor["optional"]}
    named_by_dtype = {name: True for name in dtypes if name in optional}
    given = {**named_by_dtype, **_specs.parse_arguments(row, form, scalars), **fixed}
    sizes = _specs.parse_dims(row, dims)
    named = _specs.named_arguments(row, sizes, dtypes or {"": "f32"}, given, device)
    for name in transposed & named.keys():
        if len(named[name].shape) > 1:
            named[name] = _with_last_two_swapped(named[name])
    return form, named


def problems(path: str, device: str) -> Iterator[tuple[str, Any]]:
    """Every problem of the file on a device; an error names its line."""
    for missed in read(path):
        try:
            yield arguments(*missed[1:5], device, missed.transposed)
        except Error as error:
            words = f"line {missed.line} of {harmless(path)}: {error}"
            raise type(error).from_library(
                words, error.op, error.argument, error.expected, error.got
            ) from None
