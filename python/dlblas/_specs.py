"""An operator's arguments from text: its schema, the sizes of its letters and a dtype give
``Spec``s.

In: a row of ``info()["operators"]``, ``T=512,C=4096``, ``bf16``, ``eps=1e-5``. Out: named arguments
for ``explain``, ``tune`` and ``get_op``; nothing is allocated. Used by: cli.py, the demo and the
benchmarks. Read next: tuning.py.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from . import _dims, _dtypes, _native
from ._array import Spec
from ._functions import resolve
from ._options import refuse as refuse
from ._text import nearest as nearest

Row = dict[str, Any]
Sizes = dict[str, Any]  # letter → size, or a list of sizes for ``*T``


def operator_row(name: str, info: Row | None = None) -> tuple[Row, str, Row]:
    """The operator behind a name, the name of the form, and the arguments that the name fixes."""
    function, fixed = resolve(name)
    if info is None:
        return _native.operator_row(function.operator), function.name, fixed
    rows = info["operators"]
    return next(row for row in rows if row["name"] == function.operator), function.name, fixed


def shape_of(dims: Sequence[Row], sizes: Sizes, ones: bool = False) -> tuple[int, ...]:
    """``[*T, 2F, K/128]`` with the sizes of its letters; ``ones``: dimensions ``1|M`` are 1, and
    ``D|2D`` are D."""
    totals = {
        name: math.prod(size) if isinstance(size, (list, tuple)) else size
        for name, size in sizes.items()
    }
    shape: list[int] = []
    for dim in map(_dims.of_json, dims):
        size = sizes[dim.plain] if dim.leading else None
        if isinstance(size, (list, tuple)):
            shape += size
        elif ones and (dim.may_be_one or dim.may_be_half):
            shape.append(dim.smaller(totals))
        else:
            shape.append(max(0, dim.evaluate(totals)))
    return tuple(shape)


def _twice(op: str, what: str, first: str, second: str) -> Exception:
    """The error for a value that is given twice, where the last one would silently win."""
    return refuse(op, what, "is given twice", "it once", f"{first} and {second}", "keep one")


def _pairs(op: str, option: str, *texts: str) -> Iterable[tuple[str, str]]:
    pairs: dict[str, str] = {}
    for word in filter(None, ",".join(texts).replace(" ", "").split(",")):
        name, equals, value = word.partition("=")
        if not (name and equals and value):
            raise refuse(op, option, "is malformed", "name=value,…", repr(word), "write T=512")
        if name in pairs:
            raise _twice(op, f"{option} {name}", f"{name}={pairs[name]}", word)
        pairs[name] = value
    return pairs.items()


def _composed(row: Row) -> dict[str, tuple[_dims.Dim, str]]:
    """The inputs' dimensions that are sums or products of letters, by their text in the schema; and
    a tensor that has each."""
    found: dict[str, tuple[_dims.Dim, str]] = {}
    for tensor in row["tensors"]:
        for dim in map(_dims.of_json, tensor["dims"]):
            if dim.terms and not dim.plain and any(map(dim.is_linear_in, dim.letters)):
                found.setdefault(dim.text.rpartition("|")[2], (dim, tensor["name"]))
    return found


def _solve(op: str, sizes: Sizes, composed: Mapping[str, tuple[_dims.Dim, str]]) -> None:
    """Adds the letters that sizes of sums and products give, and removes those sizes."""
    left = {text: composed[text][0] for text in sizes if text in composed}
    totals = {k: math.prod(v) if isinstance(v, list) else v for k, v in sizes.items()}
    while ready := [t for t, d in left.items() if sum(n not in totals for n in d.letters) <= 1]:
        for text in ready:
            dim, size = left.pop(text), sizes.pop(text)
            given = ", ".join(f"{n}={totals[n]}" for n in dim.letters if n in totals)
            letter = next((name for name in dim.letters if name not in totals), "")
            if letter and dim.is_linear_in(letter):
                rest, step = dim.solve(letter, totals, size)
                if step > 0 and rest >= 0 and rest % step == 0:
                    sizes[letter] = totals[letter] = rest // step
                    continue
                least = dim.evaluate({**totals, letter: 0})
                fits = f"at least {least}" if rest < 0 else f"a size with a whole {letter}"
                fits += f", with {given}" if given else ""
                raise refuse(
                    op, f"--dims {text}", "does not fit", fits, str(size), "give one that fits"
                )
            if not letter and dim.evaluate(totals) != size:
                fits = f"{dim.evaluate(totals)} from {given}"
                raise refuse(op, f"--dims {text}", "does not fit", fits, str(size), "leave one out")
    for text in left:
        del sizes[text]


def parse_dims(row: Row, text: str) -> Sizes:
    """``T=2x256,C=4096`` against the operator's letters; every letter needs a size, or a dimension
    that gives it: ``2F=8192``."""
    op, letters = row["name"], [letter["name"] for letter in row["letters"]]
    leading = {d["text"] for t in row["tensors"] for d in t["dims"] if d["leading"]}
    wanted = ",".join(f"{letter}=…" for letter in letters)
    composed = _composed(row)
    also = ", ".join(f"{size}=… of {tensor}" for size, (_, tensor) in composed.items())
    remedy = f"a dimension may be given too: {also}" if also else "see dlblas list"
    sizes: Sizes = {}
    for name, value in _pairs(op, "--dims", text):
        if name not in letters and name not in composed:
            raise refuse(op, "--dims", "names no letter of the schema", wanted, name, remedy)
        numbers = value.split("x")
        if not all(n.isdecimal() for n in numbers) or (len(numbers) > 1 and name not in leading):
            form = "a size, or sizes as in 2x256" if name in leading else "a size"
            raise refuse(op, f"--dims {name}", "is no size", form, value, "write digits")
        if any(len(n) > 18 for n in numbers):
            most = "at most 18 digits"
            raise refuse(op, f"--dims {name}", "is beyond 64 bits", most, value, "write fewer")
        sizes[name] = [int(n) for n in numbers] if len(numbers) > 1 else int(numbers[0])
    _solve(op, sizes, composed)
    missing = [letter for letter in letters if letter not in sizes]
    if missing:
        got = text or "nothing"
        remedy = f"give each a size; {remedy}" if also else "give each a size"
        raise refuse(op, "--dims", f"lacks {', '.join(missing)}", wanted, got, remedy)
    return sizes


def parse_value(op: str, param: Row, text: str) -> Any:
    """A scalar of the kind that the schema declares; ``bias=true`` requests an optional tensor,
    ``weight=false`` leaves it out."""
    kind = param["kind"]
    try:
        if kind == "int":
            return int(text)
        if kind == "float":
            return float(text)
    except ValueError:
        raise refuse(op, param["name"], "is no number", kind, text, "write one") from None
    if kind in ("bool", "tensor"):
        if text.lower() not in ("true", "false", "1", "0"):
            raise refuse(op, param["name"], "is no truth value", "true or false", text, "use one")
        return text.lower() in ("true", "1")
    if param["values"] and text not in param["values"]:
        known = ", ".join(value or '""' for value in param["values"])
        raise refuse(op, param["name"], "is unknown", known, text, "use one of these")
    return text


def parse_arguments(row: Row, form: str, texts: Sequence[str]) -> Row:
    """Parses ``--arg eps=1e-5 --arg bias=true`` by the form's parameters."""
    op = row["name"]
    params = {p["name"]: p for f in row["forms"] if f["name"] == form for p in f["params"]}
    free = {n: p for n, p in params.items() if p["kind"] != "tensor" or p["optional"]}
    given: Row = {}
    for name, value in _pairs(op, "--arg", *texts):
        if name not in free:
            known = ", ".join(free) or "none"
            near = nearest(name, free).removeprefix("; ") or "see dlblas list"
            raise refuse(op, "--arg", "names no argument to set", known, name, near)
        given[name] = parse_value(op, free[name], value)
    return given


