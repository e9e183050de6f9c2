"""The GPU tables of README.md and docs/figures.md, as Markdown from the rows of `dlblas bench gpu`.

In: rows of one kind, in order. Out: their table. Used by: tools/figures.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Row = dict[str, Any]

RIVALS = ("inductor", "quack", "liger", "flashinfer")


def markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _time(ms: float) -> str:
    return f"{ms * 1e3:.3g} µs" if ms < 1 else f"{ms:.3g} ms"


def _entries(row: Row, name: str) -> list[Row]:
    """The entries of a peer, one per mode, that ran."""
    return [
        p for p in row["peers"] if name in (p["name"], p["name"].split()[0]) and "median_ms" in p
    ]


def _best_of(row: Row, name: str) -> float | None:
    """The best median over a contestant's modes, in ms; None if no mode ran."""
    return min((p["median_ms"] for p in _entries(row, name)), default=None)


def _against(row: Row, name: str) -> str:
    """A peer's time, and how many times faster ours is; "–" if the peer did not run."""
    theirs, ours = _best_of(row, name), row["ours"].get("median_ms")
    if theirs is None:
        return "–"
    return _time(theirs) if ours is None else f"{_time(theirs)} · {theirs / ours:.2f}×"


def _ours(row: Row) -> str:
    ours = row["ours"]
    if "missing" in ours:
        return f"missing: {ours['missing']}"
    rate = f" · {row['bytes'] / ours['median_ms'] / 1e9:.2f} TB/s" if "bytes" in row else ""
    return f"{_time(ours['median_ms'])}{rate}"


def _ratio(row: Row) -> str:
    return "missing" if row["ratio"] is None else f"{row['ratio']:.2f}"


def _shape(row: Row) -> str:
    values = row["problem"].values()
    sizes = "×".join(str(value) for value in values if not isinstance(value, str))
    return ", ".join([sizes, *(value for value in values if isinstance(value, str))])


def norm_table(rows: list[Row]) -> str:
    head = ["operator", "T×C", "ours", "by", "copy", *RIVALS, "of the best (goal 1.00)"]
    lines = []
    for row in rows:
        rivals = [_against(row, name) for name in RIVALS]
        name = f"`{row['ours']['name']}`"
        copy = _best_of(row, "copy")
        shown = "–" if copy is None else _time(copy)
        lines.append([row["op"], _shape(row), _ours(row), name, shown, *rivals, _ratio(row)])
    return markdown(head, lines)


def rows_table(rows: list[Row]) -> str:
    head = [
        "operator", "rows×width", "dtype", "ours", "by", "copy", "torch", "inductor", "of the best"
    ]  # fmt: skip
    lines = []
    for row in rows:
        rivals = [_against(row, name) for name in ("torch", "inductor")]
        copy = _best_of(row, "copy")
        shown = "–" if copy is None else _time(copy)
        name = f"`{row['ours']['name']}`"
        what = [row["op"], _shape(row), row["dtype"]]
        lines.append([*what, _ours(row), name, shown, *rivals, _ratio(row)])
    return markdown(head, lines)


def chain_table(rows: list[Row]) -> str:
    head = ["chain", "tokens×…", "in a CUDA graph", "without dependent launch", "one operator",
            "copy", "torch", "inductor"]  # fmt: skip
    lines = []
    for row in rows:
        kinds = ("ours without dependent launch", "ours fused")
        times = [_variant(row, kind) for kind in kinds]
        copy = _best_of(row, "copy")
        rivals = [_against(row, name) for name in ("torch", "inductor")]
        lines.append([" → ".join(f"`{op}`" for op in row["chain"]), _shape(row), _ours(row), *times,
                      "–" if copy is None else _time(copy), *rivals])  # fmt: skip
    return markdown(head, lines)


def model_table(rows: list[Row]) -> str:
    head = [
        "a Llama of",
        "dlblas",
        "without rotary",
        "exact",
        "transformers",
        "liger",
        "fastest rival ÷ ours",
    ]
    lines = []
    for row in rows:
        problem = row["problem"]
        model = f"{problem['layers']} layers, {problem['C']} channels: {problem['step']}"
        rivals = [_against(row, name) for name in ("transformers", "liger")]
        kinds = ("ours without rotary", "ours exact")
        ours = [_ours(row), *(_variant(row, kind) for kind in kinds)]
        lines.append([f"{model} of {problem['T']} tokens", *ours, *rivals, _ratio(row)])
    return markdown(head, lines)


