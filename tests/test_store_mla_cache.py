"""store_mla_cache and fill_kv_cache on torch tensors: widths of any kind, skipped slots, slices.

Shapes, layouts and special values are in ops/kv_cache/store_mla_heads/cases.json. Read next:
ops/kv_cache/api.py.
"""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402
import dlblas.torch  # noqa: E402
from dlblas import errors  # noqa: E402


def stored(cache: Any, x: Any, slots: Any) -> Any:
    want = cache.clone()
    for token, slot in enumerate(slots.tolist()):
        if slot >= 0:
            want[slot // cache.shape[1], slot % cache.shape[1]] = x[token].to(cache.dtype)
    return want


@pytest.mark.parametrize("wide", [torch.int32, torch.int64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("width", "rotary"), [(512, 64), (256, 32), (64, 64), (48, 80), (13, 7)])
def test_widths(width: int, rotary: int, dtype: Any, wide: Any) -> None:
    for tokens, page in ((0, 4), (1, 1), (7, 16), (31, 64)):
        ckv, kpe = torch.randn(tokens, width + rotary).to(dtype).split([width, rotary], -1)
        both = torch.randn(5, page, width + rotary).to(dtype)
        caches = both[..., :width], both[..., width:]
        slots = torch.randperm(5 * page)[:tokens].to(wide)
        slots = torch.nn.functional.pad(slots, (0, tokens - len(slots)), value=-1)
        slots[tokens // 2 : tokens // 2 + 2] = -1
        wants = [stored(c, x, slots) for c, x in zip(caches, (ckv, kpe), strict=True)]
        assert dlblas.store_mla_cache(ckv, kpe, *caches, slots) is None
        assert torch.equal(caches[0], wants[0]) and torch.equal(caches[1], wants[1])


def test_f8_with_scales() -> None:
    ckv, kpe = torch.randn(6, 512), torch.randn(6, 64)
    caches = [torch.zeros(2, 4, w).to(torch.float8_e4m3fn) for w in (512, 64)]
    slots, scales = torch.tensor([3, -1, 0, 7, 5, 4]), (torch.tensor(0.5), torch.tensor(0.25))
    wants = [stored(c, x / s, slots) for c, x, s in zip(caches, (ckv, kpe), scales, strict=True)]
    dlblas.store_mla_cache(ckv, kpe, *caches, slots, *scales)
    for cache, want in zip(caches, wants, strict=True):
        assert torch.equal(cache.view(torch.uint8), want.view(torch.uint8))


def test_fill_kv_cache_is_store_kv_cache() -> None:
    k, v = torch.randn(2, 5, 2, 16)
    caches = torch.zeros(2, 3, 4, 2, 16)
    slots = torch.tensor([3, -1, 0, 11, 5])
    wants = [stored(c, x, slots) for c, x in zip(caches, (k, v), strict=True)]
    assert dlblas.fill_kv_cache(k, v, caches[0], caches[1], slots) is None
    assert torch.equal(caches[0], wants[0]) and torch.equal(caches[1], wants[1])


def test_it_compiles_with_sizes_that_are_open() -> None:
    caches = torch.zeros(2, 3, 4, 32)
    ckv_cache, kpe_cache = caches[0], caches[1][..., :8]
    run = torch.compile(dlblas.store_mla_cache, fullgraph=True, dynamic=True, backend="aot_eager")
    for tokens in (3, 5, 7):
        rows = torch.full((tokens, 32), float(tokens))
        run(rows, rows[:, :8], ckv_cache, kpe_cache, torch.arange(tokens))
        flat = ckv_cache.view(12, 32)
        assert (flat[:tokens] == tokens).all() and not flat[tokens:].any()


def test_bad_input() -> None:
    ckv, kpe, slots = torch.randn(3, 512), torch.randn(3, 64), torch.arange(3)
    caches = torch.zeros(2, 4, 512), torch.zeros(2, 4, 64)
    for arguments, name in (
        ((ckv[None], kpe, *caches, slots), "ckv"),
        ((ckv, kpe, caches[0][..., :64], caches[1], slots), "ckv_cache"),
        ((ckv, kpe, caches[0], caches[1][0], slots), "kpe_cache"),
        ((ckv, kpe, *caches, slots[:2]), "slot_mapping"),
    ):
        with pytest.raises(errors.ShapeMismatchError, match=name):
            dlblas.store_mla_cache(*arguments)
    assert not caches[0].any() and not caches[1].any()


@pytest.mark.parametrize("missing", ["ckv", "kpe", "ckv_cache", "kpe_cache"])
def test_none_is_no_array(missing: str) -> None:
    given: dict[str, Any] = {
        "ckv": torch.ones(3, 8), "kpe": torch.ones(3, 4), "ckv_cache": torch.ones(2, 4, 8),
        "kpe_cache": torch.ones(2, 4, 4), missing: None,
    }  # fmt: skip
    with pytest.raises(errors.ArgumentTypeError, match=f"store_mla_cache: {missing} is no array"):
        dlblas.store_mla_cache(**given, slot_mapping=torch.arange(3))


def test_tokens_of_a_batch() -> None:
    whole = torch.randn(2, 5, 2, 24)
    ckv, kpe = whole[..., 0, :16], whole[..., 1, :8]
    slots = torch.randperm(12)[:10].view(2, 5)
    for store, rows in (
        (dlblas.store_mla_cache, (ckv, kpe)),
        (dlblas.fill_kv_cache, (whole[..., :16], whole[..., 8:24])),
    ):
        caches = [torch.zeros(3, 4, *x.shape[2:]) for x in rows]
        flat = [x.flatten(0, 1) for x in rows]
        wants = [stored(c, x, slots.flatten()) for c, x in zip(caches, flat, strict=True)]
        assert store(*rows, *caches, slots) is None
        assert all(torch.equal(c, want) for c, want in zip(caches, wants, strict=True))
