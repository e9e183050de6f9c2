"""Matrix products beside torch's: matmul at any M without a search, few rows, f8 with each form of
scales, a gated MLP, grouped experts, 4-bit weights.

Used by: gpu.py. Read next: gpu_families.py.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import torch

import dlblas
from dlblas.bench import deep_gemm
from dlblas.bench import gpu_products_forms as forms
from dlblas.bench.gpu_contest import Row
from dlblas.bench.gpu_families import Trial, measured
from dlblas.bench.gpu_session import Session

_LLAMA = ((4096, 4096), (6144, 4096), (14336, 4096), (4096, 14336), (8192, 8192), (28672, 8192))
_ANY_M = 60
_FEW_ROWS = (1, 4, 16, 32, 64)
_WEIGHTS = ((4096, 4096), (14336, 4096), (7168, 2048), (4096, 14336))  # N, K
_LARGE = (  # M, N, K
    (4096, 4096, 4096), (8192, 8192, 8192), (4096, 7168, 2048), (4096, 24576, 1536),
    (4096, 7168, 16384), (4096, 2112, 7168), (4096, 576, 7168), (128, 7168, 2048),
    (64, 14336, 4096),
)  # fmt: skip
_BLOCK = 128
_EXPERTS = (  # experts, rows, N, K
    (4, 32768, 4096, 7168), (4, 32768, 7168, 2048), (32, 8192, 4096, 7168),
)  # fmt: skip
_MASKED = (  # experts, rows in the mean, N, K, most rows
    (32, 8, 4096, 7168, 128), (32, 64, 4096, 7168, 256), (6, 1024, 4096, 7168, 2048),
)  # fmt: skip


def _f8(values: torch.Tensor) -> torch.Tensor:
    return values.clamp(-448, 448).to(torch.float8_e4m3fn)


def matmul(bench: Session, m: int, n: int, k: int, search: bool) -> Trial:
    needed = 2 * (m * k + n * k + m * n)
    sets = bench.rotation(needed).sets
    a, b = bench.normal(sets, m, k), bench.normal(sets, n, k, scale=k**-0.5)
    out = torch.empty((sets, m, n), device="cuda", dtype=torch.bfloat16)
    return Trial(
        "matmul", {"M": m, "N": n, "K": k}, sets,
        lambda i: dlblas.matmul(a[i], b[i].T, out=out[i]),
        lambda: (a[0].float() @ b[0].float().T,),
        {
            "cublas": lambda i: torch.matmul(a[i], b[i].T, out=out[i]),
            **(deep_gemm.matmul(a, b, torch.empty_like(out)) if search else {}),
        },
        2.0 * m * n * k, needed, search,
    )  # fmt: skip


def fp8(bench: Session, m: int, n: int, k: int, scales: str) -> Trial:
    """``scales``: tensor, token (rows of a, columns of b), block (1 × 128 of a, 128 × 128 of b)."""
    needed = m * k + n * k + 2 * m * n
    sets = bench.rotation(needed).sets
    a, b = _f8(bench.normal(sets, m, k)), _f8(bench.normal(sets, n, k))
    shape_a = {"tensor": (1,), "token": (m, 1), "block": (m, math.ceil(k / _BLOCK))}[scales]
    blocks = math.ceil(n / _BLOCK), math.ceil(k / _BLOCK)
    shape_b = {"tensor": (1,), "token": (1, n), "block": blocks}[scales]
    sa = torch.rand(shape_a, device="cuda") + 0.5
    sb = (torch.rand(shape_b, device="cuda") + 0.5) * k**-0.5
    of_ours = sb.T if scales == "block" else sb  # as b lies: [K / 128, N / 128]
    form = {"tensor": "tensor", "token": "token", "block": "group128"}[scales]

    def ours(i: int) -> Any:
        return dlblas.scaled_mm(a[i], b[i].T, sa, of_ours, granularity=form)

    def wide(scale: torch.Tensor, rows: int, cols: int, of_rows: int) -> torch.Tensor:
        if scales != "block":
            return scale.reshape(-1, 1) if scales == "token" else scale
        return scale.repeat_interleave(of_rows, 0)[:rows].repeat_interleave(_BLOCK, 1)[:, :cols]

    def reference() -> tuple[torch.Tensor, ...]:
        left = a[0].float() * wide(sa, m, k, 1)
        right = b[0].float() * wide(sb, n, k, _BLOCK)
        return (left @ right.T,)

    # torch needs the 1 × 128 scales contiguous along M and the 128 × 128 scales along K.
    of_a = sa.T.contiguous().T if scales == "block" else sa
    of_b = sb.T if scales == "block" else sb
    call = functools.partial(torch._scaled_mm, out_dtype=torch.bfloat16)
    if scales == "tensor":
        of_a, of_b = sa.reshape(()), sb.reshape(())
    rivals = {"torch": lambda i: call(a[i], b[i].T, of_a, of_b)}
    if scales == "tensor":
        rivals["torch fast"] = lambda i: call(a[i], b[i].T, of_a, of_b, use_fast_accum=True)
    if scales == "block":
        rivals |= deep_gemm.fp8_block(a, b, sa, sb)
    problem: Row = {"M": m, "N": n, "K": k, "scales": scales}
    return Trial("scaled_mm", problem, sets, ours, reference, rivals, 2.0 * m * n * k, needed)


def gated_mlp(bench: Session, m: int, f: int, k: int) -> Trial:
    needed = 2 * (m * k + 2 * f * k + m * f)
    sets = bench.rotation(needed).sets
    x = bench.normal(sets, m, k)
    weights = bench.normal(sets, 2 * f, k, scale=k**-0.5)

    def ours(i: int) -> Any:
        return dlblas.gated_mlp(x[i], weights[i, :f], weights[i, f:])

    def eager(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        gate, up = (x @ weights.T).chunk(2, -1)
        return torch.nn.functional.silu(gate) * up

    compiled = torch.compile(eager, dynamic=False)
    rivals = {
        "torch": lambda i: eager(x[i], weights[i]),
        "inductor": lambda i: compiled(x[i], weights[i]),
    }
    return Trial(
        "gated_mlp", {"M": m, "F": f, "K": k}, sets, ours,
        lambda: (eager(x[0].float(), weights[0].float()),), rivals, 4.0 * m * f * k, needed,
    )  # fmt: skip


def grouped(bench: Session, experts: int, rows: int, n: int, k: int, of: int = 8) -> Trial:
    """Groups that begin at multiples of ``of`` rows."""
    needed = 2 * (rows * k + experts * n * k + rows * n)
    sets = bench.rotation(needed).sets
    x = bench.normal(sets, rows, k)
    weights = bench.normal(sets, experts, n, k, scale=k**-0.5)
    cuts = sorted(random.Random(7).sample(range(0, rows, of), experts - 1))
    offsets = torch.tensor([0, *cuts, rows], device="cuda", dtype=torch.int32)

    def reference() -> tuple[torch.Tensor, ...]:
        ends = offsets.tolist()
        parts = [
            x[0, ends[e] : ends[e + 1]].float() @ weights[0, e].float().T for e in range(experts)
        ]
        return (torch.cat(parts),)

    def ours(i: int) -> Any:
        return dlblas.grouped_gemm(x[i], weights[i], offsets)

    def theirs(i: int) -> Any:
        return torch._grouped_mm(x[i], weights[i].transpose(1, 2), offs=offsets[1:])

    problem: Row = {"E": experts, "M": rows, "N": n, "K": k}
    flops = 2.0 * rows * n * k
    rivals = {"torch": theirs, **deep_gemm.grouped(x, weights, offsets)}
    return Trial("grouped_gemm", problem, sets, ours, reference, rivals, flops, needed)


def _wide(codes: torch.Tensor, scales: torch.Tensor, of_rows: int) -> torch.Tensor:
    """Codes times their scales, one per ``of_rows`` rows and 128 columns of K."""
    rows, k = codes.shape
    each = scales.repeat_interleave(of_rows, 0)[:rows].repeat_interleave(_BLOCK, 1)[:, :k]
    return codes.float() * each


def grouped_fp8(bench: Session, experts: int, rows: int, n: int, k: int) -> Trial:
    """e4m3 groups that begin at multiples of 128 rows, with 1 × 128 and 128 × 128 scales."""
    needed = rows * k + experts * n * k + 2 * rows * n
    sets = bench.rotation(needed).sets
    x, weights = _f8(bench.normal(sets, rows, k)), _f8(bench.normal(sets, experts, n, k))
    sx = torch.rand((rows, k // _BLOCK), device="cuda") + 0.5
    sw = (torch.rand((experts, n // _BLOCK, k // _BLOCK), device="cuda") + 0.5) * k**-0.5
    cuts = sorted(random.Random(7).sample(range(0, rows, _BLOCK), experts - 1))
    offsets = torch.tensor([0, *cuts, rows], device="cuda", dtype=torch.int32)

    def reference() -> tuple[torch.Tensor, ...]:
        parts = []
        for e, (begin, end) in enumerate(itertools.pairwise(offsets.tolist())):
            weight = _wide(weights[0, e], sw[e], _BLOCK)
            parts.append(_wide(x[0, begin:end], sx[begin:end], 1) @ weight.T)
        return (torch.cat(parts),)

    def ours(i: int) -> Any:
        return dlblas.grouped_gemm(x[i], weights[i], offsets, a_scale=sx, b_scale=sw)

    rivals = deep_gemm.grouped_fp8(x, weights, offsets, sx, sw)
    problem: Row = {"E": experts, "M": rows, "N": n, "K": k, "scales": "block"}
    flops = 2.0 * rows * n * k
    return Trial("grouped_gemm", problem, sets, ours, reference, rivals, flops, needed)


def masked_fp8(bench: Session, experts: int, rows: int, n: int, k: int, most: int) -> Trial:
    """Decoding: the first few of each expert's ``most`` rows, ``rows`` on average."""
    draw = random.Random(7)
    counts = [min(most, round(rows * (0.5 + draw.random()))) for _ in range(experts)]
    all_rows = sum(counts)
    needed = all_rows * k + experts * n * k + 2 * all_rows * n
    sets = bench.rotation(needed).sets
    x, weights = _f8(bench.normal(sets, experts, most, k)), _f8(bench.normal(sets, experts, n, k))
    sx = torch.rand((experts, most, k // _BLOCK), device="cuda") + 0.5
    sw = (torch.rand((experts, n // _BLOCK, k // _BLOCK), device="cuda") + 0.5) * k**-0.5
    masked_m = torch.tensor(counts, device="cuda", dtype=torch.int32)
    out = torch.empty((experts, most, n), device="cuda", dtype=torch.bfloat16)
    rows_of_out = tuple(out[e, :count] for e, count in enumerate(counts))  # others stay

    def reference() -> tuple[torch.Tensor, ...]:
        return tuple(
            _wide(x[0, e, :count], sx[e, :count], 1) @ _wide(weights[0, e], sw[e], _BLOCK).T
            for e, count in enumerate(counts)
        )

    def ours(i: int) -> Any:
        dlblas.grouped_gemm(x[i], weights[i], masked_m=masked_m, a_scale=sx, b_scale=sw, out=out)
        return rows_of_out

    rivals = deep_gemm.masked_fp8(x, weights, masked_m, rows, sx, sw)
    problem: Row = {"E": experts, "M": most, "N": n, "K": k, "rows": rows, "scales": "block"}
    flops = 2.0 * all_rows * n * k
    return Trial("grouped_gemm", problem, sets, ours, reference, rivals, flops, needed)


def _trials(bench: Session) -> Iterator[functools.partial[Trial]]:
    draw = random.Random(17)
    some = 2 if bench.quick else _ANY_M
    for i in range(some):
        m = round(8192 ** draw.random())
        n, k = (256, 512) if bench.quick else _LLAMA[i % len(_LLAMA)]
        yield functools.partial(matmul, bench, m, n, k, False)
    for m in (1,) if bench.quick else _FEW_ROWS:
        for n, k in ((256, 512),) if bench.quick else _WEIGHTS:
            yield functools.partial(matmul, bench, m, n, k, True)
    for scales in ("block", "tensor", "token"):
        for m, n, k in ((64, 256, 512),) if bench.quick else _LARGE:
            yield functools.partial(fp8, bench, m, n, k, scales)
    for m in (16,) if bench.quick else (16, 256, 16384):
        yield functools.partial(
            gated_mlp, bench, m, *((256, 512) if bench.quick else (11264, 4096))
        )
    groups: tuple[tuple[int, ...], ...] = (
        ((4, 64, 256, 512),)
        if bench.quick
        else (
            (128, 32768, 768, 2048),
            (8, 8192, 4096, 7168),
            (128, 32768, 768, 2048, 128),
            (4, 32768, 4096, 7168, 128),
        )
    )
    for sizes in groups:
        yield functools.partial(grouped, bench, *sizes)
    # DeepSeek-V3's experts: prefill, then decoding, where a device has 32 of them.
    for sizes in ((2, 512, 256, 512),) if bench.quick else _EXPERTS:
        yield functools.partial(grouped_fp8, bench, *sizes)
    for sizes in ((2, 8, 256, 512, 64),) if bench.quick else _MASKED:
        yield functools.partial(masked_fp8, bench, *sizes)


def _forms(bench: Session) -> Iterator[functools.partial[Trial]]:
    """8-bit and 4-bit weights for few rows; a norm before and an epilogue after a product."""
    few = ((256, 512),) if bench.quick else _WEIGHTS
    for n, k in few:
        for m in (1,) if bench.quick else _FEW_ROWS:
            yield functools.partial(forms.w4a16, bench, m, n, k)
    for n, k in few:
        for m in (1,) if bench.quick else _FEW_ROWS:
            yield functools.partial(fp8, bench, m, n, k, "block")
    for m in (16,) if bench.quick else (16, 64, 256, 2048, 16384):
        yield functools.partial(forms.norm_linear, bench, m, *few[0])
    for m in (16,) if bench.quick else (64, 4096):
        yield functools.partial(forms.epilogue, bench, m, *few[0])


def rows(bench: Session) -> Iterator[Row]:
    calls: dict[Callable[..., Trial], str] = {
        matmul: "matmul", fp8: "scaled_mm", gated_mlp: "gated_mlp",
        **dict.fromkeys((grouped, grouped_fp8, masked_fp8), "grouped_gemm"),
        forms.w4a16: "mm_w4a16", forms.norm_linear: "rms_norm_linear", forms.epilogue: "linear",
    }  # fmt: skip
    trials = itertools.chain(_forms(bench), _trials(bench))
    yield from measured(bench, "gpu_products", trials, calls)