def llama_table(rows: list[Row]) -> str:
    head = ["a step of", "dlblas", "torch", "torch.compile", "best rival ÷ ours"]
    lines = []
    for row in rows:
        problem = row["problem"]
        what = "prefill of" if problem["step"] == "prefill" else "decode at"
        step = f"{what} {problem['context']} tokens, batch {problem['batch']}"
        rivals = [_against(row, name) for name in ("torch", "compiled")]
        lines.append([f"{step}, {problem['layers']} layers", _ours(row), *rivals, _ratio(row)])
    return markdown(head, lines)


def _variant(row: Row, name: str) -> str:
    """The time of one of our variants, and its ratio to our time for the row."""
    ours = row["ours"].get("median_ms")
    found = next((v for v in row["variants"] if v["name"] == name and "median_ms" in v), None)
    if found is None:
        return "–"
    shown = _time(found["median_ms"])
    return shown if ours is None else f"{shown} · {found['median_ms'] / ours:.2f}×"


def flops_table(rows: list[Row]) -> str:
    head = ["operator", "problem", "ours", "TFLOP/s", "by", "rivals", "of the best"]
    lines = []
    for row in rows:
        ours = row["ours"].get("median_ms")
        rate = "" if ours is None else f"{row['flops'] / ours / 1e9:.0f}"
        rivals = [f"{p['name']} {_against(row, p['name'])}" for p in row["peers"]]
        beside = [v["name"] for v in row["variants"] if v["name"].startswith("ours ")]
        rivals += [f"{name} {_variant(row, name)}" for name in beside]
        problem = " ".join(f"{k}={v}" for k, v in row["problem"].items())
        name = f"`{row['ours']['name']}`" + ("" if row["searched"] else ", not searched")
        lines.append([row["op"], problem, _ours(row), rate, name, ", ".join(rivals), _ratio(row)])
    return markdown(head, lines)


def backward_table(rows: list[Row]) -> str:
    head = ["gradients", "T×C", "ours", "inductor", "quack", "liger", "of the copy's rate (0.85)"]
    lines = []
    for row in rows:
        rivals = [_against(row, name) for name in ("inductor", "quack", "liger")]
        lines.append(["dx, dweight of rms_norm", _shape(row), _ours(row), *rivals, _ratio(row)])
    return markdown(head, lines)


def _teraflops(row: Row, ms: float) -> str:
    if not row["large"]:
        return _time(ms)
    return f"{_time(ms)} · {row['flops'] / ms / 1e9:.0f} TFLOP/s"


def matmul_table(rows: list[Row]) -> str:
    own_head = "own `cuda_mma`, untuned (0.55)"
    head = ["M×N×K", "chosen", "by", "cuBLAS in torch", "chosen ÷ cuBLAS (0.99)", own_head]
    lines = []
    for row in rows:
        ours, theirs = row["ours"], _best_of(row, "cublas")
        if "missing" in ours or theirs is None:
            lines.append([_shape(row), _ours(row), "", "–" if theirs is None else "", "", ""])
            continue
        named = (v for v in row["variants"] if row["large"] and v["name"] == "cuda_mma")
        own: Row = next(named, {})
        shown = f"{theirs / own['median_ms']:.2f}" if "median_ms" in own else ""
        times = [_teraflops(row, ms) for ms in (ours["median_ms"], theirs)]
        lines.append([_shape(row), times[0], f"`{ours['name']}`", times[1], _ratio(row), shown])
    return markdown(head, lines)


