"""A Triton kernel and its search, for test_triton_tuner.py: run in its own process, twice."""

from __future__ import annotations

import json
import warnings

import torch
import triton
import triton.language as tl
from dlblas.triton_ops import TritonAutoTuner


@triton.jit
def _scale(x, out, n, BLOCK_SIZE: tl.constexpr, WRONG: tl.constexpr):  # noqa: N803
    at = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    end = n - WRONG  # the last element stays as it was
    tl.store(out + at, 2 * tl.load(x + at, mask=at < n), mask=at < end)


def scale(x, out, BLOCK_SIZE=64, num_warps=4, wrong=0):  # noqa: N803
    n = x.numel()
    _scale[(triton.cdiv(n, BLOCK_SIZE),)](x, out, n, BLOCK_SIZE, wrong, num_warps=num_warps)
    return out


def main(folder: str) -> None:
    x = torch.randn((1 << 22) + 5, device="cuda")
    out = torch.zeros_like(x)
    tuner = TritonAutoTuner(scale, {"num_warps": [4]}, 5, 20, cache_dir=folder)
    # 192 is not a power of two: the compiler refuses it.
    tuner.all_configs = [
        {"BLOCK_SIZE": size, "num_warps": 4, "wrong": wrong}
        for size, wrong in ((32, 0), (1024, 0), (2048, 1), (4096, 1), (192, 0))
    ]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = tuner.tune(x, out, problem_size=(x.numel(),), device="cuda:0", kernel_type="scale")
    words = [str(w.message) for w in told if "failed:" in str(w.message)]
    wrong = sum("differ" in text for text in words)
    print(
        json.dumps(
            {
                "best": found.best_config,
                "right": len(found.all_results),
                "warned": {"differ": wrong, "other": len(words) - wrong},
                "out_is_right": torch.equal(out, 2 * x),
                "latency_ms": found.metrics.latency_ms,
            }
        )
    )