def parse_dtypes(op: str, text: str) -> dict[str, str]:
    """Parses ``bf16``, or ``bf16,weight=f32``; a dtype without a tensor's name has the key ""."""
    chosen: dict[str, str] = {}
    words: dict[str, str] = {}
    for word in filter(None, text.replace(" ", "").split(",")):
        tensor, _, name = word.rpartition("=")
        dtype = _dtypes.name_of(name)
        if dtype is None:
            near = nearest(name, _dtypes.TABLE).removeprefix("; ") or "use one of these"
            raise refuse(op, "--dtype", "is unknown", ", ".join(_dtypes.TABLE), name, near)
        if tensor in words:
            raise _twice(op, f"--dtype {tensor}".rstrip(), words[tensor], word)
        words[tensor] = word
        chosen[tensor] = dtype
    return chosen


def like_of(tensor: Row, specs: Mapping[str, Any]) -> str | None:
    """The dtype that the tensor takes through its ``like()`` from the specs so far; None without a
    ``like()``."""
    if tensor["like"] in specs:
        return str(specs[tensor["like"]].dtype)
    return str(tensor["like_absent"][0]) if tensor["like_absent"] else None


def size_arguments(row: Row, sizes: Sizes) -> dict[str, int]:
    """The scalars that give a letter, with that letter's size."""
    params = row["forms"][0]["params"]
    return {p["name"]: sizes[p["name"]] for p in params if p.get("size")}


