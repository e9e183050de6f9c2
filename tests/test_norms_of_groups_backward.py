"""layernorm_gated_backward and group_norm_backward against the forward formulas: finite differences
in f64, the same bits on any number of threads, phases of rows, wrong results refused; and, through
torch, that the gradients are these operators and nothing else.

Read next: ops/norm/norm_gradient_ref.hpp, docs/row_programs.md (phases), test_norms_of_groups.py.
"""

from __future__ import annotations

from typing import Any

import dlblas
import numpy as np
import pytest
from dlblas import errors
from dlblas.harness import abi
from gradients import differences, draws
from levels import LEVELS

EPS = 1e-5
NAMES = [*LEVELS, "reference"]
GATED, GROUPED = "layernorm_gated_backward", "group_norm_backward"


def silu(x: Any) -> Any:
    return x / (1 + np.exp(-x))


def normed(v: Any, centres: bool = True) -> Any:
    v = v - v.mean(-1, keepdims=True) if centres else v
    return v / np.sqrt((v**2).mean(-1, keepdims=True) + EPS)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("rms", [False, True])
@pytest.mark.parametrize("gate", ["behind", "before", "none"])
def test_it_is_the_derivative_of_layernorm_gated(
    name: str, groups: int, rms: bool, gate: str
) -> None:
    shape = (2, 3, 19)
    dy, x, z, weight, bias = draws(shape, shape, shape, (groups, 19), (groups, 19))
    how = {"groups": groups, "eps": EPS, "norm_before_gate": gate != "before", "is_rms_norm": rms}
    with dlblas.pinned(GATED, name):
        results = dlblas.layernorm_gated_backward(
            dy, x, weight, bias, None if gate == "none" else z, **how
        )
    x64, z64, w64, b64 = (a.astype(np.float64) for a in (x, z, weight, bias))
    rows = np.arange(6).reshape(2, 3) % groups

    def loss() -> Any:
        v = x64 * silu(z64) if gate == "before" else x64
        y = normed(v, not rms) * w64[rows] + b64[rows]
        return np.sum((y * silu(z64) if gate == "behind" else y) * dy)

    for got, at in zip(results, (x64, z64, w64, b64), strict=True):
        np.testing.assert_allclose(got, differences(loss, at), rtol=3e-4, atol=4e-5)
    assert gate != "none" or not results[1].any()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("activation", ["", "silu"])
