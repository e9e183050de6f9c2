"""Options of attention's functions that are of a wrong type or out of range: typed errors that name
the argument, before anything is written. Also masks of NumPy beside torch's tensors.

Read next: python/dlblas/_scores.py, tests/test_python_errors.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import dlblas
import numpy as np
import pytest
from dlblas import errors

torch = pytest.importorskip("torch")
torch.manual_seed(4)

Q, K = torch.randn(2, 6, 4, 16), torch.randn(2, 6, 2, 16)
CODES = [x.to(torch.float8_e4m3fn) for x in (Q, K)]
STARTS = torch.tensor([0, 5, 12])
PAGES = torch.randn(5, 4, 2, 16)
TABLE, LENGTHS = torch.tensor([[0, 1], [2, 3]]), torch.tensor([7, 5])
LATENTS, ROTARY = torch.randn(5, 4, 32), torch.randn(5, 4, 8)


def dense(**more: Any) -> Any:
    return dlblas.flash_attention(Q, K, K, **more)


def of_codes(**more: Any) -> Any:
    return dlblas.flash_attention(CODES[0], CODES[1], CODES[1], **more)


def packed(**more: Any) -> Any:
    return dlblas.flash_attention_varlen(
        Q.flatten(0, 1), K.flatten(0, 1), K.flatten(0, 1), STARTS, STARTS, **more
    )


def paged(**more: Any) -> Any:
    return dlblas.paged_attention(Q[:, 0], PAGES, PAGES, TABLE, LENGTHS, **more)


def latent(**more: Any) -> Any:
    return dlblas.mla_decode(
        torch.ones(2, 4, 32), torch.ones(2, 4, 8), LATENTS, ROTARY, TABLE, LENGTHS, **more
    )


CALLS = [dense, of_codes, packed, paged, latent]
CAPPED = [dense, of_codes, packed, paged]


class Stubborn:
    """Converts to nothing."""

    def __repr__(self) -> str:
        return "Stubborn()"

    def __float__(self) -> float:
        raise RuntimeError("no number")

    __bool__ = __index__ = __float__


def refused(call: Callable[..., Any], name: str, value: Any, **more: Any) -> None:
    with pytest.raises(errors.ArgumentError, match=f": {name} ") as caught:
        call(**{name: value}, **more)
    assert caught.value.argument == name
    assert "expected" in str(caught.value)


@pytest.mark.parametrize("call", CAPPED)
@pytest.mark.parametrize(
    "cap",
    [[], (), {}, set(), "", b"", 0j, False, range(0), Stubborn(), torch.empty(0), math.nan, -1.0,
     math.inf, 1e39, torch.ones(()).requires_grad_(), torch.empty((), device="meta")],
    ids=repr,
)  # fmt: skip
def test_a_soft_cap_is_a_number(call: Callable[..., Any], cap: Any) -> None:
    refused(call, "softcap", cap)


@pytest.mark.parametrize("call", CAPPED)
def test_a_soft_cap_is_any_packages_number(call: Callable[..., Any]) -> None:
    wanted = call(softcap=0.5)
    for cap in (np.float32(0.5), Fraction(1, 2), torch.tensor(0.5)):
        assert torch.equal(call(softcap=cap), wanted)
    assert torch.equal(call(softcap=0), call(softcap=None))


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("scale", [False, True, [], "", math.nan, math.inf, -1e39], ids=repr)
def test_a_scale_is_a_finite_number(call: Callable[..., Any], scale: Any) -> None:
    refused(call, "scale", scale)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "flag", ["", "yes", [], [1], {}, 0.0, 1.0, 2, -1, Stubborn(), np.float64(0), torch.zeros(2)],
    ids=repr,
)  # fmt: skip
def test_return_lse_is_true_or_false(call: Callable[..., Any], flag: Any) -> None:
    refused(call, "return_lse", flag)


@pytest.mark.parametrize("call", CALLS)
def test_flags_of_numpy_and_torch(call: Callable[..., Any]) -> None:
    for flag in (True, 1, np.True_, np.int64(1), torch.tensor(True)):
        assert isinstance(call(return_lse=flag), tuple)
    for flag in (False, 0, None, np.False_, torch.tensor(False)):
        assert isinstance(call(return_lse=flag), torch.Tensor)


@pytest.mark.parametrize("name", ["max_s", "max_l"])
def test_longest_lengths_are_integers_although_they_are_not_read(name: str) -> None:
    for length in (None, 7, np.int32(7), torch.tensor(7), torch.tensor([7])):
        packed(**{name: length})
    for length in ("7", [7], 7.0, True, torch.tensor(7.0), torch.tensor([7, 7]), Fraction(7)):
        refused(packed, name, length)


def test_options_that_change_stay_in_one_graph() -> None:
    def call(q: Any, length: int, cap: float) -> Any:
        starts = torch.tensor([0, 1, 3])
        options = {"softcap": cap, "scale": cap / 9, "return_lse": True}
        return dlblas.flash_attention_varlen(q, q, q, starts, starts, length, length, **options)

    compiled = torch.compile(call, backend="aot_eager", fullgraph=True, dynamic=True)
    for length, cap in ((3, 2.5), (5, 3.5), (7, 4.5)):
        q = torch.randn(length, 4, 8)
        for got, want in zip(compiled(q, length, cap), call(q, length, cap), strict=True):
            assert torch.equal(got, want)


@pytest.mark.parametrize("shape", [(6, 6), (2, 1, 1, 6), (6, 1)], ids=str)
@pytest.mark.parametrize("kind", ["f32", "bf16", "f8"])
def test_masks_of_numpy_beside_tensors_of_torch(shape: tuple[int, ...], kind: str) -> None:
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(2)) > 0.4
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16, "f8": torch.float8_e4m3fn}[kind]
    q, k = Q.to(dtype), K.to(dtype)
    want = dlblas.flash_attention(q, k, k, bias=mask)
    torch.testing.assert_close(dlblas.flash_attention(q, k, k, bias=mask.numpy()), want)


@pytest.mark.parametrize("call", CALLS)
def test_places_that_are_not_writable_are_called_out(call: Callable[..., Any]) -> None:
    """Not by the operator's own name of the result, which callers do not know."""
    o, lse = (x.numpy().copy() for x in call(return_lse=True, **_in_f32(call)))
    o.flags.writeable = False
    more = _in_f32(call)
    with pytest.raises(errors.ArgumentError, match=r": out is read-only") as caught:
        call(out=o, **more)
    assert caught.value.argument == "out"
    with pytest.raises(errors.ArgumentError, match=r": out\[0\] is read-only") as caught:
        call(out=(o, lse), return_lse=True, **more)
    assert caught.value.argument == "out[0]"
    with pytest.raises(errors.DeviceError, match=r": out is on another device") as caught:
        call(out=torch.empty(o.shape, device="meta"), **more)
    assert caught.value.argument == "out"


def _in_f32(call: Callable[..., Any]) -> dict[str, Any]:
    return {"out_dtype": torch.float32} if call is of_codes else {}


@pytest.mark.parametrize("shape", [(16,), (6, 16), (6, 4, 16), (1, 2, 6, 4, 16)], ids=str)
def test_q_of_other_dimensions_is_what_the_error_names(shape: tuple[int, ...]) -> None:
    with pytest.raises(errors.ShapeMismatchError, match=r": q has \d dimension") as caught:
        dlblas.fused_rotary_and_fa(torch.ones(shape), K, K, K[0, :, 0], K[0, :, 0])
    assert caught.value.argument == "q"
