"""Products in forms other than the bare one: 4-bit weights, a norm before, an epilogue after.

Beside torch where torch has the form, and beside our own calls without it. Used by:
gpu_products.py. Read next: gpu_families.py.
"""

from __future__ import annotations

from typing import Any

import torch

import dlblas
from dlblas.bench.gpu_families import Trial, beside
from dlblas.bench.gpu_session import Session
from dlblas.bench.gpu_timing import Run, one_line

_GROUP = 128


def _awq(words: torch.Tensor) -> torch.Tensor:
    """The eight nibbles of each word as columns, in AWQ's order."""
    shifts = torch.tensor([0, 16, 4, 20, 8, 24, 12, 28], device=words.device)
    return (words[..., None] >> shifts & 15).flatten(-2)


def _tinygemm(x: torch.Tensor, n: int, k: int) -> Run:
    """torch's own product with 4-bit weights, on random weights of its own."""
    sets = len(x)
    words = torch.randint(0, 256, (sets, n, k // 2), device="cuda", dtype=torch.uint8)
    packed = [torch.ops.aten._convert_weight_to_int4pack(w, 8) for w in words]
    scales = torch.rand(k // _GROUP, n, 2, device="cuda").to(torch.bfloat16)
    return beside(lambda i: torch.ops.aten._weight_int4pack_mm(x[i], packed[i], _GROUP, scales))


def w4a16(bench: Session, m: int, n: int, k: int) -> Trial:
    """AWQ in groups of 128, beside torch's 4-bit product and cuBLAS with bf16 weights."""
    needed = 2 * m * (k + n) + n * k // 2 + 5 * n * k // (2 * _GROUP)
    sets = bench.rotation(needed).sets
    x = bench.normal(sets, m, k)
    most = 2**31 - 1
    q = torch.randint(-most, most, (sets, k, n // 8), device="cuda", dtype=torch.int32)
    zeros = torch.randint(-most, most, (k // _GROUP, n // 8), device="cuda", dtype=torch.int32)
    scales = bench.normal(k // _GROUP, n, scale=0.1 * k**-0.5)

    def weight(i: int) -> torch.Tensor:
        repeated = (t.repeat_interleave(_GROUP, 0) for t in (_awq(zeros), scales.float()))
        zero, scale = repeated
        return ((_awq(q[i]) - zero) * scale).to(torch.bfloat16)

    rivals: dict[str, Run] = {}
    dense = torch.stack([weight(i).T.contiguous() for i in range(min(sets, 4))])
    rivals["cublas bf16"] = beside(lambda i: torch.matmul(x[i], dense[i % len(dense)].T))
    try:
        rivals["torch int4"] = _tinygemm(x, n, k)
    except Exception as error:
        print(f"torch int4: {one_line(error)}", flush=True)
    return Trial(
        "mm_w4a16", {"M": m, "N": n, "K": k, "format": "awq", "group": _GROUP}, sets,
        lambda i: dlblas.mm_w4a16(x[i], q[i], scales, zeros, _GROUP),
        lambda: (x[0].float() @ weight(0).float(),), rivals, 2.0 * m * n * k, needed,
    )  # fmt: skip


def norm_linear(bench: Session, m: int, n: int, k: int) -> Trial:
    """rms_norm fused with a product, beside our two separate calls and torch's."""
    needed = 2 * (m * k + n * k + m * n)
    sets = bench.rotation(needed).sets
    x, weight = bench.normal(sets, m, k), bench.normal(sets, n, k, scale=k**-0.5)
    gain = bench.normal(k, scale=0.1, offset=1.0)

    def eager(x: torch.Tensor, gain: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.rms_norm(x, (k,), gain, 1e-6) @ weight.T

    compiled = torch.compile(eager, dynamic=False)

    def two(i: int) -> Any:
        return dlblas.matmul(dlblas.rms_norm(x[i], gain, 1e-6), weight[i].T)

    return Trial(
        "rms_norm_linear", {"M": m, "N": n, "K": k}, sets,
        lambda i: dlblas.rms_norm_linear(x[i], gain, weight[i], 1e-6),
        lambda: (eager(x[0].float(), gain.float(), weight[0].float()),),
        {
            "torch": lambda i: eager(x[i], gain, weight[i]),
            "inductor": lambda i: compiled(x[i], gain, weight[i]),
            "ours two calls": two,
        },
        2.0 * m * n * k, needed,
    )  # fmt: skip


def epilogue(bench: Session, m: int, n: int, k: int) -> Trial:
    """A product with bias and gelu, beside the bare one."""
    needed = 2 * (m * k + n * k + m * n)
    sets = bench.rotation(needed).sets
    x, weight = bench.normal(sets, m, k), bench.normal(sets, n, k, scale=k**-0.5)
    bias = bench.normal(n)
    gelu = torch.nn.functional.gelu

    def eager(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return gelu(torch.nn.functional.linear(x, weight, bias))

    compiled = torch.compile(eager, dynamic=False)
    return Trial(
        "linear", {"M": m, "N": n, "K": k, "epilogue": "bias, gelu"}, sets,
        lambda i: dlblas.linear(x[i], weight[i], bias, "gelu"),
        lambda: (eager(x[0].float(), weight[0].float(), bias.float()),),
        {
            "torch": lambda i: eager(x[i], weight[i], bias),
            "inductor": lambda i: compiled(x[i], weight[i], bias),
            "ours bare": beside(lambda i: dlblas.linear(x[i], weight[i])),
        },
        2.0 * m * n * k, needed,
    )  # fmt: skip