def tensor_specs(
    row: Row, sizes: Sizes, dtypes: dict[str, str], present: Row, device: str = "cpu"
) -> dict[str, Spec]:
    """Every required tensor, the usual ones that ``present`` does not exclude, and the optional
    ones that it requests."""
    unknown = set(dtypes) - {""} - {tensor["name"] for tensor in row["tensors"]}
    if unknown:
        known = ", ".join(tensor["name"] for tensor in row["tensors"])
        got = ", ".join(sorted(unknown))
        raise refuse(row["name"], "--dtype", "names no tensor", known, got, "use one of these")
    specs: dict[str, Spec] = {}
    common = dtypes.get("", "f32")
    taking = [tensor["name"] for tensor in row["tensors"] if common in tensor["dtypes"]]
    answers = taking[0] if taking else row["tensors"][0]["name"]
    for tensor in row["tensors"]:
        name = tensor["name"]
        if tensor["optional"] and not present.get(name, tensor["usual"]):
            continue
        dtype = dtypes.get(name) or like_of(tensor, specs)
        if dtype is None:  # an index does not take the common one; one tensor must answer for it
            takes = common in tensor["dtypes"] or name == answers
            dtype = common if takes else tensor["dtypes"][0]
        specs[name] = Spec(shape_of(tensor["dims"], sizes), dtype, device=device)
    return specs


def after_a_gap(row: Row, given: Container[str]) -> set[str]:
    """Tensors that must be passed by name, because a tensor before them is left out."""
    gap, behind = False, set()
    for param in row["forms"][0]["params"]:
        if param["kind"] != "tensor":
            break
        if param["name"] not in given:
            gap = True
        elif gap:
            behind.add(param["name"])
    return behind


def named_arguments(
    row: Row, sizes: Sizes, dtypes: dict[str, str], scalars: Row, device: str = "cpu"
) -> dict[str, Any]:
    """Specs of the tensors, and the scalars, all by name."""
    tensors = {tensor["name"] for tensor in row["tensors"]}
    named: dict[str, Any] = dict(tensor_specs(row, sizes, dtypes, scalars, device))
    named.update(size_arguments(row, sizes))
    named.update({name: value for name, value in scalars.items() if name not in tensors})
    return named


def choose_device(text: str | None, info: Row | None = None, absent: bool = False) -> str:
    """``--device``: "cpu", "cuda" or "cuda:1"; without one the first GPU that can run and compile
    kernels, else the CPU. A requested GPU that is not there is refused with a message; ``absent``
    allows "sm_90a", a typical GPU that need not be present."""
    if text == "cpu":
        return "cpu"
    if text is not None and text.startswith("sm_"):
        if absent:
            return Spec((), "f32", device=text).device
        remedy = "dlblas explain and dlblas compile take it"
        raise refuse("dlblas", "--device", "need not be here", "a device", text, remedy)
    info = info or _native.info()
    found = [row["device"] for row in info["devices"] if row["device"].startswith("cuda")]
    why_not = info["cuda"]["why_not"] or ("" if found else "the driver shows no device")
    why_not = why_not or info["cuda"]["nvrtc_why_not"]
    if text is None:
        return "cpu" if why_not else str(found[0])
    device = Spec((), "f32", device=text).device
    if device not in found or why_not:
        have = ", ".join(["cpu", *found])
        remedy = why_not or "use one of these"
        raise refuse("dlblas", "--device", "is not usable", f"one of {have}", text, remedy)
    return device


def cases(row: Row, use: str) -> list[Row]:
    """The rows of the operator's cases.json that are meant for ``use``."""
    folder = os.path.dirname(os.path.dirname(_native.library_path()))
    names = dict.fromkeys((row["family"], row["name"]))  # a family may have its operator's name
    paths = [os.path.join(folder, "ops", f"{name}.cases.json") for name in names]
    rows: list[Row] = []
    for path in paths:
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                rows += json.load(file)
    if not rows:  # a user's operator, or one without cases
        own = sys.modules.get("dlblas.own")
        return list(own.cases(row["name"], use)) if own else []
    return [case for case in rows if case["op"] == row["name"] and use in case["use"]]
