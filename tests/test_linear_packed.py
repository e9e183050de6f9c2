"""``dlblas.pack_weight`` and ``linear_packed``: the bits of matmul's blocked forms at every level
of the CPU, layouts, refusals, torch.compile, and the modules.
Read next: ops/gemm/linear_panels/, ops/gemm/weight_panels/.
"""

from __future__ import annotations

import copy
import io
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402
from dlblas import errors  # noqa: E402
from dlblas.harness import load_registry  # noqa: E402

PACKED = {torch.float32: torch.int32, torch.bfloat16: torch.int16, torch.float16: torch.uint16}
dtypes = pytest.mark.parametrize("dtype", PACKED, ids=str)
LEVELS = [row["name"] for row in load_registry().implementations("linear_panels")]
# Rows, depths, columns: whole panels, chunks, blocks of depths and spans of sums, and not.
SIZES = [
    (1, 1, 1), (1, 64, 64), (7, 131, 97), (16, 576, 70), (5, 513, 33), (33, 1057, 129), (9, 31, 31),
    (14, 8300, 65), (70, 640, 96), (3, 0, 40), (0, 4, 40), (200, 96, 321), (2, 1024, 0),
]  # fmt: skip


def made(m: int, k: int, n: int, dtype: Any) -> tuple[Any, Any, Any]:
    torch.manual_seed(m + k + n)
    return tuple(torch.randn(shape).to(dtype) for shape in ((m, k), (n, k), (n,)))


@pytest.fixture(autouse=True)
def threads_as_before() -> Any:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@dtypes
@pytest.mark.parametrize("level", [name for name in LEVELS if name != "reference"])
def test_the_bits_are_those_of_the_blocked_product(level: str, dtype: Any) -> None:
    ran = 0
    for m, k, n in SIZES:
        x, weight, bias = made(m, k, n, dtype)
        packed = dlblas.pack_weight(weight)
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            with dlblas.pinned("linear_panels", level), dlblas.pinned("matmul", level):
                for args in ((bias, "silu"), (None, ""), (bias.float(), "gelu")):
                    for out_dtype in (None, "f32"):
                        try:
                            got = dlblas.linear_packed(x, packed, *args, out_dtype=out_dtype)
                        except errors.UnsupportedError:
                            continue
                        want = dlblas.linear(x, weight, *args, out_dtype=out_dtype)
                        assert torch.equal(got, want), (m, k, n, threads, args)
                        ran += 1
    if not ran:
        pytest.skip("not on this CPU, or not for this dtype")
    assert ran == len(SIZES) * 18


