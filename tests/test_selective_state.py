"""selective_state_update and selective_scan on torch tensors: against plain loops in f64, Mamba-2's
expanded parameters, groups, a state in place, one step of a scan, and the names of mamba_ssm.

Shapes, layouts and special values are in ops/ssm/*/cases.json; this file tests what they cannot.
Read next: ops/ssm/step_oracle.hpp.
"""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402
import dlblas.torch  # noqa: E402
from depth import some  # noqa: E402
from dlblas import errors  # noqa: E402
from dlblas.kernels import selective_scan as scan_names  # noqa: E402
from dlblas.kernels import selective_state_update as update_names  # noqa: E402
from levels import LEVELS  # noqa: E402

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
# Relative to the result's largest value: 2 roundings of its dtype.
BARS = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}
Tensors = dict[str, Any]


def softplus(x: Any) -> Any:
    return torch.nn.functional.softplus(x.double(), threshold=1000)


def positive(t: Tensors) -> Tensors:
    """Time steps that need no softplus: with negative ones, the state would grow beyond f32."""
    return {
        n: x.abs() / 2 if n in ("dt", "dt_bias", "delta", "delta_bias") else x for n, x in t.items()
    }


def step(t: Tensors, soft: bool) -> tuple[Any, Any]:
    """One token in f64, head by head: y and the state."""
    x, state = t["x"].double(), t["state"].double()
    y, new = torch.empty_like(x), torch.empty_like(state)
    heads, groups = x.shape[1], t["B"].shape[1]
    for h in range(heads):
        g = h * groups // heads
        dt = t["dt"][:, h].double()
        if "dt_bias" in t:
            dt = dt + t["dt_bias"][h].double()
        dt = softplus(dt) if soft else dt
        decay = torch.exp(dt[..., None] * t["A"][h].double())
        b, c = (t[n][:, g, None].double() for n in "BC")
        new[:, h] = decay * state[:, h] + (dt * x[:, h])[..., None] * b
        y[:, h] = (new[:, h] * c).sum(-1)
        if "D" in t:
            y[:, h] += t["D"][h].double() * x[:, h]
        if "z" in t:
            z = t["z"][:, h].double()
            y[:, h] *= z / (1 + torch.exp(-z))
    return y, new


def near(got: Any, want: Any) -> None:
    bar = BARS[got.dtype] * float(want.abs().max())
    assert got.shape == want.shape
    assert float((got.double() - want).abs().max()) <= bar


def token(
    batch: int, heads: int, groups: int, channels: int, width: int, dtype: Any, state: Any = None
) -> Tensors:
    """All arguments; the parameters are f32."""
    draw = torch.Generator().manual_seed(heads * width + batch)

    def normal(*shape: int) -> Any:
        return torch.randn(shape, generator=draw)

    return {
        "state": normal(batch, heads, channels, width).to(state or dtype),
        "x": normal(batch, heads, channels).to(dtype),
        "dt": normal(batch, heads, channels).to(dtype),
        "A": -normal(heads, channels, width).exp(),
        "B": normal(batch, groups, width).to(dtype),
        "C": normal(batch, groups, width).to(dtype),
        "D": normal(heads, channels),
        "z": normal(batch, heads, channels).to(dtype),
        "dt_bias": normal(heads, channels) - 3,
    }


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("state", ["same", "f32"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 13, 16, 64, 128, 256])
def test_a_token_against_a_loop(width: int, dtype: str, state: str, level: str) -> None:
    for batch, heads, groups, channels in ((1, 1, 1, 70), (3, 6, 2, 9), (2, 4, 4, 64)):
        kind = torch.float32 if state == "f32" else None
        t = token(batch, heads, groups, channels, width, DTYPES[dtype], kind)
        want, after = step(t, soft=True)
        memory = t["state"].data_ptr()
        with dlblas.pinned("selective_state_update", level):
            y = dlblas.selective_state_update(**t, dt_softplus=True)
        near(y, want)
        near(t["state"], after)
        assert t["state"].data_ptr() == memory and y.dtype == DTYPES[dtype]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("missing", ["D", "z", "dt_bias"])
