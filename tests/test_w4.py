"""4-bit weights: every bit of a packed word, both packings, and what mm_w4a16 computes and refuses.

Shapes, layouts and special values are in cases.json of the folders of ops/w4/. Read next:
ops/w4/README.md.
"""

from __future__ import annotations

from typing import Any

import dlblas
import numpy as np
import pytest
from dlblas import errors
from levels import LEVELS

FEW_ROWS = ["cpu_rows_avx2", "cpu_rows_avx512"]
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
RNG = np.random.default_rng(17)


def pack(values: Any, order: tuple[int, ...] = tuple(range(8))) -> Any:
    """Packs eight neighbours of the last dimension into a word: place i holds element order[i]."""
    eight = values.reshape(*values.shape[:-1], -1, 8)[..., list(order)].astype(np.uint64)
    words = (eight << (4 * np.arange(8, dtype=np.uint64))).sum(-1)
    return words.astype(np.uint32).view(np.int32)


def weight(rows: int, columns: int, group: int, dtype: Any) -> tuple[Any, Any, Any, Any]:
    q, zero = RNG.integers(0, 16, (rows, columns)), RNG.integers(0, 16, (rows // group, columns))
    scale = (RNG.standard_normal(zero.shape) / 16).astype(dtype)
    return q, zero, scale, np.repeat(scale.astype("f"), group, 0)


@pytest.mark.parametrize("shape", [(64, 40, 32), (96, 1048, 8), (7, 16, 7)], ids=str)
@pytest.mark.parametrize("dtype", ["f", "e"])
def test_awq_words(shape: tuple[int, int, int], dtype: str) -> None:
    rows, columns, group = shape
    q, zero, scale, each = weight(rows, columns, group, dtype)
    args = pack(q, AWQ_ORDER), scale
    with_zeros = dlblas.awq_dequantize(*args, pack(zero, AWQ_ORDER))
    np.testing.assert_array_equal(
        with_zeros, ((q - np.repeat(zero, group, 0)) * each).astype(dtype)
    )
    np.testing.assert_array_equal(dlblas.awq_dequantize(*args), ((q - 8) * each).astype(dtype))


def test_the_order_of_awq() -> None:
    word = np.array([[0x76543210]], np.uint32).view(np.int32)
    y = dlblas.awq_dequantize(word, np.ones((1, 8), "f"), np.zeros((1, 1), np.int32))
    np.testing.assert_array_equal(y, [[0, 4, 1, 5, 2, 6, 3, 7]])


@pytest.mark.parametrize("shape", [(64, 40, 32), (96, 1048, 8), (24, 16, 12)], ids=str)
@pytest.mark.parametrize("plus", [0, 1])
def test_gptq_words(shape: tuple[int, int, int], plus: int) -> None:
    rows, columns, group = shape
    q, zero, scale, each = weight(rows, columns, group, "e")
    words = pack(q.T).T
    y = dlblas.gptq_dequantize(words, scale, pack(zero), group, zeros_minus_one=bool(plus))
    np.testing.assert_array_equal(y, ((q - np.repeat(zero + plus, group, 0)) * each).astype("e"))
    y = dlblas.gptq_dequantize(words, scale, None, group)
    np.testing.assert_array_equal(y, ((q - 8) * each).astype("e"))


@pytest.mark.parametrize("format", ["awq", "gptq", "gptq_v2"])
@pytest.mark.parametrize("zeros", [True, False])
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_products_are_those_of_the_weight(format: str, zeros: bool, rows: int) -> None:
    q, zero, scale, each = weight(128, 72, 64, "e")
    order = AWQ_ORDER if format == "awq" else tuple(range(8))
    words = pack(q, order) if format == "awq" else pack(q.T).T
    x = RNG.standard_normal((rows, 128)).astype("e")
    y = dlblas.mm_w4a16(x, words, scale, pack(zero, order) if zeros else None, 64, format)
    away = np.repeat(zero, 64, 0) + (format == "gptq") if zeros else 8
    w = ((q - away) * each).astype("e")
    np.testing.assert_allclose(y, x.astype("f") @ w.astype("f"), rtol=2e-3, atol=2e-3)
    assert y.dtype == x.dtype


@pytest.mark.parametrize("level", [n for n in FEW_ROWS if n[9:] in {x[4:] for x in LEVELS}])
@pytest.mark.parametrize("format", ["awq", "gptq", "gptq_v2"])
@pytest.mark.parametrize(
    ("depth", "columns", "group"), [(128, 72, 64), (32, 8, 16), (800, 392, 400), (4096, 128, 128)]
)
def test_few_rows_unpack_in_registers(
    level: str, format: str, depth: int, columns: int, group: int
) -> None:
    """Against f64, with any strides of x and y."""
    q, zero, scale, each = weight(depth, columns, group, "e")
    order = AWQ_ORDER if format == "awq" else tuple(range(8))
    words = pack(q, order) if format == "awq" else pack(q.T).T.copy()
    for rows in (1, 2, 3, 8):
        for zeros in (True, False):
            away = np.repeat(zero, group, 0) + (format == "gptq") if zeros else 8
            w = ((q - away) * each).astype("e").astype(np.float64)
            x = RNG.standard_normal((rows, depth)).astype("e")
            expected = x.astype(np.float64) @ w
            size = np.abs(x.astype(np.float64)) @ np.abs(w)
            op = "mm_w4a16_awq" if format == "awq" else "mm_w4a16_gptq"
            with dlblas.pinned(op, level):
                for given in (x, np.repeat(x, 2, 1)[:, ::2], np.asfortranarray(x)):
                    for out in (np.empty((rows, columns), "e"), np.empty((columns, rows), "e").T):
                        dlblas.mm_w4a16(
                            given, words, scale, pack(zero, order) if zeros else None, group,
                            format, out=out,
                        )  # fmt: skip
                        off = np.abs(out - expected) - 2.0**-11 * np.abs(expected)
                        assert (off <= 2.0**-18 * size + 1e-6).all()


def test_few_rows_are_chosen_unless_bits_must_repeat() -> None:
    q, zero, scale, _ = weight(256, 256, 128, "e")
    args = pack(q, AWQ_ORDER), scale, pack(zero, AWQ_ORDER)
    x = np.ones((9, 256), "e")

    def chosen(rows: int) -> str:
        told = dlblas.explain("mm_w4a16_awq", x[:rows], *args, 128).as_dict()
        return str(told["implementation"])

    if "cpu_avx2" not in LEVELS:
        pytest.skip("the baseline has no such form")
    assert all(chosen(rows).startswith("cpu_rows_") for rows in (1, 2, 8))
    assert chosen(9) == "cpu_dequantized"
    with dlblas.deterministic():
        assert chosen(1) == "cpu_dequantized"


def test_one_group_of_all_rows_and_leading_dimensions() -> None:
    q, zero, scale, each = weight(96, 24, 96, "e")
    x = RNG.standard_normal((2, 3, 96)).astype("e")
    y = dlblas.mm_w4a16(x, pack(q, AWQ_ORDER), scale, pack(zero, AWQ_ORDER), -1)
    w = ((q - zero) * each).astype("e").astype("f")
    assert y.shape == (2, 3, 24)
    np.testing.assert_allclose(y, x.astype("f") @ w, rtol=2e-3, atol=2e-3)


def test_what_is_refused() -> None:
    q, zero, scale, _ = weight(64, 16, 32, "e")
    x, words, zeros = np.zeros((2, 64), "e"), pack(q, AWQ_ORDER), pack(zero, AWQ_ORDER)
    for bad, named in (("awq2", "format"), (0, "group")):
        with pytest.raises(errors.ArgumentError, match=named):
            if named == "format":
                dlblas.mm_w4a16(x, words, scale, zeros, 32, bad)
            else:
                dlblas.mm_w4a16(x, words, scale, zeros, bad)
    with pytest.raises(errors.ShapeMismatchError):
        dlblas.mm_w4a16(x, words, scale, zeros, 64)
    with pytest.raises(errors.ShapeMismatchError):
        dlblas.mm_w4a16(x, words, scale, zeros, 48)
    with pytest.raises(errors.ShapeMismatchError):
        dlblas.awq_dequantize(words, scale[:, :8], zeros)
    with pytest.raises(errors.UnsupportedDtypeError):
        dlblas.mm_w4a16(x.astype("f"), words, scale, zeros, 32)


@pytest.mark.parametrize("zeros", [True, False])
def test_no_rows_of_a_weight(zeros: bool) -> None:
    """If the weight has no rows, a group may have any number of them."""
    words, scale = np.zeros((0, 2), np.int32), np.zeros((0, 16), "e")
    stored = np.zeros((0, 2), np.int32) if zeros else None
    assert dlblas.awq_dequantize(words, scale, stored).shape == (0, 16)
    with pytest.raises(errors.ShapeMismatchError, match=r"qweight has size 4 .*; expected 0"):
        dlblas.awq_dequantize(np.zeros((4, 2), np.int32), scale, stored)
    x = np.ones((3, 0), "e")
    for format, of in (("awq", words), ("gptq", np.zeros((0, 16), np.int32))):
        np.testing.assert_array_equal(
            dlblas.mm_w4a16(x, of, scale, stored, 128, format), np.zeros((3, 16), "e")
        )
        chosen = dlblas.explain(f"mm_w4a16_{format}", x, of, scale, stored).as_dict()
        assert chosen["implementation"] == "cpu_dequantized", chosen


@pytest.mark.gpu
@pytest.mark.parametrize("implementation", ["cuda_packed", "cuda_dequantized"])
@pytest.mark.parametrize("format", ["awq", "gptq"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_products_on_a_gpu(implementation: str, format: str, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    op = f"mm_w4a16_{format}"
    dlblas.pin(op, implementation)
    try:
        for rows, depth, columns, group in [
            (1, 4096, 4096, 128), (8, 512, 264, 32), (16, 1024, 11008, 64), (3, 192, 8, 192),
            (17, 2048, 72, 128), (64, 4096, 1024, 128), (100, 256, 520, 32), (333, 512, 136, 64),
        ]:  # fmt: skip
            bits = torch.randint(-(2**31), 2**31, (depth // 8, columns)).to("cuda", torch.int32)
            words = bits.view(depth, columns // 8) if format == "awq" else bits
            zeros = torch.randint(-(2**31), 2**31, (depth // group, columns // 8)).int().cuda()
            scale = (torch.randn(depth // group, columns, device="cuda") / 16).to(
                getattr(torch, dtype)
            )
            x = torch.randn(rows, depth, device="cuda", dtype=scale.dtype)
            y = dlblas.mm_w4a16(x, words, scale, zeros, group, format)
            if format == "awq":
                w = dlblas.awq_dequantize(words, scale, zeros)
            else:
                w = dlblas.gptq_dequantize(words, scale, zeros, group)
            wanted = x.double() @ w.double()
            away = (y.double() - wanted).norm() / wanted.norm()
            assert away < (4e-4 if dtype == "float16" else 3e-3), (rows, depth, columns, group)
            assert (y.double() - wanted).abs().max() < 0.02 * wanted.abs().max()
    finally:
        dlblas.pin(op, None)


def test_leading_dimensions_may_lie_in_any_way() -> None:
    q, zero, scale, _ = weight(64, 40, 32, "e")
    words = pack(q, AWQ_ORDER), scale, pack(zero, AWQ_ORDER)
    x = RNG.standard_normal((3, 4, 64)).astype("e")
    wanted = dlblas.mm_w4a16(np.ascontiguousarray(x.swapaxes(0, 1)), *words, 32)
    np.testing.assert_array_equal(dlblas.mm_w4a16(x.swapaxes(0, 1), *words, 32), wanted)
    assert dlblas.mm_w4a16(x[:, :0].swapaxes(0, 1), *words, 32).shape == (0, 3, 40)


@pytest.mark.parametrize("missing", ["x", "qweight", "scales"])
def test_none_is_no_array(missing: str) -> None:
    given = {"x": np.ones((2, 8), "e"), "qweight": np.zeros((8, 1), np.int32), "scales": None}
    given |= {"scales": np.ones((1, 8), "e"), missing: None}
    with pytest.raises(errors.ArgumentTypeError, match=f"mm_w4a16: {missing} is no array"):
        dlblas.mm_w4a16(**given, group=-1)
