"""Tokens whose leading dimensions no view can merge, as heads before tokens, ``[B, H, S, D]`` seen
as ``[B, S, H, D]``, or a part of a larger batch; and tables of half the columns. Operators on heads
take them as they are: one operator is called, one kernel runs, nothing is copied.

Shapes, layouts and special values are in ops/rope/*/cases.json (``heads_first``, ``ones``); this
file tests what they cannot. Read next: docs/row_programs.md (what the skeletons take).
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import dlblas  # noqa: E402
import dlblas.torch  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

STYLES = ("neox", "interleaved", "interleaved_to_half")
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
DEVICES = ("cpu", pytest.param("cuda", marks=pytest.mark.gpu))
BATCH, TOKENS, HEADS, KV, D = 2, 9, 4, 2, 64
ROTATIONS = ("rope", "qk_norm_rope", "mrope_heads", "fused_rotary_emb", "apply_rotary_pos_emb")


class Operators(TorchDispatchMode):  # type: ignore[misc]
    """Records the names of torch's operators that run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.name())
        return func(*args, **(kwargs or {}))


def operators_of(call: Callable[[], Any]) -> list[str]:
    """The operators, without the underscore of an operator's entry that has no gradient."""
    with Operators() as seen:
        call()
    return [name.replace("dlblas::_", "dlblas::") for name in seen.names]


def kernels_of(call: Callable[[], Any]) -> list[str]:
    """What runs on the GPU in one call: kernels, copies, fills; not the ranges around them, which
    have the operators' names, nor waiting."""
    call()
    torch.cuda.synchronize()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as seen:
        call()
        torch.cuda.synchronize()
    kinds = torch.autograd.DeviceType
    names = [e.name.partition("<")[0] for e in seen.events() if e.device_type == kinds.CUDA]
    return [name for name in names if "Sync" not in name and not name.startswith("dlblas::")]


def allocated_on_gpu(call: Callable[[], Any]) -> int:
    """Bytes that one call takes from torch's allocator at its peak."""
    call()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    return int(torch.cuda.max_memory_allocated() - before)


def heads_first(heads: int, dtype: Any, device: str, d: int = D) -> tuple[Any, Any]:
    """A buffer [B + 1, H, S, D] and its part [B, S, H, D], of which no view is [B·S, H, D]."""
    whole = torch.randn(BATCH + 1, heads, TOKENS, d, device=device).to(dtype)
    return whole, whole[:BATCH].transpose(1, 2)