def test_optional_arguments(missing: str, level: str) -> None:
    t = token(2, 4, 2, 10, 24, torch.float32)
    del t[missing]
    t = t if missing != "dt_bias" else positive(t)
    want, after = step(t, soft=missing != "dt_bias")
    with dlblas.pinned("selective_state_update", level):
        y = dlblas.selective_state_update(**t, dt_softplus=missing != "dt_bias")
    near(y, want)
    near(t["state"], after)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_expanded_parameters_of_mamba2(dtype: str, level: str) -> None:
    """One number per head, expanded with strides of 0, gives the same bits as a dense copy."""
    batch, heads, groups, channels, width = 3, 6, 2, 64, 128
    t = token(batch, heads, groups, channels, width, DTYPES[dtype], torch.float32)
    t["dt"] = t["dt"][..., :1].expand(batch, heads, channels)
    t["A"] = t["A"][:, :1, :1].expand(heads, channels, width)
    for name in ("D", "dt_bias"):
        t[name] = t[name][:, :1].expand(heads, channels)
    assert t["A"].stride() == (channels * width, 0, 0) and t["dt"].stride(-1) == 0
    packed = {
        name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in t.items()
    }
    want, after = step(t, soft=True)
    with dlblas.pinned("selective_state_update", level):
        y = dlblas.selective_state_update(**t, dt_softplus=True)
        same = dlblas.selective_state_update(**packed, dt_softplus=True)
    near(y, want)
    near(t["state"], after)
    assert torch.equal(y, same) and torch.equal(t["state"], packed["state"])


def test_a_slice_of_a_cache_is_updated_in_place() -> None:
    cache = torch.randn(9, 2, 4, 8, 16)
    before = cache.clone()
    t = token(3, 4, 1, 8, 16, torch.float32)
    t = positive({**t, "state": cache[2:8:2, 1]})
    want, after = step(t, soft=False)
    near(dlblas.selective_state_update(**t), want)
    near(cache[2:8:2, 1], after)
    before[2:8:2, 1] = cache[2:8:2, 1]
    assert torch.equal(cache, before)


@pytest.mark.parametrize("shape", [(0, 4, 2, 8, 16), (2, 4, 2, 0, 16)])
def test_empty_tokens(shape: tuple[int, ...]) -> None:
    t = token(*shape, torch.float32)
    assert dlblas.selective_state_update(**t).shape == shape[:2] + shape[3:4]


def test_an_empty_state_leaves_what_goes_past_it() -> None:
    t = token(2, 4, 2, 8, 0, torch.float32)
    t = positive(t)
    near(dlblas.selective_state_update(**t), step(t, soft=False)[0])


@pytest.mark.parametrize(
    ("name", "shape", "error"),
    [
        ("B", (3, 4, 16), errors.ShapeMismatchError),  # 6 heads are no multiple of 4 groups
        ("A", (6, 8, 15), errors.ShapeMismatchError),
        ("x", (3, 6, 8, 1), errors.ShapeMismatchError),
    ],
)
def test_refusals_write_nothing(name: str, shape: tuple[int, ...], error: Any) -> None:
    t = token(3, 6, 2, 8, 16, torch.float32)
    before = t["state"].clone()
    t[name] = torch.zeros(shape)
    with pytest.raises(error):
        dlblas.selective_state_update(**t)
    assert torch.equal(t["state"], before)


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("name", ["D", "z", "dt_bias"])
def test_the_tensor_with_other_heads_is_the_one_that_is_refused(name: str, device: str) -> None:
    """Not a tensor before it, and the message gives each tensor its own sizes: the first tensors
    define the number of heads, in fakes too."""
    t = {n: x.to(device) for n, x in token(2, 4, 1, 8, 16, torch.float32).items()}
    t[name] = torch.zeros((2, 5, 8) if name == "z" else (5, 8), device=device)
    with pytest.raises(errors.ShapeMismatchError) as caught:
        dlblas.selective_state_update(**t)
    assert caught.value.argument == name
    if device == "cpu":
        assert "expected G*R = 4 from B [batch=2, G=1, N=16] and state [batch=2, G*R=4," in str(
            caught.value
        )
    u = sequence(2, 4, 1, 6, 16, torch.float32)
    u = {n: x.to(device) for n, x in u.items()}
    name = {"dt_bias": "delta_bias"}.get(name, name)
    u[name] = torch.zeros((2, 5, 6) if name == "z" else 5, device=device)
    u["initial_state"] = torch.zeros(2, 4, 16, device=device)
    with pytest.raises(errors.ShapeMismatchError) as caught:
        dlblas.selective_scan(**u)
    assert caught.value.argument == name


def test_what_is_no_tensor_is_refused_by_name() -> None:
    """The mamba_ssm functions slice and reshape before the operator sees its arguments."""
    t, u = token(2, 4, 1, 8, 16, torch.float32), sequence(2, 4, 1, 6, 16, torch.float32)
    t = {n: x[0] if n in ("A", "D", "dt_bias") else x[:, 0] for n, x in t.items()}  # without heads
    update_names.selective_state_update(**t)
    u.pop("initial_state", None)
    scan_names.selective_scan(**u)
    for function, given in (
        (update_names.selective_state_update, t), (scan_names.selective_scan, u),
    ):  # fmt: skip
        for name in given:
            optional = name in ("D", "z", "dt_bias", "delta_bias")
            for value in ([1.0], "ab", 3, *([] if optional else [None])):
                with pytest.raises(errors.ArgumentError) as caught:
                    function(**{**given, name: value})
                assert caught.value.argument == name, (name, value)