@pytest.mark.parametrize("split", ["columns", "rows"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_no_configuration_changes_a_bit(split: str, dtype: Any) -> None:
    torch.set_num_threads(2)
    x, weight, bias = made(150, 1057, 293, dtype)
    packed = dlblas.pack_weight(weight)
    for level in LEVELS:
        results = []
        for order in ("columns", "rows"):
            for block_n in (128, 256):
                config = (
                    f"tile={{}} block_m=96 block_n={block_n} block_k=512 order={order} "
                    f"split={split} pack_a=1"
                )
                for tile in ("4x32", "8x32", "12x32", "14x32", "6x16", "2x32", "4x16", "2x16"):
                    try:
                        with dlblas.pinned("linear_panels", level, config.format(tile)):
                            results.append(dlblas.linear_packed(x, packed, bias))
                    except errors.Error:
                        continue  # not on this CPU, or no tile of the level
        assert all(torch.equal(one, results[0]) for one in results)


def test_panels_hold_the_elements_where_the_docs_say() -> None:
    n, k = 70, 1057
    weight = torch.arange(n * k).reshape(n, k)
    places = dlblas.pack_weight(weight.float()).view(torch.float32).long().flatten()
    whole = [weight[j : j + 32, k0 : k0 + 512].T for k0 in (0, 512, 1024) for j in (0, 32)]
    assert torch.equal(places, torch.cat([*(p.flatten() for p in whole), weight[64:].flatten()]))
    paired = torch.cat([weight[:32, 0:2].flatten(), weight[:32, 2:4].flatten()])
    bits = (weight % 32768).to(torch.int16).view(torch.bfloat16)
    packed = dlblas.pack_weight(bits)
    assert torch.equal(packed.flatten()[:128].int(), (paired % 32768).int())
    last = packed.flatten()[64 * 1056 : 64 * 1057].int()  # the depth that is no pair, of two panels
    assert torch.equal(last[-32:], (weight[32:64, 1056] % 32768).int())


@dtypes
def test_weights_of_any_strides_and_every_bit(dtype: Any) -> None:
    ints = {2: torch.int16, 4: torch.int32}[dtype.itemsize]
    for shape in ((1, 1), (33, 70), (64, 545), (31, 4), (0, 5), (5, 0)):
        bits = torch.randint(-(2**15), 2**15, shape, dtype=ints)  # NaN and denormals
        weight = bits.view(dtype)
        packed = dlblas.pack_weight(weight)
        assert packed.dtype is PACKED[dtype] and packed.shape == shape and packed.is_contiguous()
        for other in (weight.T.contiguous().T, torch.stack([weight, weight], -1)[..., 0]):
            assert torch.equal(dlblas.pack_weight(other).view(ints), packed.view(ints))
        order = dlblas.pack_weight(torch.arange(bits.numel()).reshape(shape).float())
        if dtype is not torch.bfloat16:  # f32 and f16 have one order
            order = order.view(torch.float32).long().flatten()
            assert torch.equal(packed.view(ints).flatten(), bits.flatten()[order])


@dtypes
def test_rows_lie_anywhere(dtype: Any) -> None:
    x, weight, bias = made(12, 70, 45, dtype)
    packed = dlblas.pack_weight(weight)
    want = dlblas.linear_packed(x, packed, bias)
    double = torch.stack([x, x], -1)
    for one in (x.T.contiguous().T, double[..., 0], torch.cat([x, x], 1)[:, :70]):
        assert torch.equal(dlblas.linear_packed(one, packed, bias), want)
    assert torch.equal(
        dlblas.linear_packed(x.reshape(3, 4, 70), packed, bias), want.reshape(3, 4, 45)
    )
    turned = x.reshape(3, 4, 70).transpose(0, 1)
    got = dlblas.linear_packed(turned, packed, bias)
    assert torch.equal(got, want.reshape(3, 4, 45).transpose(0, 1))
    for out in (torch.empty(12, 45, dtype=dtype), torch.empty(12, 90, dtype=dtype)[:, ::2]):
        assert dlblas.linear_packed(x, packed, bias, out=out) is out and torch.equal(out, want)
    assert torch.equal(
        dlblas.linear_packed(x[0], packed, bias), dlblas.linear_packed(x[:1], packed, bias)[0]
    )


def test_numpy_arrays() -> None:
    weight, x = np.ones((40, 70), "f4"), np.ones((3, 70), "f4")
    packed = dlblas.pack_weight(weight)
    assert packed.dtype == np.int32 and (dlblas.linear_packed(x, packed) == 70).all()
    types = pytest.importorskip("ml_dtypes")
    packed = dlblas.pack_weight(weight.astype(types.bfloat16))
    assert packed.dtype == np.int16
    assert (dlblas.linear_packed(x.astype(types.bfloat16), packed) == 70).all()


def test_what_is_no_packed_weight_is_refused() -> None:
    x, weight, bias = made(5, 70, 40, torch.float32)
    packed = dlblas.pack_weight(weight)
    call = dlblas.linear_packed
    for refused, call_of, words in [
        (errors.UnsupportedDtypeError, lambda: call(x, weight), "pack_weight returns for f32"),
        (errors.UnsupportedDtypeError, lambda: call(x.bfloat16(), packed), "packed from f32"),
        (errors.UnsupportedDtypeError, lambda: call(x.half(), packed), "packed from f32"),
        (errors.UnsupportedDtypeError, lambda: call(x.double(), packed), "f64"),
        (errors.UnsupportedDtypeError, lambda: dlblas.linear(x, packed), "i32"),
        (errors.ShapeMismatchError, lambda: call(x[:, :69], packed), "packed has size 70"),
        (errors.ShapeMismatchError, lambda: call(x, packed[0]), "packed has 1 dimension"),
        (errors.ArgumentError, lambda: call(x, packed[::2]), "not contiguous"),
        (errors.ArgumentError, lambda: call(x, packed.T.contiguous().T), "not contiguous"),
        (errors.ShapeMismatchError, lambda: call(x, packed, bias[:39]), "bias"),
        (errors.ShapeMismatchError, lambda: dlblas.pack_weight(weight[0]), "1 dimension"),
        (errors.UnsupportedDtypeError, lambda: dlblas.pack_weight(weight.double()), "f64"),
        (errors.ArgumentTypeError, lambda: dlblas.pack_weight(None), "weight is no array"),
        (errors.ArgumentError, lambda: call(x.requires_grad_(), packed), "requires grad"),
    ]:  # fmt: skip
        with pytest.raises(refused, match=words):
            call_of()


def test_a_gpu_is_told_what_to_use_instead() -> None:
    class OnGpu:
        def __init__(self, of: Any) -> None:
            self.shape, self.dtype, self.device = of.shape, of.dtype, torch.device("cuda")

    x, weight, _ = made(4, 8, 8, torch.float32)
    packed = dlblas.pack_weight(weight)
    for call in (
        lambda: dlblas.pack_weight(OnGpu(weight)),
        lambda: dlblas.linear_packed(OnGpu(x), packed),
        lambda: dlblas.linear_packed(x, OnGpu(packed)),
    ):
        with pytest.raises(errors.DeviceError, match="use linear and the weight itself"):
            call()


@dtypes
def test_under_torch_compile_and_after_a_save(dtype: Any) -> None:
    x, weight, bias = made(6, 70, 45, dtype)

    def whole(x: Any, weight: Any, bias: Any) -> Any:
        return dlblas.linear_packed(x, dlblas.pack_weight(weight), bias, "gelu")

    want = whole(x, weight, bias)
    assert torch.equal(torch.compile(whole, fullgraph=True)(x, weight, bias), want)
    file = io.BytesIO()
    torch.save(dlblas.pack_weight(weight), file)
    file.seek(0)
    assert torch.equal(dlblas.linear_packed(x, torch.load(file), bias, "gelu"), want)


@dtypes
def test_opcheck(dtype: Any) -> None:
    x, weight, bias = made(6, 70, 45, dtype)
    ops = torch.ops.dlblas
    torch.library.opcheck(ops.weight_panels.default, (weight,))
    torch.library.opcheck(
        ops.linear_panels.default, (x, ops.weight_panels(weight), "silu"), {"bias": bias}
    )


@dtypes
def test_a_layer_is_packed_for_inference(dtype: Any) -> None:
    layer = dlblas.nn.Linear(70, 45, activation="silu", dtype=dtype)
    packed, x = layer.packed(), made(3, 70, 45, dtype)[0]
    want = dlblas.linear_packed(
        x, dlblas.pack_weight(layer.weight.detach()), layer.bias.detach(), "silu"
    )
    assert torch.equal(packed(x), want) and not list(packed.parameters())
    assert "activation='silu'" in repr(packed) and str(dtype) in repr(packed)
    other = dlblas.nn.PackedLinear(70, 45, activation="silu", dtype=dtype)
    assert torch.equal(other(x), torch.zeros(3, 45, dtype=dtype))
    other.load_state_dict(packed.state_dict())
    assert torch.equal(other(x), want) and torch.equal(copy.deepcopy(packed)(x), want)
    assert torch.equal(torch.compile(packed, fullgraph=True)(x), want)
    assert dlblas.nn.Linear(7, 5, bias=False).packed().bias is None
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(packed(x.float()), want)
    layer.weight.data.zero_()
    assert torch.equal(packed(x), want)  # a copy


def test_a_cast_of_the_module_is_not_silent() -> None:
    layer, x = dlblas.nn.Linear(70, 45).packed().bfloat16(), made(3, 70, 45, torch.bfloat16)[0]
    assert layer.packed.dtype is torch.int32
    with pytest.raises(errors.UnsupportedDtypeError, match="packed from f32"):
        layer(x)
    with pytest.raises(errors.ArgumentError, match="dtype"):
        dlblas.nn.PackedLinear(70, 45, dtype=torch.float64)