def host_table(rows: list[Row]) -> str:
    goals = {"torch.ops.dlblas.rms_norm_out(x, w, y)": "0.90", "dlblas.rms_norm(x, w)": "1.15"}
    lines = []
    for row in rows:
        call, ours = row["problem"]["call"], row["ours"]
        of_add = f"{1 / row['ratio']:.2f}×" if row["ratio"] else "missing"
        lines.append([f"`{call}`", _time(ours["median_ms"]), of_add, goals.get(call, "")])
    for peer in rows[0]["peers"] if rows else []:
        base = next(p["median_ms"] for p in rows[0]["peers"] if p["name"] == rows[0]["against"])
        ms = peer["median_ms"]
        lines.append([f"`{peer['name']}`", _time(ms), f"{ms / base:.2f}×", ""])
    head = ["call on a 1×4096 tensor", "host time", "of `torch.add(x, x)`", "goal at most"]
    return markdown(head, lines)


def _compile_goal(row: Row) -> str:
    if row["op"] is None:
        return "" if row["ours"]["name"] == "empty kernel" else "1000 ms"
    return "500 ms" if row["op"] == "matmul" else "150 ms"


def compile_table(rows: list[Row]) -> str:
    lines = []
    for row in rows:
        ours = row["ours"]
        shown = ours.get("missing") or f"{ours['median_ms']:.0f} ms"
        if ours.get("kernels", 1) > 1:
            shown += f" ({ours['min_ms']:.0f} to {ours['max_ms']:.0f})"
        lines.append([row["op"] or "", f"`{ours['name']}`", shown, _compile_goal(row)])
    return markdown(["operator", "kernel", "first use, cold", "goal at most"], lines)


# The rows that README.md shows, one operator at a time.
TOP: tuple[tuple[str, str], ...] = (
    ("rms_norm", "128×4096"),
    ("rms_norm", "16384×4096"),
    ("rms_norm", "1024×65536"),
    ("add_rms_norm", "16384×4096"),
    ("rms_norm_backward", "16384×4096"),
    ("softmax", "16384×4096"),
    ("silu_and_mul", "128×11264"),
    ("matmul", "1×4096×4096"),
    ("matmul", "16×4096×4096"),
    ("matmul", "8192×8192×8192"),
)


def top_table(rows: list[Row]) -> str:
    """One row per entry of TOP: ours, the fastest rival, and the ratio of its time to ours."""
    found = {(row["op"], _shape(row)): row for row in rows}
    lines = []
    for op, shape in TOP:
        row = found.get((op, shape))
        if row is None:
            continue
        rivals = [p for p in row["peers"] if "median_ms" in p and p["name"] != "copy"]
        best = min(rivals, key=lambda p: p["median_ms"], default=None)
        ours = row["ours"].get("median_ms")
        name = row["ours"].get("name")
        shown = "–" if best is None else f"{best['name']} {_time(best['median_ms'])}"
        ratio = "–" if best is None or ours is None else f"{best['median_ms'] / ours:.2f}×"
        speed = _ours(row)
        if row.get("large") and ours is not None:
            speed = _teraflops(row, ours)
        lines.append([f"`{op}`", shape, speed, f"`{name}`" if name else "", shown, ratio])
    return markdown(["operator", "shape", "ours", "by", "fastest rival", "rival ÷ ours"], lines)


# Table name in the markers: the kinds of rows it shows, and the function that makes it.
TABLES: dict[str, tuple[tuple[str, ...], Callable[[list[Row]], str]]] = {
    "gpu_top": (
        ("gpu_norm", "gpu_norm_long", "gpu_norm_backward", "gpu_rows", "gpu_matmul"),
        top_table,
    ),
    "gpu_rows": (("gpu_rows",), rows_table),
    "gpu_chain": (("gpu_chain",), chain_table),
    "gpu_model": (("gpu_model",), model_table),
    "gpu_llama": (("gpu_llama",), llama_table),
    "gpu_norm": (("gpu_norm",), norm_table),
    "gpu_norm_long": (("gpu_norm_long",), norm_table),
    "gpu_backward": (("gpu_norm_backward",), backward_table),
    "gpu_matmul": (("gpu_matmul",), matmul_table),
    "gpu_products": (("gpu_products",), flops_table),
    "gpu_attention": (("gpu_attention",), flops_table),
    "gpu_host": (("gpu_host",), host_table),
    "gpu_compile": (("gpu_compile",), compile_table),
}
