"""dlblas.causal_conv1d: against torch's conv1d, states carried between calls, several sequences in
one call.

Shapes, layouts and special values are in ops/ssm/causal_conv1d_*/cases.json. Read next:
ops/ssm/conv_ref.hpp.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402
import dlblas.torch  # noqa: E402
from dlblas import errors  # noqa: E402
from torch_gradients import DTYPES, every_device  # noqa: E402, F401

BARS = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


def wanted(x: Any, weight: Any, bias: Any, activation: str | None) -> Any:
    taps = weight.shape[1]
    y = torch.nn.functional.conv1d(
        torch.nn.functional.pad(x.double(), (taps - 1, 0)), weight.double()[:, None],
        None if bias is None else bias.double(), groups=x.shape[1],
    )  # fmt: skip
    return torch.nn.functional.silu(y) if activation else y


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))
@pytest.mark.parametrize("activation", [None, "silu", "swish"])
@pytest.mark.parametrize("channels_last", [False, True])
def test_as_conv1d(dtype: Any, activation: str | None, channels_last: bool, device: str) -> None:
    for batch, channels, length, taps in ((2, 70, 133, 4), (1, 5, 1000, 3), (3, 8, 2, 4)):
        shape = (batch, length, channels) if channels_last else (batch, channels, length)
        x = torch.randn(shape, device=device).to(dtype)
        x = x.transpose(1, 2) if channels_last else x
        weight = torch.randn(channels, taps, device=device).to(dtype)
        bias = torch.randn(channels, device=device).to(dtype)
        y = dlblas.causal_conv1d(x, weight, bias, activation=activation)
        bar = BARS[dtype]
        torch.testing.assert_close(
            y.double(), wanted(x, weight, bias, activation), rtol=bar, atol=bar
        )
        assert y.dtype is dtype


def test_a_state_joins_calls_and_updates(device: str) -> None:
    x = torch.randn(2, 40, 30, device=device)
    weight, bias = torch.randn(40, 4, device=device), torch.randn(40, device=device)
    whole = dlblas.causal_conv1d(x, weight, bias, activation="silu")
    state = torch.zeros(2, 40, 3, device=device)
    parts = [
        dlblas.causal_conv1d(x[..., first:last], weight, bias, state, activation="silu")
        for first, last in ((0, 2), (2, 3), (3, 20))
    ]
    torch.testing.assert_close(state, x[..., 17:20])
    parts += [
        dlblas.causal_conv1d_update(x[..., t], state, weight, bias, "silu")[..., None]
        for t in range(20, 28)
    ]
    parts.append(dlblas.causal_conv1d_update(x[..., 28:], state, weight, bias, "silu"))
    torch.testing.assert_close(torch.cat(parts, -1), whole, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(state, x[..., 27:30])


@pytest.mark.parametrize("with_state", [True, False])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_sequences_side_by_side(with_state: bool, dtype: Any, device: str) -> None:
    offsets = [0, 1, 5, 5, 700, 702]
    x = torch.randn(702, 24, device=device).t()
    weight = torch.randn(24, 4, device=device)
    state = torch.randn(5, 24, 3, device=device) if with_state else None
    before = None if state is None else state.clone()
    cu_seqlens = torch.tensor(offsets, dtype=dtype, device=device)
    y = dlblas.causal_conv1d(x, weight, None, state, cu_seqlens)
    for s, (first, last) in enumerate(pairwise(offsets)):
        one = None if before is None else before[s : s + 1].clone()
        alone = dlblas.causal_conv1d(x[None, :, first:last], weight, None, one)
        torch.testing.assert_close(y[:, first:last], alone[0], rtol=1e-5, atol=1e-6)
        if state is not None and one is not None:
            torch.testing.assert_close(state[s], one[0])


def test_what_is_refused(device: str) -> None:
    x, weight = torch.randn(2, 8, 5, device=device), torch.randn(8, 4, device=device)
    with pytest.raises(errors.ShapeMismatchError):
        dlblas.causal_conv1d(x, weight[:7])
    with pytest.raises(errors.ShapeMismatchError):
        dlblas.causal_conv1d(x, weight, None, torch.zeros(2, 8, 4, device=device))
    with pytest.raises(errors.Error):
        dlblas.causal_conv1d(x, weight, activation="gelu")


def test_an_update_needs_its_state(device: str) -> None:
    x, weight, state = (torch.randn(*s, device=device) for s in ((2, 8), (8, 4), (2, 8, 3)))
    with pytest.raises(dlblas.Error, match="causal_conv1d_update: state "):
        dlblas.causal_conv1d_update(x, None, weight)
    with pytest.raises(dlblas.Error, match="causal_conv1d_update: x has another shape"):
        dlblas.causal_conv1d_update(x[0], state, weight)