def test_a_state_that_is_an_argument_too_is_refused() -> None:
    t = token(3, 4, 1, 8, 16, torch.float32)
    t["x"] = t["state"][..., 0]
    with pytest.raises(errors.ArgumentError):
        dlblas.selective_state_update(**t)


def test_operators_pass_opcheck() -> None:
    t = positive(token(2, 4, 2, 8, 16, torch.float32))
    assert torch.library.opcheck(torch.ops.dlblas.selective_state_update.default, tuple(t.values()))
    s = positive(sequence(2, 4, 2, 9, 16, torch.float32))
    assert torch.library.opcheck(torch.ops.dlblas.selective_scan.default, tuple(s.values()))


@pytest.mark.parametrize("dtype", DTYPES)
def test_mamba_ssm_names_of_a_token(dtype: str) -> None:
    t = token(5, 1, 1, 40, 16, DTYPES[dtype])
    want, after = step(t, soft=True)
    flat = {name: x[0] if name in ("A", "D", "dt_bias") else x[:, 0] for name, x in t.items()}
    state = flat.pop("state")
    y = update_names.selective_state_update(state, *flat.values(), dt_softplus=True)
    near(y, want[:, 0])
    near(state, after[:, 0])
    heads = positive(token(5, 4, 2, 8, 16, DTYPES[dtype]))
    want, after = step(heads, soft=False)
    near(update_names.call(*heads.values()), want)
    near(heads["state"], after)


# ---- selective_scan -----------------------------------------------------------------------------


def sequence(
    batch: int, channels: int, groups: int, length: int, width: int, dtype: Any
) -> Tensors:
    draw = torch.Generator().manual_seed(channels * width + length)

    def normal(*shape: int) -> Any:
        return torch.randn(shape, generator=draw)

    return {
        "u": normal(batch, channels, length).to(dtype),
        "delta": normal(batch, channels, length).to(dtype),
        "A": -normal(channels, width).exp(),
        "B": normal(batch, groups, width, length).to(dtype),
        "C": normal(batch, groups, width, length).to(dtype),
        "D": normal(channels),
        "initial_state": normal(batch, channels, width),
        "z": normal(batch, channels, length).to(dtype),
        "delta_bias": normal(channels) - 3,
    }


def at_step(s: Tensors, state: Any, t: int) -> Tensors:
    """One step of a sequence as a token: channels become heads of one channel."""
    made = {
        "state": state[:, :, None], "x": s["u"][..., t, None], "dt": s["delta"][..., t, None],
        "A": s["A"][:, None], "B": s["B"][..., t], "C": s["C"][..., t],
    }  # fmt: skip
    others = {"D": "D", "delta_bias": "dt_bias"}
    made |= {name: s[given][:, None] for given, name in others.items() if given in s}
    return made | ({"z": s["z"][..., t, None]} if "z" in s else {})


def scanned(s: Tensors, soft: bool) -> tuple[Any, Any]:
    batch, channels, length = s["u"].shape
    state = s.get("initial_state", torch.zeros(batch, channels, s["A"].shape[1])).double()
    y = torch.empty(batch, channels, length, dtype=torch.float64)
    for t in range(length):
        made, new = step(at_step(s, state, t), soft)
        y[..., t], state = made[..., 0], new[:, :, 0]
    return y, state


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("length", "width"), [(1, 16), (7, 1), (64, 16), (131, 5), (200, 64)])
def test_a_sequence_against_a_loop(length: int, width: int, dtype: str, level: str) -> None:
    every = (1, 1, 1), (2, 34, 1), (3, 6, 3)
    for batch, channels, groups in every if length < 100 else some(every, 1, f"{length} {dtype}"):
        s = sequence(batch, channels, groups, length, width, DTYPES[dtype])
        want, after = scanned(s, soft=True)
        with dlblas.pinned("selective_scan", level):
            y, state = dlblas.selective_scan(**s, delta_softplus=True)
        near(y, want)
        near(state, after)
        assert y.dtype == DTYPES[dtype] and state.dtype == torch.float32


