"""store_kv_cache on torch tensors: paged caches and slices of one, skipped slots, f8 with scales.

Shapes, layouts and special values are in ops/kv_cache/store_kv_cache/cases.json; this file tests
what they cannot. Read next: ops/kv_cache/store_kv_cache/store_kv_cache_ref.hpp.
"""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402
import dlblas.torch  # noqa: E402
from dlblas import errors  # noqa: E402
from levels import LEVELS  # noqa: E402

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
F8 = {"f8e4m3": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2}


def caches(blocks: int, page: int, heads: int, d: int, dtype: Any) -> tuple[Any, Any, Any]:
    """A cache [P, 2, page, Hkv, D], and its two halves."""
    kv = torch.randn(blocks, 2, page, heads, d).to(dtype)
    return kv, kv[:, 0], kv[:, 1]


def stored(cache: Any, x: Any, slots: Any) -> Any:
    want = cache.clone()
    for token, slot in enumerate(slots.tolist()):
        if slot >= 0:
            want[slot // cache.shape[1], slot % cache.shape[1]] = x[token]
    return want


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("wide", [torch.int32, torch.int64])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [64, 80, 128, 256, 67])
def test_halves_of_one_cache(d: int, dtype: str, wide: Any, level: str) -> None:
    for tokens, page in ((0, 4), (1, 1), (7, 16), (31, 5)):
        projection = torch.randn(tokens, 8 * d).to(DTYPES[dtype])
        k, v = (x.view(tokens, 2, d) for x in projection.split([4 * d, 2 * d, 2 * d], -1)[1:])
        kv, k_cache, v_cache = caches(9, page, 2, d, DTYPES[dtype])
        slots = torch.randperm(9 * page)[:tokens].to(wide)
        slots = torch.nn.functional.pad(slots, (0, tokens - len(slots)), value=-1)
        slots[tokens // 2 : tokens // 2 + 2] = -1
        wants = stored(k_cache, k, slots), stored(v_cache, v, slots)
        with dlblas.pinned("store_kv_cache", level):
            assert dlblas.store_kv_cache(k, v, k_cache, v_cache, slots) is None
        assert torch.equal(kv[:, 0], wants[0]) and torch.equal(kv[:, 1], wants[1])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("f8", F8)
def test_f8_with_scales(f8: str, dtype: str, scaled: bool, level: str) -> None:
    k, v = (100 * torch.randn(2, 6, 3, 40)).to(DTYPES[dtype])
    k[0, 0, :3] = torch.tensor([1e4, -6e4, float("nan")])
    _, k_cache, v_cache = caches(4, 5, 3, 40, F8[f8])
    k_cache, v_cache = k_cache.contiguous(), v_cache.contiguous()
    slots, most = torch.tensor([3, -1, 0, 19, 7, 8]), torch.finfo(F8[f8]).max
    scales = (torch.tensor(0.25), torch.tensor(3.0)) if scaled else (None, None)
    before = k_cache.clone(), v_cache.clone()
    with dlblas.pinned("store_kv_cache", level):
        dlblas.store_kv_cache(k, v, k_cache, v_cache, slots, *scales)
    for x, cache, old, scale in zip((k, v), (k_cache, v_cache), before, scales, strict=True):
        quotient = x.float() if scale is None else x.float() / scale
        want = stored(
            old.view(torch.uint8), quotient.clamp(-most, most).to(F8[f8]).view(torch.uint8), slots
        )
        same = (cache.view(torch.uint8) == want) | (
            cache.float().isnan() & want.view(F8[f8]).float().isnan()
        )
        assert same.all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("widths", [(40, 24), (16, 67), (192, 128), (8, 0), (0, 8)], ids=str)
def test_values_of_another_width(widths: tuple[int, int], dtype: str) -> None:
    tokens, page, heads, (d, dv) = 7, 5, 3, widths
    projection = torch.randn(tokens, heads * (d + dv)).to(DTYPES[dtype])
    k, v = (
        x.view(tokens, heads, -1) if x.numel() else x.view(tokens, heads, 0)
        for x in projection.split([heads * d, heads * dv], -1)
    )
    slots = torch.tensor([3, -1, 0, 19, 7, 8, 14])
    # Also with [P, Hkv, page, D] in memory, which attention reads as well.
    for order in ((0, 1, 2, 3), (0, 2, 1, 3)):
        made = [torch.randn(4, page, heads, n).to(DTYPES[dtype]) for n in widths]
        k_cache, v_cache = (c.permute(order).contiguous().permute(order) for c in made)
        wants = stored(k_cache, k, slots), stored(v_cache, v, slots)
        dlblas.store_kv_cache(k, v, k_cache, v_cache, slots)
        assert torch.equal(k_cache, wants[0]) and torch.equal(v_cache, wants[1])
        before = k_cache.clone()
        with pytest.raises(errors.ShapeMismatchError, match=r"v_cache has size .*expected Dv = "):
            dlblas.store_kv_cache(k + 1, v, k_cache, v_cache.new_zeros(4, page, heads, 9), slots)
        with pytest.raises(errors.ArgumentError, match="slot_mapping is out of bounds"):
            dlblas.store_kv_cache(k + 1, v, k_cache, v_cache, slots + 1)
        assert torch.equal(k_cache, before)


def test_values_of_another_width_in_f8_with_scales_compiled() -> None:
    k, v, slots = torch.randn(3, 2, 48), torch.randn(3, 2, 32), torch.tensor([4, -1, 0])
    k_cache, v_cache = (torch.zeros(3, 2, 2, n).to(F8["f8e4m3"]) for n in (48, 32))
    run = torch.compile(dlblas.store_kv_cache, fullgraph=True, backend="aot_eager")
    scales = torch.tensor(0.25), torch.tensor(2.0)
    run(k, v, k_cache, v_cache, slots, *scales)
    for x, cache, scale in ((k, k_cache, scales[0]), (v, v_cache, scales[1])):
        want = stored(torch.zeros(cache.shape).to(cache.dtype), (x / scale).to(cache.dtype), slots)
        assert torch.equal(cache.float(), want.float())
    with pytest.raises(errors.ShapeMismatchError, match="v_cache"):
        dlblas.store_kv_cache(k, v, k_cache, k_cache.clone(), slots)


def test_one_scale_alone() -> None:
    k, v = torch.randn(2, 3, 1, 8)
    k_cache, v_cache = torch.zeros(2, 2, 2, 1, 8).unbind()
    dlblas.store_kv_cache(k, v, k_cache, v_cache, torch.arange(3), v_scale=torch.tensor(2.0))
    assert torch.equal(k_cache.view(4, 1, 8)[:3], k)
    assert torch.equal(v_cache.view(4, 1, 8)[:3], v / 2)


def test_compiled_with_any_number_of_tokens() -> None:
    _, k_cache, v_cache = caches(16, 4, 2, 32, torch.float32)

    def model(k: Any, v: Any, slots: Any) -> Any:
        dlblas.store_kv_cache(k * 2, v, k_cache, v_cache, slots)
        return k_cache.sum()

    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend="aot_eager")
    for tokens in (3, 5, 17):
        k, v = torch.randn(2, tokens, 2, 32)
        slots = torch.randperm(64)[:tokens]
        want = stored(k_cache, 2 * k, slots)
        compiled(k, v, slots)
        assert torch.equal(k_cache, want)


