"""Makes an example of each operator for Python, torch and C++ from its schema and one of its cases.

In: an operator's row of dlblas.info(), and sizes. Out: code that runs unchanged; a test runs all of
it (tests/test_website_examples.py). Used by: operators.py.
"""

from __future__ import annotations

import json
import math
import pathlib
import re
from typing import Any, NamedTuple

Row = dict[str, Any]

_FILL = re.compile(
    r"(\w+): [^,~]*?(?:\[[^\]]*\])[?!]* ~ (\w+)(?:(<=?)([^,|)]+?))?(\|-1)?(?=,|\)|$)"
)
_NUMPY = {
    "f32": "np.float32", "f16": "np.float16", "i8": "np.int8", "u8": "np.uint8",
    "i32": "np.int32", "i64": "np.int64", "bool": "np.bool_",
}  # fmt: skip
_ML = {
    "bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
    "f8e8m0": "float8_e8m0fnu",
}  # fmt: skip
_TORCH = {
    "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i8": "int8", "u8": "uint8",
    "i32": "int32", "i64": "int64", "bool": "bool", "f8e4m3": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2", "f8e8m0": "float8_e8m0fnu", "f4x2": "float4_e2m1fn_x2",
}  # fmt: skip
_CPP = {
    "f32": "float", "i8": "std::int8_t", "u8": "std::uint8_t", "i32": "std::int32_t",
    "i64": "std::int64_t",
}  # fmt: skip
_MAX_ELEMENTS = 1 << 22  # elements of a tensor in an example
_MAX_WORK = 1 << 29  # the product of more than four letters' sizes: heads, positions and widths


class Input(NamedTuple):
    """One tensor of an example."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    fill: str
    limit: int  # of indices and lengths: values are below it, or up to it


class Example(NamedTuple):
    inputs: list[Input]
    scalars: dict[str, Any]  # that have no default
    results: list[str]


def first_sizes(room: pathlib.Path, op: str) -> Row | None:
    """The sizes of the first case, in the order of ``_order``, in which no tensor is large."""
    path = room / "cases.json"
    cases = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    mine = [case for case in cases if case["op"] == op]
    mine.sort(key=_order)
    for case in mine:
        sizes = {name: n for name, n in case["dims"].items() if isinstance(n, int)}
        whole = len(sizes) == len(case["dims"]) and min(sizes.values(), default=0) > 0
        few = len(sizes) <= 4 or math.prod(sizes.values()) <= _MAX_WORK
        if whole and few and math.prod(sorted(sizes.values())[-2:]) <= _MAX_ELEMENTS:
            return sizes
    return None


def _order(case: Row) -> tuple[bool, bool, int]:
    """Sort key: tuned cases as listed, then the others by size; in each, a size of 1 is last."""
    sizes = [n for n in case["dims"].values() if isinstance(n, int)]
    tuned = "tune" in case["use"]
    return not tuned, 1 in sizes, 0 if tuned else -math.prod(sizes)


def _fills(schema: str) -> dict[str, tuple[str, str, str]]:
    """Input → (its fill, the sign, the limit as written)."""
    inputs = schema.partition("->")[0]
    return {m[1]: (m[2], m[3] or "", (m[4] or "").strip()) for m in _FILL.finditer(inputs)}


def _limit(sign: str, text: str, sizes: Row) -> int:
    """The first index that is too large."""
    spelled = re.sub(r"(\d)([A-Za-z])", r"\1*\2", text).replace("/", "//")
    value = int(eval(spelled, {"__builtins__": {}}, dict(sizes))) if text else 0
    return value + (sign == "<=")


def make(row: Row, sizes: Row) -> Example:
    """The operator's required and usual tensors, in f32 where there is a choice."""
    from dlblas import _specs

    some = any("f32" in t["dtypes"] for t in row["tensors"])
    common = "f32" if some else row["tensors"][0]["dtypes"][0]
    specs = _specs.tensor_specs(row, sizes, {"": common}, {})
    fills = _fills(row["schema"])
    inputs = []
    kinds = {t["name"]: (t["like"], t["dtypes"]) for t in row["tensors"]}
    for name, spec in specs.items():
        fill, sign, text = fills.get(name, ("normal", "", ""))
        like, allowed = kinds[name]
        fits = bool(like) or spec.dtype in allowed
        dtype = str(spec.dtype) if fits else allowed[0]
        limit = _limit(sign, text, sizes)
        if fill == "normal" and dtype in ("i8", "u8"):
            fill, limit = "index", 127
        inputs.append(Input(name, tuple(spec.shape), dtype, fill, limit))
    scalars = {
        p["name"]: sizes[p["name"]] if p.get("size") else p["values"][0]
        for p in row["forms"][0]["params"]
        if p["kind"] != "tensor" and not p.get("has_default")
    }
    for param in row["forms"][0]["params"]:  # a size that is not the default's
        name = param["name"]
        if param.get("size") and param.get("has_default") and sizes[name] != param["default"]:
            scalars[name] = sizes[name]
    return Example(inputs, scalars, [r["name"] for r in row["results"]])