@pytest.mark.parametrize("missing", ["D", "z", "delta_bias", "initial_state"])
def test_optional_arguments_of_a_scan(missing: str) -> None:
    s = sequence(2, 6, 2, 20, 8, torch.float32)
    del s[missing]
    s = s if missing != "delta_bias" else positive(s)
    want, after = scanned(s, soft=missing != "delta_bias")
    y, state = dlblas.selective_scan(**s, delta_softplus=missing != "delta_bias")
    near(y, want)
    near(state, after)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_step_of_a_scan_is_an_update(dtype: str, level: str) -> None:
    s = sequence(3, 12, 2, 1, 16, DTYPES[dtype])
    t = {name: x.contiguous() for name, x in at_step(s, s["initial_state"].clone(), 0).items()}
    with dlblas.pinned("selective_scan", level), dlblas.pinned("selective_state_update", level):
        y, state = dlblas.selective_scan(**s, delta_softplus=True)
        one = dlblas.selective_state_update(**t, dt_softplus=True)
    assert torch.equal(y[..., 0], one[..., 0])
    assert torch.equal(state, t["state"][:, :, 0])


def test_a_sequence_in_two_parts_is_the_whole() -> None:
    s = sequence(2, 6, 2, 90, 16, torch.float32)
    whole, last = dlblas.selective_scan(**s, delta_softplus=True)
    parts, state = [], s["initial_state"]
    for begin, end in ((0, 37), (37, 90)):
        cut = {
            n: x[..., begin:end] if n in ("u", "delta", "B", "C", "z") else x for n, x in s.items()
        }
        made, state = dlblas.selective_scan(**{**cut, "initial_state": state}, delta_softplus=True)
        parts.append(made)
    torch.testing.assert_close(torch.cat(parts, -1), whole, rtol=0, atol=0)
    torch.testing.assert_close(state, last, rtol=0, atol=0)


def test_views_of_a_scan() -> None:
    """u, delta and z are [batch, L, channels] in memory, B and C [batch, L, groups, N]; no copy."""
    s = positive(sequence(2, 6, 2, 50, 16, torch.float32))
    turned = {
        n: x.transpose(-1, -2).contiguous().transpose(-1, -2) if n in ("u", "delta", "z")
        else x.permute(0, 3, 1, 2).contiguous().permute(0, 2, 3, 1) if n in ("B", "C")
        else x
        for n, x in s.items()
    }  # fmt: skip
    turned["A"] = s["A"][:, :1].expand(6, 16)
    s["A"] = turned["A"].contiguous()
    for got, want in zip(dlblas.selective_scan(**turned), dlblas.selective_scan(**s), strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("shape", [(0, 4, 2, 8, 16), (2, 4, 2, 0, 16), (2, 4, 2, 8, 0)])
def test_empty_scans(shape: tuple[int, ...]) -> None:
    s = positive(sequence(*shape, torch.float32))
    y, state = dlblas.selective_scan(**s)
    assert y.shape == s["u"].shape
    if shape[3] == 0:
        assert torch.equal(state, s["initial_state"])
    if shape[4] == 0:
        near(y, scanned(s, soft=False)[0])


def test_mamba_ssm_names_of_a_scan() -> None:
    s = sequence(2, 6, 1, 33, 16, torch.bfloat16)
    del s["initial_state"]
    want, after = scanned(s, soft=True)
    u, delta, a, b, c, d, z, bias = s.values()
    y, state = scan_names.selective_scan_fn(
        u, delta, a, b[:, 0], c[:, 0], d, z, bias, delta_softplus=True, return_last_state=True
    )
    near(y, want)
    near(state, after)
    alone = scan_names.selective_scan(u, delta, a, b, c, d, z, bias, True)
    assert torch.equal(alone, y)


@pytest.mark.parametrize("other", ["dim", "one", "groups"])
def test_a_scan_whose_b_or_c_is_the_same_at_all_times(other: str) -> None:
    """mamba_ssm's B or C of [dim, dstate], beside an operand of each shape."""
    s = sequence(2, 6, 3, 33, 16, torch.float32)
    del s["initial_state"]
    u, delta, a, _b, c, d, z, bias = s.values()
    dim, length = u.shape[1:]
    fixed = torch.randn(dim, 16)
    varying = {"dim": fixed, "one": c[:, 0], "groups": c}[other]
    whole = fixed[None, :, :, None].expand(2, dim, 16, length)
    wide = whole if other == "dim" else (c[:, :1] if other == "one" else c)
    s["B"], s["C"] = whole, wide.repeat_interleave(dim // wide.shape[1], 1)
    want, after = scanned(s, soft=True)
    y, state = scan_names.selective_scan(u, delta, a, fixed, varying, d, z, bias, True, True)
    near(y, want)
    near(state, after)
    s["B"], s["C"] = s["C"], s["B"]
    want, _ = scanned(s, soft=True)
    near(scan_names.selective_scan(u, delta, a, varying, fixed, d, z, bias, True), want)
