"""Values that address memory (positions, slots, offsets, lengths, page tables): a CPU call with
one out of bounds is refused by name, whichever implementation runs, and nothing is written.

Read next: src/dispatch/places.cpp, docs/reliability.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dlblas
import numpy as np
import pytest
from dlblas.harness import Case, load_registry
from dlblas.harness.call import Call
from rooms import facts_of

REGISTRY = load_registry()


def indices_of(op: str) -> list[dict[str, Any]]:
    tensors = REGISTRY.operators[op]["tensors"]
    return [t for t in tensors if t["fill"] != "normal" and set(t["dtypes"]) & {"i32", "i64"}]


def wild(kind: str, shape: tuple[int, ...], fill: str) -> Any:
    ascending = np.arange(int(np.prod(shape))).reshape(shape)
    return {
        "large": np.full(shape, 2**30),
        "negative": np.full(shape, -(2**30)),
        "ascending": ascending * 2**16,  # offsets of groups that end far behind the rows
        "descending": ascending[::-1] * 2**16,
    }[kind]


# Fills whose values the library checks against their limit, for every operator.
BOUNDED = {"offsets", "lengths", "distinct"}


@pytest.mark.parametrize("kind", ["large", "negative", "ascending", "descending"])
@pytest.mark.parametrize("op", [op for op in REGISTRY.operators if indices_of(op)])
def test_no_value_of_an_index_breaks_the_process(
    op: str, kind: str, attacked: Callable[..., None]
) -> None:
    rows = [r for r in REGISTRY.rows if r["op"] == op and "test" in r["use"]][:6]
    calls = 0
    for row in rows:
        case = Case(
            op, row["name"], row["dims"], row["dtypes"][0], "contiguous", "normal", row["args"]
        )
        call = Call(REGISTRY, case, 1)
        for spec in indices_of(op):
            if spec["name"] not in call.inputs or not call.inputs[spec["name"]].array.size:
                continue
            array = call.inputs[spec["name"]].array
            kept = array.copy()
            array[...] = wild(kind, array.shape, spec["fill"])
            held = spec["fill"] in BOUNDED or spec["name"] in facts_of(op).bounded
            for row_of in REGISTRY.implementations(op):
                with dlblas.pinned(op, row_of["name"]):
                    try:
                        call.run(0xA5)
                        refused = False
                    except dlblas.errors.ArgumentError as error:
                        assert error.argument == spec["name"], error
                        refused = True
                    except dlblas.errors.UnsupportedError:
                        continue
                calls += 1
                if held and kind == "large" and array.size > 1:
                    assert refused, f"{case}: {spec['name']} is taken by {row_of['name']}"
                if refused:
                    assert all(np.all(r.array.view(np.uint8) == 0xA5) for r in call.outputs)
                    for name in call.written:
                        if name in call.inputs and name != spec["name"]:
                            same = call.inputs[name].array, call.pristine[name].array
                            assert np.array_equal(*(a.view(np.uint8) for a in same))
            array[...] = kept
    attacked("indices out of bounds", calls)


def test_the_words_name_the_element_and_its_bounds() -> None:
    q, k = np.zeros((2, 4, 8), np.float32), np.zeros((2, 1, 8), np.float32)
    table = np.zeros((16, 8), np.float32)
    with pytest.raises(dlblas.errors.ArgumentError) as refused:
        dlblas.rope(q, k, np.array([3, 16]), table)
    assert "positions is out of bounds at element 1; expected at most 15, got 16" in str(
        refused.value
    )
    with pytest.raises(dlblas.errors.ArgumentError) as refused:
        dlblas.rope(q, k, np.array([3, 16]), table[:0])
    words = "expected a negative number (there is nothing to index), got 3"
    assert f"positions is out of bounds at element 0; {words}" in str(refused.value)


def test_a_width_that_does_not_fit_names_what_it_was_compared_with() -> None:
    q, k = np.zeros((2, 4, 8), np.float32), np.zeros((2, 1, 8), np.float32)
    with pytest.raises(dlblas.errors.ShapeMismatchError) as refused:
        dlblas.rope(q, k, np.zeros(2, np.int32), np.zeros((16, 10), np.float32))
    words = "expected at least 10 (2Dh+Dn, Dh=5 from cos_sin_cache [P=16, 2Dh=10]), got 8"
    assert str(refused.value) == f"rope: q has size 8 in dimension 2; {words}"


def test_the_largest_number_is_no_negative_one() -> None:
    positions = np.array([3, 0, 2**63 - 1, 0])[::2]  # strided: no fast pass
    q, k = np.zeros((2, 4, 8), np.float32), np.zeros((2, 1, 8), np.float32)
    with pytest.raises(dlblas.errors.ArgumentError, match="at element 1; expected at most 15"):
        dlblas.rope(q, k, positions, np.zeros((16, 8), np.float32))


def paged(**changed: Any) -> Any:
    """Two sequences, of 5 and 3 tokens, in pages of 4."""
    given = {
        "q": np.zeros((2, 2, 8), np.float32),
        "k_cache": np.zeros((6, 4, 1, 8), np.float32),
        "v_cache": np.zeros((6, 4, 1, 8), np.float32),
        "page_table": np.array([[1, 2, 99], [3, -1, -1]], np.int32),
        "seq_lens": np.array([5, 3], np.int32),
        "cu_seqlens_q": None,
        **changed,
    }
    return dlblas.paged_attention_lse(**given)


def test_entries_that_no_sequence_uses_may_hold_anything() -> None:
    o, _ = paged()
    assert np.all(o == 0)
    # 12 tokens: the query and a window of 2 before it use the last page alone.
    paged(
        page_table=np.array([[-1, 77, 2], [3, -1, -1]], np.int32),
        seq_lens=np.array([12, 3], np.int32),
        window=2,
    )


@pytest.mark.parametrize(
    ("changed", "argument", "words"),
    [
        ({"seq_lens": np.array([9, 3], np.int32)}, "page_table", r"at \[0, 2\].* 0 to 5.* got 99"),
        ({"seq_lens": np.array([5, 5], np.int32)}, "page_table", r"at \[1, 1\].* got -1"),
        ({"seq_lens": np.array([-1, 13], np.int32)}, "seq_lens", "expected 0 to 12"),
    ],
)
def test_entries_that_a_sequence_uses_are_pages_of_the_cache(
    changed: Any, argument: str, words: str
) -> None:
    with pytest.raises(dlblas.errors.ArgumentError, match=words) as refused:
        paged(**changed)
    assert refused.value.argument == argument


@pytest.mark.parametrize(
    ("op", "scales"),
    [
        ("quantize_static", ["scale"]), ("silu_and_mul_quant_static", ["scale"]),
        ("rms_norm_quant_static", ["scale"]), ("add_rms_norm_quant_static", ["scale"]),
        ("quantize_nvfp4", ["global_scale"]), ("store_kv_cache", ["k_scale", "v_scale"]),
        ("store_mla_heads", ["ckv_scale", "kpe_scale"]),
    ],
)  # fmt: skip
def test_scales_of_codes_are_above_0(op: str, scales: list[str]) -> None:
    rows = [r for r in REGISTRY.rows if r["op"] == op and "test" in r["use"]]
    ran = 0
    for row in rows:
        case = Case(
            op, row["name"], row["dims"], row["dtypes"][0], "contiguous", "normal", row["args"]
        )
        call = Call(REGISTRY, case, 1)
        if not all(result.array.size for result in call.outputs):
            continue
        for name in scales:
            if name not in call.inputs:
                continue
            array = call.inputs[name].array
            kept = array.copy()
            for bad in (-1.0, 0.0, -0.0, -np.inf):
                array[...] = bad
                words = f"{name} is not above 0; expected above 0, got "
                with pytest.raises(dlblas.errors.ArgumentError, match=words) as caught:
                    call.run(0xA5)
                assert caught.value.argument == name
                assert all(np.all(r.array.view(np.uint8) == 0xA5) for r in call.outputs)
            array[...] = np.nan  # goes into the results
            call.run(0xA5)
            array[...], ran = kept, ran + 1
        if ran > 4:
            break
    assert ran


def test_a_number_as_a_scale_is_above_0() -> None:
    x = np.ones((2, 8), np.float32)
    for bad in (-1.0, 0, -np.inf):
        for call in (
            lambda scale: dlblas.quantize(x, "tensor", scale=scale),
            lambda scale: dlblas.silu_and_mul_quant(x, "tensor", scale=scale),
            lambda scale: dlblas.rms_norm_quant(x, x[0], granularity="tensor", scale=scale),
        ):
            with pytest.raises(dlblas.errors.ArgumentError, match="scale is not above 0"):
                call(bad)


@pytest.mark.parametrize(
    ("counts", "got"), [([1, 9], "expected 0 to 3, got 9"), ([1, -1], "expected 0 to 3, got -1")]
)
def test_counts_of_rows(counts: list[int], got: str) -> None:
    a, b = np.ones((2, 3, 8), np.float32), np.ones((2, 5, 8), np.float32)
    for call in (
        lambda m: dlblas.grouped_gemm(a, b, masked_m=m),
        lambda m: dlblas.silu_and_mul_quant(a, "group32", masked_m=m),
    ):
        with pytest.raises(
            dlblas.errors.ArgumentError, match=f"masked_m is out of bounds at element 1; {got}"
        ):
            call(np.array(counts))
        call(np.array([0, 3]))


def test_adapters() -> None:
    x, a, y = (np.ones(s, np.float32) for s in ((3, 8), (2, 4, 8), (3, 4)))
    with pytest.raises(
        dlblas.errors.ArgumentError,
        match="token_lora is out of bounds at element 2; expected at most 1, got 2",
    ):
        dlblas.lora_shrink(x, a, np.array([0, -1, 2]), y)
    assert (y == 1).all()