def _shape(shape: tuple[int, ...]) -> str:
    return f"({shape[0]},)" if len(shape) == 1 else f"({', '.join(map(str, shape))})"


def _drawn(fill: str, shape: str, count: int, last: int, limit: int, rows: int) -> str | None:
    """A NumPy expression for a special fill, such as indices; None for normal values."""
    top = max(1, limit)
    return {
        "index": f"rng.integers(0, {top}, {shape})",
        "lengths": f"rng.integers(1, {max(2, top)}, {shape})",
        "offsets": f"np.linspace(0, {max(0, top - 1)}, {count})",
        "permutation": f"rng.permutation({count})",
        "distinct": f"rng.permutation({top})[:{count}]",
        "distinct_rows": f"np.argsort(rng.random(({rows}, {top})))[:, :{last}]",
        "zeros": f"np.zeros({shape})",
        "positive": f"rng.random({shape}) + 0.5",
        "negative": f"-rng.random({shape}) - 0.5",
    }.get(fill)


def _made_of(value: Input) -> str:
    count = math.prod(value.shape)
    last = value.shape[-1] if value.shape else 1
    shape = _shape(value.shape) if value.shape else "()"
    rows = count // max(1, last)
    made = _drawn(value.fill, shape, count, last, value.limit, rows)
    if made and len(value.shape) > 1 and value.fill in ("permutation", "distinct", "offsets"):
        made = f"{made}.reshape{shape}"
    return made or f"rng.standard_normal({shape})"


def _assigned(example: Example) -> str:
    names = ", ".join(example.results)
    return f"{names if len(names) < 56 else 'results'} = " if names else ""


def _call(example: Example, row: Row, where: str) -> str:
    from dlblas import _specs

    behind = _specs.after_a_gap(row, [value.name for value in example.inputs])
    given = [f"{v.name}={v.name}" if v.name in behind else v.name for v in example.inputs]
    given += [
        f"{n}={json.dumps(v) if isinstance(v, str) else v}" for n, v in example.scalars.items()
    ]
    return f"{_assigned(example)}{where}.{row['name']}({', '.join(given)})"


def _ordered(example: Example, row: Row) -> list[str]:
    """Positional arguments in the order of torch's operators, required ones first, up to the last
    one that is given."""
    optional = {t["name"] for t in row["tensors"] if t["optional"] and not t["usual"]}
    params = sorted(
        row["forms"][0]["params"], key=lambda p: p["name"] in optional or bool(p.get("has_default"))
    )
    values = {value.name: value.name for value in example.inputs}
    values.update({n: repr(v) for n, v in example.scalars.items()})
    places = []
    for param in params:
        if param["name"] in values:
            places.append(values[param["name"]])
        elif param["kind"] == "tensor" or not param.get("has_default"):
            places.append("None")
        else:
            places.append(repr(param["default"]))
    while places and len(places) > 1 and places[-1] not in values.values():
        places.pop()
    return places


def in_python(example: Example, row: Row) -> str:
    """The example on NumPy arrays; "" if NumPy lacks one of its dtypes."""
    lines, small = [], False
    for value in example.inputs:
        if value.dtype in _NUMPY:
            kind = _NUMPY[value.dtype]
        elif value.dtype in _ML:
            kind, small = f"ml_dtypes.{_ML[value.dtype]}", True
        else:
            return ""
        lines.append(f"{value.name} = {_as(_made_of(value), kind)}")
    head = ["import numpy as np"] + ["import ml_dtypes"] * small + ["import dlblas", ""]
    drawn = ["rng = np.random.default_rng(0)"] if any("rng." in line for line in lines) else []
    call = _call(example, row, "dlblas")
    return "\n".join([*head, *drawn, *lines, *_folded(call)])


def _as(made: str, kind: str) -> str:
    plain = re.fullmatch(r"[\w.]+\(.*\)(\[.*\])?", made) is not None
    return f"{made}.astype({kind})" if plain else f"({made}).astype({kind})"


