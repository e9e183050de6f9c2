"""The decoder of ``examples/llama.py``, all of its operators ours, and the same model in torch with
``scaled_dot_product_attention``, eager and compiled (max-autotune). Each step is a CUDA graph; the
graphs are replayed in turns. Steps: prefill of one prompt, and decoding of several sequences, each
with as many tokens of context, from a paged cache (torch's is contiguous).

In: a clone as the current folder, for the example. Used by: gpu.py. Read next: examples/llama.py.
"""

from __future__ import annotations

import importlib.util
import pathlib
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

import dlblas
from dlblas.bench.gpu_contest import Row, entry
from dlblas.bench.gpu_session import Session
from dlblas.bench.gpu_timing import interleaved, one_line
from dlblas.bench.timing import Samples

_EXAMPLE = pathlib.Path("examples") / "llama.py"
_OPS = (
    "rms_norm", "add_rms_norm", "matmul", "rope", "store_kv_cache", "flash_attention_lse",
    "paged_attention_lse", "gated_linear",
)  # fmt: skip
_LAYERS, _TOKENS, _ROOM, _PAGE = 8, 2048, 64, 16
_PREFILL, _DECODE = 1, (1, 16, 64)  # sequences
_QUICK = {"layers": 2, "hidden": 256, "heads": 4, "kv_heads": 2, "feed_forward": 512,
          "vocabulary": 512}  # fmt: skip
_FAR = 0.05  # of ‖logits − torch's‖ / ‖torch's‖, both in bf16
_DEVICE = "cuda"
_COMPILED: dict[str, Any] = {"mode": "max-autotune-no-cudagraphs", "dynamic": False}

Step = Callable[[], torch.Tensor]


def _example() -> Any:
    """The example as a module."""
    spec = importlib.util.spec_from_file_location("dlblas_example_llama", _EXAMPLE)
    if spec is None or spec.loader is None or not _EXAMPLE.exists():
        raise FileNotFoundError(f"{_EXAMPLE} is not here; expected the root of a clone")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its classes are looked for
    spec.loader.exec_module(module)
    return module


def _times(steps: Mapping[str, Step], rounds: int) -> tuple[dict[str, Samples], dict[str, str]]:
    stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    runs = {name: lambda _, step=step: step() for name, step in steps.items()}
    return interleaved(runs, 1, rounds, dict.fromkeys(runs, lambda: None), stream)


def rows(bench: Session) -> Iterator[Row]:
    try:
        example = _example()
    except OSError as error:
        print(f"gpu_llama: {one_line(error)}", flush=True)
        return
    shape = example.Shape(**_QUICK) if bench.quick else example.Shape(layers=_LAYERS)
    count = 32 if bench.quick else _TOKENS
    with torch.no_grad():
        model = example.Llama(shape, count + _ROOM, torch.bfloat16, _DEVICE)
        for step, batches in (("prefill", (_PREFILL,)), ("decode", _DECODE)):
            for batch in batches:
                if bench.late():
                    return
                if not bench.wants(f"{step}_{batch}") or not bench.shares():
                    continue
                yield _row(bench, example, model, step, batch, count)


def _steps(example: Any, model: Any, step: str, batch: int, count: int) -> dict[str, Step]:
    """The steps; torch's comes first, since the others are compared with it."""
    tokens = torch.randint(model.shape.vocabulary, (batch, count), device=model.device)
    where = {"dtype": model.dtype, "device": model.device}
    cache = example.Cache(model.shape, batch, count + _ROOM, _PAGE, **where)
    plain = example.Plain(model, batch, count + _ROOM)
    compiled: Any = torch.compile(plain.forward, **_COMPILED)
    if step == "prefill":
        return {
            "torch": lambda: plain.forward(tokens, 0),
            "dlblas": lambda: model.prefill(tokens, cache),
            "compiled": lambda: compiled(tokens, 0),
        }
    model.prefill(tokens, cache)
    plain.forward(tokens, 0)
    new = tokens[:, -1].contiguous()

    def decode() -> torch.Tensor:
        cache.lengths.fill_(count)
        logits: torch.Tensor = model.decode(new, cache)
        return logits

    return {
        "torch": lambda: plain.forward(new[:, None], count),
        "dlblas": decode,
        "compiled": lambda: compiled(new[:, None], count),
    }


def _row(bench: Session, example: Any, model: Any, step: str, batch: int, count: int) -> Row:
    steps = _steps(example, model, step, batch, count)
    with dlblas.autotune(bench.seconds):
        steps["dlblas"]()
    checked, missing = _checked(steps)
    times, failed = _times(checked, bench.rounds)
    missing |= failed
    rivals = [name for name in ("torch", "compiled") if name in times]
    against = min(rivals, key=lambda name: times[name].median_ms, default=None)
    ratio = None
    if against is not None and "dlblas" in times:
        ratio = times[against].median_ms / times["dlblas"].median_ms

    def told(name: str) -> Row:
        version = dlblas.__version__ if name == "dlblas" else torch.__version__
        return entry(name, version, times.get(name), missing.get(name, ""))

    return {
        "what": "gpu_llama",
        "op": None,
        "chain": list(_OPS),
        "problem": {
            "batch": batch, "context": count, "layers": model.shape.layers,
            "C": model.shape.hidden, "step": step,
        },
        "dtype": "bf16",
        "method": {
            "clock": "events, CUDA graphs", "statistic": "median of interleaved rounds",
            "n": max((len(samples.ms) for samples in times.values()), default=0),
        },
        "ours": told("dlblas"),
        "peers": [told("torch"), told("compiled")],
        "against": against,
        "ratio": ratio,
    }  # fmt: skip


def _checked(steps: Mapping[str, Step]) -> tuple[dict[str, Step], dict[str, str]]:
    """The steps whose logits are close to torch's, and why the others have no time."""
    made, missing = dict[str, Step](), dict[str, str]()
    expected = steps["torch"]().float()
    for name, run in steps.items():
        try:
            far = float((run().float() - expected).norm() / expected.norm())
            if not far <= _FAR:
                raise ArithmeticError(f"wrong result, off by {far:.2g}")
            made[name] = run
        except Exception as error:
            missing[name] = one_line(error)
    return made, missing