def test_opcheck_of_halves() -> None:
    k, v = torch.randn(2, 3, 2, 8)
    _, k_cache, v_cache = caches(3, 2, 2, 8, torch.float32)
    arguments = (k, v, k_cache, v_cache, torch.tensor([4, -1, 0]))
    result = torch.library.opcheck(torch.ops.dlblas.store_kv_cache, arguments)
    assert set(result.values()) == {"SUCCESS"}


def test_what_does_not_fit_is_refused() -> None:
    k, v = torch.randn(2, 3, 2, 8)
    _, k_cache, v_cache = caches(3, 2, 2, 8, torch.float32)
    slots, before = torch.arange(3), k_cache.clone()
    with pytest.raises(errors.ShapeMismatchError, match="v_cache"):
        dlblas.store_kv_cache(k, v, k_cache, v_cache[..., :7], slots)
    with pytest.raises(errors.UnsupportedDtypeError, match="k_cache"):
        dlblas.store_kv_cache(k, v, k_cache.half(), v_cache.half(), slots)
    with pytest.raises(errors.ArgumentError, match="overlap"):
        dlblas.store_kv_cache(k, v, k_cache, k_cache, slots)
    with pytest.raises(errors.ShapeMismatchError, match="slot_mapping"):
        dlblas.store_kv_cache(k, v, k_cache, v_cache, slots[:2])
    assert torch.equal(k_cache, before)


def test_a_search_with_slots_beyond_the_tuners_pool() -> None:
    """The pool's size is not in the key; the caller's indices are folded into the tuner's pool."""
    k = torch.randn(24, 2, 32)
    cache = torch.zeros(512, 4, 2, 32)
    slots = torch.arange(2047, 2047 - 24, -1)
    call = dlblas.get_op("store_kv_cache", (k, k, cache, cache.clone(), slots), seconds=0.05)
    assert call.explain().as_dict()["implementation"] != "reference"


@pytest.mark.parametrize("traced", [False, True])
def test_tokens_of_a_batch(traced: bool) -> None:
    """[B, S, Hkv, D]: slices of a projection, and of a batch that no view can flatten."""
    whole = torch.randn(2, 5, 8, 16)
    slots = torch.randperm(12)[:10].view(2, 5)
    slots[1, 2] = -1
    apart = whole.transpose(0, 1).contiguous().transpose(0, 1)
    run = torch.compile(dlblas.store_kv_cache, fullgraph=True, backend="aot_eager")
    for tensor in (whole, apart):
        k, v = tensor[..., 4:6, :], tensor[..., 6:, :]
        _, k_cache, v_cache = caches(3, 4, 2, 16, torch.float32)
        wants = [
            stored(c, x.flatten(0, 1), slots.flatten()) for c, x in ((k_cache, k), (v_cache, v))
        ]
        for _ in range(2):
            call = run if traced else dlblas.store_kv_cache
            assert call(k, v, k_cache, v_cache, slots) is None
        assert torch.equal(k_cache, wants[0]) and torch.equal(v_cache, wants[1])
    before = k_cache.clone()
    with pytest.raises(
        errors.ShapeMismatchError, match="slot_mapping has other leading dimensions"
    ):
        dlblas.store_kv_cache(k, v, k_cache, v_cache, slots.flatten() * 0)
    assert torch.equal(k_cache, before)
