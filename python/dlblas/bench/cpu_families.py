"""Matrix products and attention on a CPU beside torch's, oneDNN's and NumPy's: sizes of a Llama's
layers, timed in turns in one process.

Used by: children.py. Read next: cpu_rows.py (the memory-bound operators), gpu_families.py (the same
on a GPU).
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import dlblas
from dlblas.bench.cpu_rows import Bench, Row, settle
from dlblas.bench.timing import interleaved

Run = Callable[[], Any]
_ROWS = (1, 16, 512)
_HEADS, _OF_KEYS, _DIM, _PAGE = 32, 8, 128, 16
_LIMIT_S = 20.0  # of a problem's rounds: five at least
# How long a rival's threads keep a processor busy after its run: NumPy's for 2^26 cycles, during
# which oneDNN's product of 36 ms took 50.
_OPENMP_SPINS_S, _OPENBLAS_SPINS_S = 0.01, 0.1


class _Trial(NamedTuple):
    op: str  # as it is called
    problem: Row
    dtype: str
    run: Run
    rivals: dict[str, Run]
    flops: float
    pins: str = ""  # the operator whose oneDNN is a rival
    of_a_name: str = "torch"  # the rival that the goal is about


def attention(bench: Bench) -> Iterator[Row]:
    """Prefill of 512 tokens, and one token over 2,048 keys; 32 heads over 8 KV heads, D = 128."""
    if importlib.util.find_spec("torch") is None:
        return iter([_no_torch("cpu_attention")])
    return _measured(bench, "cpu_attention", _attention_trials(bench))


def products(bench: Bench) -> Iterator[Row]:
    """``x · wᵀ``, its scaled i8 form, and the gated half of a feed-forward layer."""
    if importlib.util.find_spec("torch") is None:
        return iter([_no_torch("cpu_products")])
    return _measured(bench, "cpu_products", _product_trials(bench))


def _no_torch(what: str) -> Row:
    missing = {"name": "dlblas", "missing": "torch is not installed"}
    return {"what": what, "op": "", "problem": {}, "ours": missing, "peers": [], "ratio": None}


def _sdpa(q: Any, k: Any, v: Any, causal: bool) -> Any:
    from torch.nn.functional import scaled_dot_product_attention

    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    out = scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
    return out.transpose(1, 2)


def _attention_trials(bench: Bench) -> Iterator[_Trial]:
    import torch

    prefill, context = (16, 32) if bench.quick else (512, 2048)
    pages = torch.arange(context // _PAGE, dtype=torch.int32)[None]
    lengths = torch.tensor([context], dtype=torch.int32)
    for dtype, kind in (("f32", torch.float32), ("bf16", torch.bfloat16)):
        for s, length in ((prefill, prefill), (1, context)):
            torch.manual_seed(7)
            q = torch.randn(1, s, _HEADS, _DIM).to(kind)
            k, v = (torch.randn(1, length, _OF_KEYS, _DIM).to(kind) for _ in range(2))
            causal = s > 1
            problem = {"S": s, "L": length, "H": _HEADS, "Hkv": _OF_KEYS, "D": _DIM}
            flops = 4.0 * s * length * _HEADS * _DIM * (0.5 if causal else 1.0)
            sdpa: dict[str, Run] = {"torch": functools.partial(_sdpa, q, k, v, causal)}
            ours = functools.partial(dlblas.flash_attention, q, k, v, causal=causal)
            yield _Trial("flash_attention", problem, dtype, ours, sdpa, flops)
            if causal:
                continue
            # The same keys in pages; torch has them contiguous.
            keys, values = (t.view(-1, _PAGE, _OF_KEYS, _DIM) for t in (k, v))
            ours = functools.partial(dlblas.paged_attention, q[0], keys, values, pages, lengths)
            yield _Trial("paged_attention", {**problem, "page": _PAGE}, dtype, ours, sdpa, flops)


def _eager_mlp(x: Any, gate: Any, up: Any) -> Any:
    from torch.nn.functional import linear, silu

    return silu(linear(x, gate)) * linear(x, up)


def _eager_i8(a: Any, b: Any, scales_a: Any, scales_b: Any) -> Any:
    import torch

    sums = torch._int_mm(a, b)
    return (sums.float() * scales_a * scales_b).to(torch.bfloat16)


def _product_trials(bench: Bench) -> Iterator[_Trial]:
    import torch

    n, k, f = (48, 64, 32) if bench.quick else (4096, 4096, 11008)
    rows = (2,) if bench.quick else _ROWS
    for dtype, kind in (("f32", torch.float32), ("bf16", torch.bfloat16)):
        torch.manual_seed(7)
        w = torch.randn(n, k).to(kind)
        gate, up = (torch.randn(f, k).to(kind) for _ in range(2))
        for m in rows:
            x = torch.randn(m, k).to(kind)
            rivals: dict[str, Run] = {"torch": functools.partial(torch.mm, x, w.T)}
            if dtype == "f32":
                rivals["numpy"] = functools.partial(np.matmul, x.numpy(), w.numpy().T)
            flops = 2.0 * m * n * k
            ours = functools.partial(dlblas.matmul, x, w.T)
            sizes = {"M": m, "N": n, "K": k}
            yield _Trial("matmul", sizes, dtype, ours, rivals, flops, "matmul", "onednn")
            ours = functools.partial(dlblas.gated_mlp, x, gate, up)
            rivals = {"torch": functools.partial(_eager_mlp, x, gate, up)}
            yield _Trial(
                "gated_mlp", {"M": m, "F": f, "K": k}, dtype, ours, rivals, 4.0 * m * f * k
            )
    codes = torch.randint(-127, 128, (n, k), dtype=torch.int8)
    for m in rows:
        a = torch.randint(-127, 128, (m, k), dtype=torch.int8)
        scales = torch.rand(m, 1), torch.rand(1, n)
        ours = functools.partial(dlblas.int8_scaled_mm, a, codes.T, *scales)
        rivals = {"torch": functools.partial(_eager_i8, a, codes.T, *scales)}
        yield _Trial(
            "int8_scaled_mm", {"M": m, "N": n, "K": k}, "i8", ours, rivals, 2.0 * m * n * k,
            "scaled_mm_channel",
        )  # fmt: skip


def _measured(bench: Bench, what: str, trials: Iterator[_Trial]) -> Iterator[Row]:
    import torch

    torch.set_num_threads(bench.threads)
    with torch.no_grad():
        for trial in trials:
            if not bench.only or trial.op in bench.only:
                yield _row(bench, what, trial)


def _reason(error: Exception) -> str:
    """One line. Of a pinned implementation that refuses the call, its own words, which are on the
    second line of the message."""
    lines = str(error).splitlines() or [""]
    pinned = lines[1].partition(": no: ")[2] if len(lines) > 1 else ""
    return pinned or f"{type(error).__name__}: {lines[0]}"


def _row(bench: Bench, what: str, trial: _Trial) -> Row:
    """A rival that fails has its reason in the row. Results are compared first: a wrong rival is
    not timed."""
    with dlblas.autotune(bench.seconds) as session:  # the store is empty: each key is missed
        trial.run()
    served = [(row["op"], row["served"]) for row in session.report]
    right = trial.run().float()
    runs, failed = {"ours": trial.run}, dict[str, str]()
    wait = _OPENBLAS_SPINS_S if "numpy" in trial.rivals else _OPENMP_SPINS_S
    prepare = {"ours": functools.partial(settle, trial.run, wait)}
    if trial.pins:
        runs["onednn"], pin = trial.run, functools.partial(dlblas.pin, trial.pins)
        prepare["ours"] = functools.partial(_pinned, pin, None, trial.run, wait)
        prepare["onednn"] = functools.partial(_pinned, pin, "onednn", trial.run, wait)
    for name, run in trial.rivals.items():
        runs[name], prepare[name] = run, functools.partial(settle, run, wait)
    for name in [name for name in runs if name != "ours"]:
        try:
            prepare[name]()
            failed[name] = _differs(runs[name](), right)
        except (dlblas.Error, RuntimeError, TypeError) as error:
            failed[name] = _reason(error)
        if failed[name]:
            del runs[name], prepare[name]
    times = interleaved(runs, bench.rounds, _LIMIT_S, prepare)
    if trial.pins:
        dlblas.pin(trial.pins, None)
    names = [f"{op}: {by['implementation']}" for op, by in served]
    if len(served) == 1:
        names = [served[0][1]["implementation"]]
    ours = {
        "name": " + ".join(names),
        "config": " + ".join(by["config"] for _, by in served),
        **times["ours"].as_dict(),
    }
    peers = [
        {"name": name, "version": _version(bench, name)}
        | ({"missing": failed[name]} if failed[name] else times[name].as_dict())
        for name in failed
    ]
    timed = {name for name in times if name != "ours"}
    against = trial.of_a_name if trial.of_a_name in timed else "torch" if "torch" in timed else None
    return {
        "what": what,
        "op": trial.op,
        "problem": trial.problem,
        "dtype": trial.dtype,
        "ours": ours,
        "peers": peers,
        "against": against,
        "ratio": times[against].min_ms / times["ours"].min_ms if against else None,
        "flops": trial.flops,
    }


def _pinned(pin: Callable[[str | None], None], name: str | None, run: Run, wait: float) -> None:
    pin(name)  # the first call after it selects and prepares
    settle(run, wait)


def _differs(result: Any, right: Any) -> str:
    """ "", or by how much a rival differs, relative to the largest value: a few hundredths at most
    for bf16 products, summed in f32 or in bf16."""
    import torch

    found = torch.as_tensor(result).float().view(right.shape)
    off = float((found - right).abs().max() / right.abs().max())
    return "" if off < 0.05 else f"differs by {off:.2g} of the largest value"


def _version(bench: Bench, name: str) -> str:
    import torch

    versions = {str(row["name"]): str(row["version"]) for row in bench.info["libraries"]}
    versions |= {"torch": str(torch.__version__), "numpy": str(np.__version__)}
    return versions.get(name, "")