def rest_of(op: str, dtype: Any, device: str) -> tuple[Any, ...]:
    """The arguments after q and k."""
    at = torch.randint(0, 50, (BATCH, TOKENS), device=device)
    table = torch.cat(dlblas.rope_tables(50, D), -1).to(device)
    weight = torch.rand(D, device=device).to(dtype)
    angles = torch.randn(2, BATCH, D, TOKENS, device=device).transpose(-1, -2).contiguous()
    return {
        "rope": (at, table),
        "qk_norm_rope": (weight, weight + 1, at, table),
        "mrope_heads": (at, at // 2, at // 3, table, D // 8, D // 4),
        "fused_rotary_emb": (at, torch.rand(D // 2, device=device)),
        "apply_rotary_pos_emb": tuple(angles),
    }[op]


def near(got: Any, want: Any) -> bool:
    """Equal, or a rounding apart where a norm adds up in another order."""
    eps = torch.finfo(got.dtype).eps
    off = (got.double() - want.double()).abs()
    return bool((off <= 2 * eps * want.double().abs() + 1e-6).all())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("op", ROTATIONS)
def test_rotations_of_heads_before_tokens_are_one_operator(
    op: str, style: str, device: str
) -> None:
    for dtype in DTYPES.values():
        (q_whole, q), (k_whole, k) = (heads_first(h, dtype, device) for h in (HEADS, KV))
        rest = rest_of(op, dtype, device)
        want = getattr(dlblas, op)(q.contiguous(), k.contiguous(), *rest, style=style)
        before = q_whole.clone(), k_whole.clone()
        made: list[Any] = []

        def call(make: Any = made, q: Any = q, k: Any = k, rest: Any = rest) -> None:
            make[:] = getattr(dlblas, op)(q, k, *rest, style=style)

        def in_place(q: Any = q, k: Any = k, rest: Any = rest) -> None:
            getattr(dlblas, op + "_")(q, k, *rest, style=style)

        assert operators_of(call) == [f"dlblas::{op}"]
        assert all(near(x, y) for x, y in zip(made, want, strict=True))
        assert torch.equal(q_whole, before[0]) and torch.equal(k_whole, before[1])
        assert operators_of(in_place) == [f"dlblas::{op}_"]
        assert all(near(x, y) for x, y in zip((q, k), want, strict=True))
        for whole, was in zip((q_whole, k_whole), before, strict=True):
            assert torch.equal(whole[BATCH:], was[BATCH:]), "another batch's rows were written"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("width", [64, 48])
@pytest.mark.parametrize("scaled", [False, True])
def test_caches_take_heads_before_tokens(width: int, scaled: bool, device: str) -> None:
    dtype = torch.bfloat16
    (_, k), (_, v) = (heads_first(KV, dtype, device, d) for d in (64, width))
    caches = [torch.zeros(8, 4, KV, d, dtype=dtype, device=device) for d in (64, width)]
    slots = torch.randperm(32, device=device)[: BATCH * TOKENS].view(BATCH, TOKENS)
    slots[0, 3] = -1
    scales = [torch.tensor(0.5, device=device)] * 2 if scaled else []
    names = operators_of(lambda: dlblas.store_kv_cache(k, v, *caches, slots, *scales))
    assert names == ["dlblas::store_kv_cache"]
    wanted = [torch.zeros_like(cache) for cache in caches]
    there = slots >= 0
    for cache, x in zip(wanted, (k, v), strict=True):
        cache.view(32, KV, -1)[slots[there]] = x[there] / (0.5 if scaled else 1)
    assert all(torch.equal(x, y) for x, y in zip(caches, wanted, strict=True))


@pytest.mark.parametrize("device", DEVICES)
def test_latents_of_a_part_of_a_batch(device: str) -> None:
    whole = torch.randn(TOKENS, BATCH, 96, device=device).transpose(0, 1)  # [B, S], S outermost
    ckv, kpe = whole[..., :64], whole[..., 64:]
    caches = [torch.zeros(8, 4, d, device=device) for d in (64, 32)]
    slots = torch.randperm(32, device=device)[: BATCH * TOKENS].view(BATCH, TOKENS)
    names = operators_of(lambda: dlblas.store_mla_cache(ckv, kpe, *caches, slots))
    assert [n for n in names if "view" not in n and "reshape" not in n] == [
        "dlblas::store_mla_heads"
    ]
    for cache, x in zip(caches, (ckv, kpe), strict=True):
        assert torch.equal(cache.view(32, -1)[slots], x)


@pytest.mark.parametrize("op", ROTATIONS)
def test_numpy_arrays_of_heads_before_tokens_take_no_memory(op: str) -> None:
    """In place: less than a tenth of q, whose copy would be all of it."""
    rest = [
        x.numpy() if isinstance(x, torch.Tensor) else x for x in rest_of(op, torch.float32, "cpu")
    ]
    many = 400  # times as many heads
    q = np.random.default_rng(3).standard_normal((BATCH, HEADS * many, TOKENS, D), np.float32)
    k = np.ascontiguousarray(q[:, :KV])
    call = getattr(dlblas, op + "_")
    q, k = q.swapaxes(1, 2), k.swapaxes(1, 2)
    want = getattr(dlblas, op)(q, k, *rest)[0]
    tracemalloc.start()
    try:
        call(q, k, *rest)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < q.nbytes / 10
    np.testing.assert_allclose(q, want, rtol=1e-6, atol=1e-6)


@pytest.mark.gpu
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("op", ROTATIONS)
def test_one_kernel_and_no_memory(op: str, style: str) -> None:
    dtype = torch.bfloat16
    (_, q), (_, k) = (heads_first(h, dtype, "cuda") for h in (HEADS, KV))
    rest = rest_of(op, dtype, "cuda")

    def call() -> None:
        getattr(dlblas, op + "_")(q, k, *rest, style=style)

    assert allocated_on_gpu(call) == 0
    assert kernels_of(call) == ["void dlblas::row_registers"]


@pytest.mark.gpu
def test_one_kernel_stores_heads_before_tokens() -> None:
    (_, k), (_, v) = (heads_first(KV, torch.bfloat16, "cuda") for _ in range(2))
    caches = [torch.zeros(8, 4, KV, D, dtype=torch.bfloat16, device="cuda") for _ in range(2)]
    slots = torch.randperm(32, device="cuda")[: BATCH * TOKENS].view(BATCH, TOKENS)

    def call() -> None:
        dlblas.store_kv_cache(k, v, *caches, slots)

    assert allocated_on_gpu(call) == 0
    assert kernels_of(call) == ["void dlblas::row_registers"]


@pytest.mark.parametrize("device", DEVICES)
def test_positions_of_one_sequence_for_all(device: str) -> None:
    """[S] expanded to [B, S]: a stride of 0, of which no view is [B·S]."""
    (_, q), (_, k) = (heads_first(h, torch.float32, device) for h in (HEADS, KV))
    _, table = rest_of("rope", torch.float32, device)
    at = torch.arange(TOKENS, device=device)
    want = dlblas.rope(q, k, at.repeat(BATCH, 1), table)
    made: list[Any] = []
    for_all = at.expand(BATCH, TOKENS)
    assert operators_of(lambda: made.extend(dlblas.rope(q, k, for_all, table))) == ["dlblas::rope"]
    assert all(torch.equal(x, y) for x, y in zip(made, want, strict=True))


def test_a_search_knows_such_tokens() -> None:
    """Its tensors have the layout of the key, for other numbers of tokens, too."""
    for tokens in (37, 32):
        q, k = (torch.randn(3, heads, tokens, 32).transpose(1, 2) for heads in (HEADS, KV))
        table = torch.cat(dlblas.rope_tables(50, 32), -1)
        at = torch.randint(0, 50, (3, tokens))
        call = dlblas.get_op("rope", (q, k, at, table), seconds=0.05)
        assert call.explain().as_dict()["implementation"].startswith("cpu_")
        want = dlblas.rope(q.contiguous(), k.contiguous(), at, table)
        assert all(torch.equal(x, y) for x, y in zip(call(q, k, at, table), want, strict=True))
        assert "tokens_outer" in str(dlblas.explain("rope", q, k, at, table))


# ---- tables of half the columns -----------------------------------------------------------------


def half_tables(device: str, *shape: int) -> tuple[Any, Any, tuple[Any, Any]]:
    """cos, sin, and both as wide as a head."""
    cos, sin = torch.randn(2, *shape, D // 2, device=device)
    return cos, sin, (torch.cat((cos, cos), -1), torch.cat((sin, sin), -1))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("cast", [False, True])
@pytest.mark.parametrize("style", STYLES)
def test_half_tables_are_read_as_they_are(style: str, cast: bool, device: str) -> None:
    cos, sin, whole = half_tables(device, TOKENS)
    how: dict[str, Any] = {"style": style, "cast_before_sum": cast}
    for dtype in DTYPES.values():
        (_, q), (_, k) = (heads_first(h, dtype, device) for h in (HEADS, KV))
        want = dlblas.apply_rotary_pos_emb(q, k, *whole, **how)
        for tables in ((cos, sin), (cos, whole[1]), (whole[0], sin)):
            made: list[Any] = []

            def call(make: Any = made, q: Any = q, k: Any = k, tables: Any = tables) -> None:
                make[:] = dlblas.apply_rotary_pos_emb(q, k, *tables, **how)

            names = [n for n in operators_of(call) if "expand" not in n]
            assert names == ["dlblas::apply_rotary_pos_emb"]
            assert all(torch.equal(x, y) for x, y in zip(made, want, strict=True))
            spread = [t.expand(BATCH, *t.shape) for t in tables]
            direct = torch.ops.dlblas.apply_rotary_pos_emb(q, k, *spread, **how)
            assert all(torch.equal(x, y) for x, y in zip(direct, want, strict=True))
        dlblas.apply_rotary_pos_emb_(q, k, *(t.expand(BATCH, *t.shape) for t in (cos, sin)), **how)
        assert all(torch.equal(x, y) for x, y in zip((q, k), want, strict=True))


@pytest.mark.gpu
def test_one_kernel_reads_half_tables() -> None:
    cos, sin, _ = half_tables("cuda", BATCH, TOKENS)
    (_, q), (_, k) = (heads_first(h, torch.bfloat16, "cuda") for h in (HEADS, KV))
    assert allocated_on_gpu(lambda: dlblas.apply_rotary_pos_emb_(q, k, cos, sin)) == 0
    names = kernels_of(lambda: dlblas.apply_rotary_pos_emb_(q, k, cos, sin))
    assert names == ["void dlblas::row_registers"]


@pytest.mark.parametrize("device", DEVICES)
def test_half_tables_with_gradients(device: str) -> None:
    """partial_rotary_emb and its gradient, fused_rmsnorm_rope and its."""
    cos, sin, whole = half_tables(device, BATCH, TOKENS)
    parts = [
        torch.randn(BATCH, TOKENS, heads, width, device=device, requires_grad=True)
        for heads, width in ((HEADS, 32 + D), (1, D), (HEADS, 32 + 40))
    ]
    x = torch.randn(BATCH, TOKENS, HEADS * D, device=device, requires_grad=True)
    weight = torch.rand(HEADS * D, device=device, requires_grad=True)

    def run(*tables: Any) -> tuple[list[Any], list[str]]:
        with Operators() as seen:
            turned = dlblas.partial_rotary_emb(*parts, *tables)
            normed = dlblas.fused_rmsnorm_rope(x, weight, *tables, num_heads=HEADS)
            of_parts = torch.autograd.grad(sum((y * y).sum() for y in turned), parts)
        others = torch.autograd.grad((normed * normed).sum(), [x, weight])
        return [*turned, normed, *of_parts, *others], seen.names

    got, names = run(cos, sin)
    assert "aten::cat" not in names
    for one, other in zip(got, run(*whole)[0], strict=True):
        assert torch.allclose(one, other, rtol=1e-5, atol=1e-5)


def test_half_tables_under_compile() -> None:
    cos, sin, whole = half_tables("cpu", BATCH, TOKENS)
    (_, q), (_, k) = (heads_first(h, torch.float32, "cpu") for h in (HEADS, KV))
    for dynamic in (False, True):
        run = torch.compile(
            lambda q, k, cos, sin: dlblas.apply_rotary_pos_emb(q, k, cos, sin),
            fullgraph=True, dynamic=dynamic, backend="aot_eager",
        )  # fmt: skip
        for tables in ((cos, sin), whole):
            want = dlblas.apply_rotary_pos_emb(q, k, *whole)
            for x, y in zip(run(q, k, *tables), want, strict=True):
                assert torch.equal(x, y)
    arguments = (q, k, cos, sin)
    result = torch.library.opcheck(torch.ops.dlblas.apply_rotary_pos_emb, arguments)
    assert set(result.values()) == {"SUCCESS"}