@pytest.mark.parametrize("inner", [1, 4, 7, 32])
def test_it_is_the_derivative_of_group_norm(
    name: str, groups: int, activation: str, inner: int
) -> None:
    width = 20
    channels = -(-width // inner)
    dy, x, weight, bias = draws(
        (6, width), (6, width), (groups, channels), (groups, channels), seed=8
    )
    with dlblas.pinned(GROUPED, name):
        results = dlblas.group_norm_backward(
            dy, x, weight, bias, groups=groups, inner=inner, eps=EPS, activation=activation
        )
    x64, w64, b64 = (a.astype(np.float64) for a in (x, weight, bias))
    rows, columns = np.arange(6)[:, None] % groups, np.arange(width)[None, :] // inner

    def loss() -> Any:
        y = normed(x64) * w64[rows, columns] + b64[rows, columns]
        return np.sum((silu(y) if activation else y) * dy)

    for got, at in zip(results, (x64, w64, b64), strict=True):
        np.testing.assert_allclose(got, differences(loss, at), rtol=3e-4, atol=4e-5)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_absent_has_zeros(name: str) -> None:
    dy, x = draws((6, 40), (6, 40))
    with dlblas.pinned(GATED, name):
        _, *gated = dlblas.layernorm_gated_backward(dy, x, groups=2)
    with dlblas.pinned(GROUPED, name):
        _, *grouped = dlblas.group_norm_backward(dy, x, groups=2, inner=8)
    assert [a.shape for a in (*gated, *grouped)] == [(6, 40), (2, 40), (2, 40), (2, 5), (2, 5)]
    assert not any(a.any() for a in (*gated, *grouped))


@pytest.mark.parametrize("rows", [1, 9, 130, 700, 6000])
@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("name", LEVELS)
def test_the_bits_are_the_same_on_any_number_of_threads(name: str, rows: int, groups: int) -> None:
    dy, x, z, weight = draws((rows, 40), (rows, 40), (rows, 40), (groups, 40))
    channels = np.ascontiguousarray(weight[:, :5])
    calls = {
        GATED: ({"dy": dy, "x": x, "weight": weight, "z": z, "groups": groups}, 40, 2),
        GROUPED: ({"dy": dy, "x": x, "weight": channels, "groups": groups, "inner": 8}, 5, 1),
    }
    for op, (arguments, width, tensors) in calls.items():
        seen = set()
        with dlblas.pinned(op, name):
            for threads in (1, 2, 3, 8):
                shapes = [(rows, 40)] * tensors + [(groups, width)] * 2
                out = tuple(np.full(shape, np.nan, np.float32) for shape in shapes)
                abi.call(op, arguments, out, threads)
                assert not any(np.isnan(a).any() for a in out)
                seen.add(b"".join(a.tobytes() for a in out))
        assert len(seen) == 1


def test_wrong_gradients_are_refused() -> None:
    """The oracles refuse a mean left in dx, a row left out of a sum, and another phase's sums."""
    dy, x, z, weight = draws((12, 80), (12, 80), (12, 80), (3, 80))
    inputs = (dy, x, weight, None, z, 3, EPS, True, False)
    dx, dz, dweight, dbias = results = dlblas.layernorm_gated_backward(*inputs)
    assert dlblas.verify(GATED, inputs, results).ok
    g = dy * silu(z) * np.tile(weight, (4, 1))
    spoilt = (dx + 1e-3 * g.mean(-1, keepdims=True)).astype(np.float32)
    term = (dy * silu(z) * normed(x))[-1].astype(np.float32)
    short = dweight - np.stack([np.zeros_like(term), np.zeros_like(term), term])
    for wrong in (
        (spoilt, dz, dweight, dbias), (dx, dz * np.float32(1.0001), dweight, dbias),
        (dx, dz, short, dbias), (dx, dz, np.roll(dweight, 1, axis=0), dbias),
    ):  # fmt: skip
        assert not dlblas.verify(GATED, inputs, wrong).ok
    channels = np.ascontiguousarray(weight[:, :10])
    grouped = (dy, x, channels, channels, 3, 8, EPS, "silu")
    dx, dweight, dbias = results = dlblas.group_norm_backward(*grouped)
    assert dlblas.verify(GROUPED, grouped, results).ok
    for wrong in (
        ((dx + np.float32(1e-4)), dweight, dbias), (dx, np.roll(dweight, 1, axis=1), dbias),
        (dx, dweight, dbias * np.float32(1.0001)), (dx, dweight, np.roll(dbias, 1, axis=0)),
    ):  # fmt: skip
        assert not dlblas.verify(GROUPED, grouped, wrong).ok


@pytest.mark.parametrize("groups", [0, 4])
def test_groups_that_rows_do_not_say(groups: int) -> None:
    """Of [2, 6] rows the phase t % 4 has no stride."""
    x = np.ones((2, 6, 8), np.float32)
    words = "groups" if groups == 0 else r"groups does not fit x's rows; expected a divisor of 6"
    with pytest.raises(errors.Error, match=words):
        dlblas.layernorm_gated_backward(x, x, groups=groups)
    with pytest.raises(errors.Error, match=words):
        dlblas.group_norm_rows(x, groups=groups)


# ---- torch --------------------------------------------------------------------------------------


def operators_of_backward(run: Any, leaves: list[Any]) -> list[str]:
    """What backward() calls, without views and what autograd itself adds."""
    torch = pytest.importorskip("torch")
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: list[str] = []

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    y = run(*leaves)
    dy = torch.randn_like(y)
    with Seen():
        y.backward(dy)
    views = ("view", "reshape", "detach", "alias", "expand")
    return [name for name in seen if not any(view in name for view in views)]


def test_the_gradients_are_these_operators() -> None:
    torch = pytest.importorskip("torch")
    import dlblas.torch

    def leaf(*shape: int) -> Any:
        return torch.randn(*shape).requires_grad_()

    grouped = operators_of_backward(
        lambda x, w, b: dlblas.group_norm(x, 4, w, b, activation="silu"),
        [leaf(2, 8, 6, 5), leaf(8), leaf(8)],
    )
    assert grouped == ["dlblas._group_norm_backward.default"] or grouped == [
        "dlblas.group_norm_backward.default"
    ]
    gated = operators_of_backward(
        lambda x, w, z: dlblas.layernorm_gated(x, w, None, z, group_size=16, is_rms_norm=True),
        [leaf(2, 5, 48), leaf(48), leaf(2, 5, 48)],
    )
    assert gated == ["dlblas._layernorm_gated_backward.default"] or gated == [
        "dlblas.layernorm_gated_backward.default"
    ]
