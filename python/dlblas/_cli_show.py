"""``dlblas info`` and ``list``: what the library knows, as text or JSON.

Each command takes its parsed options and returns an exit code. Read next: cli.py.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from inspect import Signature, signature
from typing import Any

from . import _made_of, _native, _specs, _why, tuning
from ._text import columns, harmless, size

OK, FAILED = 0, 1
Row = dict[str, Any]


def print_json(value: Any) -> None:
    """Prints the whole value; characters that do not print become JSON escapes."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    encoding = sys.stdout.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeError:
        text = json.dumps(value, indent=1)
    if not text.replace("\n", "").isprintable():
        text = "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
    print(text)


def _here(path: str) -> str:
    """The path relative to the current folder, if it is inside it."""
    try:
        return path.removeprefix(os.getcwd() + os.sep)
    except OSError:  # it is gone
        return path


def _describe_rates(device: Row) -> str:
    """The rates that estimates assume for a device: from tables, or measured by `dlblas bench
    machine`."""
    r = device["rates"]
    half = f", {r['half_flops'] / 1e12:.3g} in f16 and bf16" if device["device"] != "cpu" else ""
    return (
        f"{'':10} estimates assume {r['memory_bytes_per_s'] / 1e9:.3g} GB/s from memory, "
        f"{r['cache_bytes_per_s'] / 1e9:.3g} from cache, {r['f32_flops'] / 1e12:.3g} TFLOP/s{half}"
        f"{', as measured here' if r['measured'] else ''}"
    )


def _describe_gpu(gpu: Row) -> str:
    arch = f"sm_{gpu['arch']}" + ("a" if gpu["arch"] >= 90 else "")
    clocks = f", {gpu['sm_mhz']} MHz, {gpu['temperature_c']} °C" if gpu["sm_mhz"] else ""
    memory = f"{size(gpu['memory_bytes'])}, L2 {size(gpu['l2_bytes'])}"
    return f"{gpu['device']:10} {gpu['model']}, {arch}, {gpu['units']} units, {memory}{clocks}"


def _describe_cuda(cuda: Row) -> str:
    driver = f"none: {cuda['why_not']}" if cuda["why_not"] else f"driver {cuda['driver']}"
    compiler = cuda["nvrtc_why_not"] or f"NVRTC {cuda['nvrtc'] or 'not needed: DLBLAS_JIT=0'}"
    return f"{'gpu':10} {driver}; {compiler}"


def describe_machine(info: Row) -> str:
    lines = [f"dlblas {info['version']} (ABI {info['abi']})"]
    for d in info["devices"]:
        if d["device"] != "cpu":
            lines += [_describe_gpu(d), _describe_rates(d)]
            continue
        caches = ", ".join(f"L{i} {size(d[f'l{i}_bytes'])}" for i in (1, 2, 3) if d[f"l{i}_bytes"])
        capped = "" if d["isa"] == d["isa_hardware"] else f" (the hardware has {d['isa_hardware']})"
        units = {"VNNI": d["vnni"], "BF16": d["avx512_bf16"], "AMX": d["amx"]}
        isa = ", ".join([d["isa"], *(unit for unit, has in units.items() if has)]) + capped
        lines.append(f"{d['device']:10} {d['model']}, {isa}, {d['threads']} threads, {caches}")
        lines.append(_describe_rates(d))
    lines.append(_describe_cuda(info["cuda"]))
    for library in info["libraries"]:
        found = f"{library['version']}  {_here(library['path'])}".strip()
        lacks = _why.torch_here() if library["name"] == "torch" else library["why_not"]
        lines.append(f"{library['name']:10} {found if library['found'] else lacks}")
    reason = info["cache"]["memory_only_because"]
    where = f"in memory only: {reason}" if reason else info["cache"]["path"]
    return "\n".join([*lines, f"{'cache':10} {where}"])


def info(args: argparse.Namespace) -> int:
    if args.why:
        return _explain_machine(args)
    info = _native.info()
    if args.json:
        print_json(info)
        return OK
    print(describe_machine(info))
    print("operators")
    print(columns([[op["name"], op["formula"]] for op in info["operators"]]))
    print("environment")
    rows = [
        [v["name"], v["value"] or f"({v['default'] or 'not set'})", v["meaning"]]
        for v in info["environment"]
    ]
    print(columns(rows))
    return OK


def _explain_machine(args: argparse.Namespace) -> int:
    """What the machine has for one operator, and each of its tuning cases explained."""
    info = _native.info()
    row, form, fixed = _specs.operator_row(args.why, info)
    machine = _why.diagnose(info, row)
    device = _specs.choose_device(args.device) if args.device else "cpu"
    found = []
    for case in _specs.cases(row, "tune") or _specs.cases(row, "test"):
        named = _specs.named_arguments(
            row, case["dims"], {"": case["dtypes"][0]}, {**case.get("args", {}), **fixed}, device
        )
        found.append(tuning.explain(form, **named))
    if args.json:
        cases = [explanation.as_dict() for explanation in found]
        print_json({"machine": [finding._asdict() for finding in machine], "cases": cases})
    else:
        print(_why.describe(args.why, machine))
        print(f"{row['schema']}\n" + "\n".join(str(explanation) for explanation in found), end="")
    return OK


def _describe_operator(op: Row) -> str:
    rows = [["schema", op["schema"]]]
    rows += [["in place", f["name"]] for f in op["forms"] if f["inplace"]]
    for impl in op["implementations"]:
        marks = ["oracle"] if impl["oracle"] else []
        same = impl["deterministic"] or impl["repeatable"]
        marks += [] if same else ["bits may differ from run to run"]
        knobs = " ".join(f"{k['name']}={','.join(map(str, k['values']))}" for k in impl["knobs"])
        rows.append([impl["name"], ", ".join(filter(None, [knobs or "no knobs", *marks]))])
    return f"{op['name']} ({op['family']}): {harmless(op['formula'])}\n{columns(rows)}"


def _bare(signature: Signature) -> Signature:
    """The signature without annotations, which say little about arrays."""
    parameters = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return signature.replace(parameters=parameters, return_annotation=signature.empty)


def _function_row(name: str) -> Row:
    """The JSON row of a function that is made of operators."""
    function = _made_of.function_named(name)
    assert function is not None
    return {
        "name": name,
        "family": _made_of.family_of(function),
        "summary": (function.__doc__ or "").partition("\n\n")[0].replace("\n    ", " "),
        "signature": f"{name}{_bare(signature(function))}",
        "made_of": _made_of.operators_of(function),
    }


def _describe_function(row: Row) -> str:
    of = ", ".join(row["made_of"]) or "torch's own operators"
    rows = [["signature", row["signature"]], ["made of", of]]
    return f"{row['name']} ({row['family']}): {row['summary']}\n{columns(rows)}"


def list_operators(args: argparse.Namespace) -> int:
    """Lists by family: operators, then the functions that are made of them."""
    info = _native.info()
    functions = _made_of.names()
    operators: list[Row] = info["operators"]
    if args.op:
        of_operators = [name for name in args.op if name not in functions]
        operators = [_specs.operator_row(name, info)[0] for name in of_operators]
        functions = [name for name in args.op if name in functions]
    made = [_function_row(name) for name in functions]
    if args.json:
        print_json(operators + made if args.op else operators)
        return OK
    families = dict.fromkeys([*(op["family"] for op in operators), *(f["family"] for f in made)])
    for family in families:
        if not args.op:
            print(f"== {family} ==")
        for op in operators:
            if op["family"] == family:
                print(_describe_operator(op))
        for row in made:
            if row["family"] == family:
                print(_describe_function(row))
    return OK