def in_torch(example: Example, row: Row) -> str:
    """The example on torch tensors, on a GPU if there is one."""
    lines = []
    for value in example.inputs:
        shape, dtype = ", ".join(map(str, value.shape)), f"torch.{_TORCH[value.dtype]}"
        count, last = math.prod(value.shape), value.shape[-1] if value.shape else 1
        top, on = max(1, value.limit), "device=device"
        size = f"({shape}{',' if len(value.shape) == 1 else ''})"
        made = {
            "index": f"torch.randint({top}, {size}, dtype={dtype}, {on})",
            "lengths": f"torch.randint(1, {max(2, top)}, {size}, dtype={dtype}, {on})",
            "offsets": f"torch.linspace(0, {max(0, top - 1)}, {count}, {on}).to({dtype})",
            "permutation": f"torch.randperm({count}, {on}).to({dtype})",
            "distinct": f"torch.randperm({top}, {on})[:{count}].to({dtype})",
            "distinct_rows": f"torch.rand({count // max(1, last)}, {top}, {on}).argsort()"
            f"[:, :{last}].to({dtype})",
            "zeros": f"torch.zeros({shape or '()'}, {on}).to({dtype})",
            "positive": f"(torch.rand({shape or '()'}, {on}) + 0.5).to({dtype})",
            "negative": f"(-torch.rand({shape or '()'}, {on}) - 0.5).to({dtype})",
        }.get(value.fill)
        if made and len(value.shape) > 1 and value.fill in ("permutation", "distinct", "offsets"):
            made = f"{made}.view({shape})"
        if made is None and value.dtype in ("f32", "f16", "bf16"):
            kind = "" if value.dtype == "f32" else f", dtype={dtype}"
            made = f"torch.randn({shape or '()'}, {on}{kind})"
        if made is None and value.dtype == "f4x2":
            made = f"torch.randint(256, {size}, dtype=torch.uint8, {on}).view({dtype})"
        lines.append(f"{value.name} = {made or f'torch.randn({shape}, {on}).to({dtype})'}")
    operator = (
        f"{_assigned(example)}torch.ops.dlblas.{row['name']}({', '.join(_ordered(example, row))})"
    )
    call = _call(example, row, "dlblas")
    head = ["import torch, dlblas", ""]
    head.append('device = "cuda" if torch.cuda.is_available() else "cpu"')
    again = _folded(f"{operator}  # the same, as torch knows it")
    return "\n".join([*head, *lines, *_folded(call), *again])


def _folded(line: str) -> list[str]:
    """Splits a call of more than 88 columns into several lines."""
    if len(line) <= 88:
        return [line]
    code, mark, note = line.partition("  # ")
    head, _, inside = code.partition("(")
    lines, row = [f"# {note}"] if mark else [], "   "
    lines.append(f"{head}(")
    for word in inside[:-1].split(", "):
        if len(row) + len(word) > 86:
            lines.append(row)
            row = "   "
        row += f" {word},"
    return [*lines, row, ")"]


def in_cpp(example: Example, row: Row) -> str:
    """The example with typed functions, on host memory."""
    name = row["name"]
    params = {p["name"]: p for p in row["forms"][0]["params"]}
    usual = {t["name"] for t in row["tensors"] if t["usual"]}
    lines: list[str] = []
    given: list[str] = []
    options: list[str] = []
    for value in example.inputs:
        count = math.prod(value.shape)
        kind = _CPP.get(value.dtype)
        dims = ", ".join(map(str, value.shape))
        if kind:
            lines.append(f"  std::vector<{kind}> {value.name}({count});")
            made = (
                f"{{{value.name}, {{{dims}}}}}" if value.shape else f"{{{value.name}.data(), {{}}}}"
            )
        else:
            size = {"f16": 2, "bf16": 2}.get(value.dtype, 1)
            lines.append(f"  std::vector<std::uint8_t> {value.name}({count * size});")
            dtype = {
                "f16": "kF16", "bf16": "kBF16", "f8e4m3": "kF8E4M3", "f8e5m2": "kF8E5M2",
                "f8e8m0": "kF8E8M0", "f4x2": "kF4X2", "bool": "kBool",
            }[value.dtype]  # fmt: skip
            made = f"{{{value.name}.data(), dlblas::DType::{dtype}, {{{dims}}}}}"
        optional = params[value.name]["optional"] and value.name not in usual
        (options if optional else given).append(f".{value.name} = {made}" if optional else made)
    for scalar, number in example.scalars.items():
        needed = not params[scalar].get("has_default")
        (given if needed else options).append(str(number) if needed else f".{scalar} = {number}")
    if options:
        given.append(f"{{{', '.join(options)}}}")
    results = example.results
    into = {0: "", 1: f"dlblas::Tensor {results[0]} = " if results else ""}.get(
        len(results), f"auto [{', '.join(results)}] = "
    )
    call = f"  {into}dlblas::{name}("
    inside = ", ".join(given)
    if len(call) + len(inside) + 2 > 88:
        inside = "\n      " + ",\n      ".join(given)
    head = ["#include <vector>", "", "#include <dlblas/ops.hpp>", "", "int main() {"]
    return "\n".join([*head, *lines, f"{call}{inside});", "}"])


def tabs(example: Example, row: Row) -> str:
    """The three examples as tabs, switched by radio buttons without a script."""
    made = [
        ("Python", "python", in_python(example, row)),
        ("torch", "python", in_torch(example, row)),
        ("C++", "cpp", in_cpp(example, row)),
    ]
    there = [entry for entry in made if entry[2]]
    text = '<div class="tabs">\n'
    for i, (title, _, _) in enumerate(there):
        mark = " checked" if i == 0 else ""
        text += f'<input type="radio" name="example" id="tab{i}"{mark}>'
        text += f'<label for="tab{i}">{title}</label>\n'
    for _, language, code in there:
        text += f'\n<div class="tab">\n\n```{language}\n{code}\n```\n\n</div>\n'
    return f"{text}\n</div>\n\n"
