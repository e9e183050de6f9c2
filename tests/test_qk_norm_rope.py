"""qk_norm_rope and fused_rotary_emb on torch tensors as serving code passes them: slices of a fused
projection, in place, partial rotations; and the tables of rope_tables.

Shapes, layouts and special values are in ops/rope/*/cases.json; this file tests what they cannot.
Read next: ops/rope/normed_heads_ref.hpp.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402
import dlblas.torch  # noqa: E402
from dlblas import errors  # noqa: E402
from dlblas.kernels.apply_rotary_pos_emb import apply_rotary_pos_emb  # noqa: E402
from dlblas.kernels.fused_rotary_emb import fused_rotary_emb  # noqa: E402
from levels import LEVELS  # noqa: E402

STYLES = ("neox", "interleaved", "interleaved_to_half")
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def turned(x: Any, cos: Any, sin: Any, style: str) -> Any:
    """The formula in f64; cos and sin are [T, 1, pairs]."""
    pairs = cos.shape[-1]
    apart = slice(0, pairs), slice(pairs, 2 * pairs)
    near = slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)
    low, high = apart if style == "neox" else near
    to_low, to_high = near if style == "interleaved" else apart
    y = x.clone()
    y[..., to_low] = x[..., low] * cos - x[..., high] * sin
    y[..., to_high] = x[..., high] * cos + x[..., low] * sin
    return y


def normed(x: Any, weight: Any, eps: float) -> Any:
    x = x.double()
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight.double()


def check(got: Any, want: Any) -> None:
    """A dozen f32 roundings of terms below 2·|x|, and one rounding to the dtype."""
    size = want.abs().amax(-1, keepdim=True) if want.numel() else want
    bound = torch.finfo(got.dtype).eps / 2 * want.abs() + 24 * 2.0**-24 * size + 1e-7
    assert ((got.double() - want).abs() <= bound).all()


def table_of(positions: int, rotary: int, dtype: Any = torch.float32) -> Any:
    return torch.cat(dlblas.rope_tables(positions, rotary), -1).to(dtype)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("d", "rotary"), [(64, 64), (80, 80), (128, 128), (256, 64), (66, 64),
                                           (128, 64), (72, 26)])  # fmt: skip
def test_slices_of_a_projection_in_place(
    d: int, rotary: int, dtype: str, style: str, level: str
) -> None:
    for tokens in (0, 1, 7, 31):
        whole = torch.randn(tokens, 8 * d).to(DTYPES[dtype])
        q, k, v = (x.unflatten(-1, (-1, d)) for x in whole.split([4 * d, 2 * d, 2 * d], -1))
        before, table = whole.clone(), table_of(40, rotary)
        weights = [torch.rand(d).to(DTYPES[dtype]) + 0.5 for _ in range(2)]
        positions = torch.randint(0, 40, (tokens,))
        cos, sin = table.double()[positions][:, None].chunk(2, -1)
        wants = [
            turned(normed(x, w, 1e-6), cos, sin, style)
            for x, w in zip((q, k), weights, strict=True)
        ]
        with dlblas.pinned("qk_norm_rope", level):
            q_out, k_out = dlblas.qk_norm_rope(q, k, *weights, positions, table, style=style)
            assert torch.equal(whole, before), "inputs were written"
            dlblas.qk_norm_rope_(q, k, *weights, positions, table, style=style)
        check(q, wants[0]), check(k, wants[1])
        assert torch.equal(q_out, q) and torch.equal(k_out, k)
        assert torch.equal(v.flatten(1), before[:, 6 * d :]), "v was written"


def test_a_negative_position_leaves_its_token_alone() -> None:
    q, k, weight = torch.randn(3, 2, 32), torch.randn(3, 1, 32), torch.ones(32)
    before, positions = q.clone(), torch.tensor([4, -1, 5])
    dlblas.qk_norm_rope_(q, k, weight, weight, positions, table_of(16, 32))
    assert torch.equal(q[1], before[1]) and not torch.equal(q[0], before[0])


def test_bad_input() -> None:
    q, k, weight = torch.randn(3, 2, 32), torch.randn(3, 1, 32), torch.ones(32)
    positions, table = torch.arange(3), table_of(16, 32)
    before = q.clone()
    with pytest.raises(errors.ShapeMismatchError, match="q_weight"):
        dlblas.qk_norm_rope_(q, k, torch.ones(31), weight, positions, table)
    with pytest.raises(errors.ShapeMismatchError, match="expected at least 64"):
        dlblas.qk_norm_rope_(q, k, weight, weight, positions, torch.ones(16, 64))
    with pytest.raises(errors.ArgumentError, match="scaling_factor"):
        dlblas.fused_rotary_emb_(q, k, positions, torch.ones(16), 0.0)
    assert torch.equal(q, before)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_fused_rotary_emb_by_its_old_name(dtype: str, level: str) -> None:
    q, k = (torch.randn(2, 5, heads, 64).to(DTYPES[dtype]) for heads in (4, 2))
    positions, frequencies = torch.arange(5)[None] + 100, 1e4 ** -(torch.arange(0, 64, 2) / 64)
    angles = (positions.double() / 2)[..., None, None] * frequencies.double()
    wants = [turned(x.double(), angles.cos(), angles.sin(), "neox") for x in (q, k)]

    def close(got: Any, want: Any) -> bool:
        """The angle is rounded three times: 50 · 3 · 2^-24."""
        return torch.allclose(got.double(), want, rtol=torch.finfo(got.dtype).eps, atol=1e-4)

    with dlblas.pinned("fused_rotary_emb", level):
        made = fused_rotary_emb(q, k, positions, frequencies, 2.0)
        outs = torch.empty_like(q), torch.empty_like(k)
        assert fused_rotary_emb(q, k, positions, frequencies, 2.0, *outs)[1] is outs[1]
        one = fused_rotary_emb(q, k, positions, frequencies, 2.0, out_k=torch.empty_like(k))
        fused_rotary_emb(q, k, positions, frequencies, 2.0, q, k)
    assert all(map(close, made, wants))
    for other in (outs, one, (q, k)):
        assert torch.equal(other[0], made[0]) and torch.equal(other[1], made[1])


@pytest.mark.parametrize("level", LEVELS)
def test_far_positions(level: str) -> None:
    """The angle is rounded once, by |angle| · 2^-24; no other error grows with it."""
    q, k = torch.randn(64, 2, 32), torch.randn(64, 1, 32)
    positions = torch.randint(0, 1 << 20, (64,))
    frequencies = 1e4 ** -(torch.arange(0, 32, 2) / 32)
    angles = (positions.double()[:, None] * frequencies.double())[:, None]
    with dlblas.pinned("fused_rotary_emb", level):
        made = dlblas.fused_rotary_emb(q, k, positions, frequencies)
    for x, got in zip((q, k), made, strict=True):
        off = (got.double() - turned(x.double(), angles.cos(), angles.sin(), "neox")).abs()
        size = x.double().abs()[..., :16] + x.double().abs()[..., 16:]
        bound = size * (angles + 8) * 2.0**-24
        assert (off <= torch.cat((bound, bound), -1)).all()
        assert off.max() > 1e-4, "positions are near"


def test_apply_rotary_pos_emb_by_its_old_name() -> None:
    q, k = torch.randn(2, 5, 4, 64), torch.randn(2, 5, 2, 64)
    cos, sin = (torch.cat((half, half), -1) for half in dlblas.rope_tables(5, 64))
    made = apply_rotary_pos_emb(q, k, cos, sin)
    want = turned(q.double(), *(t.double()[:, None, :32] for t in (cos, sin)), "neox")
    check(made[0], want)
    one = apply_rotary_pos_emb(q[0], k[0], cos[:, None], sin[:, None])
    assert torch.equal(one[0], made[0][0])
    assert apply_rotary_pos_emb(q, k, cos, sin, q, k)[0] is q
    assert torch.equal(q, made[0]) and torch.equal(k, made[1])
    with pytest.raises(errors.ShapeMismatchError, match="apply_rotary_pos_emb: cos"):
        apply_rotary_pos_emb(q, k, cos[:3], sin)


def test_rope_tables() -> None:
    cos, sin = dlblas.rope_tables(100_000, 128, 5e5)
    assert cos.dtype == torch.float32 and cos.shape == (100_000, 64)
    for t, i in ((0, 0), (1, 63), (99_999, 0), (99_999, 17)):
        angle = t * 5e5 ** (-2 * i / 128)
        assert abs(cos[t, i].item() - math.cos(angle)) < 6e-8
        assert abs(sin[t, i].item() - math.sin(angle)) < 6e-8
    at = torch.tensor([7, 99_999, 7], dtype=torch.int32)
    assert torch.equal(dlblas.rope_tables(at, 128, 5e5)[0], cos[at.long()])
    assert dlblas.rope_tables(0, 128)[0].shape == (0, 64)


def frequencies(dim: int, theta: float, scaling: dict[str, Any]) -> Any:
    """At position 1, the angles are the frequencies, up to π."""
    cos, sin = dlblas.rope_tables(torch.tensor([1]), dim, theta, scaling)
    return torch.atan2(sin[0].double(), cos[0].double())


def test_scaled_tables() -> None:
    plain = frequencies(64, 1e4, {"rope_type": "linear", "factor": 1.0})
    torch.testing.assert_close(
        frequencies(64, 1e4, {"type": "linear", "factor": 4.0}), plain / 4, rtol=1e-6, atol=0
    )
    llama = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
             "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}  # fmt: skip
    got, waves = frequencies(64, 1e4, llama), 2 * math.pi / plain
    short, long = waves < 8192 / 4, waves > 8192
    assert short.any() and long.any() and not (short | long).all()
    torch.testing.assert_close(got[short], plain[short], rtol=1e-6, atol=0)
    torch.testing.assert_close(got[long], plain[long] / 8, rtol=1e-6, atol=0)
    smooth = (8192 / waves - 1) / 3
    blend = (1 - smooth) * plain / 8 + smooth * plain
    torch.testing.assert_close(got[~short & ~long], blend[~short & ~long], rtol=1e-6, atol=0)
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}
    got = frequencies(64, 1e4, yarn)
    torch.testing.assert_close(got[:10], plain[:10], rtol=1e-6, atol=0)
    torch.testing.assert_close(got[-8:], plain[-8:] / 4, rtol=1e-6, atol=0)
    assert (got <= plain * (1 + 1e-6)).all() and (got >= plain / 4 * (1 - 1e-6)).all()
    length = torch.hypot(*dlblas.rope_tables(3, 64, 1e4, yarn))
    torch.testing.assert_close(length, torch.full_like(length, 0.1 * math.log(4) + 1))


@pytest.mark.parametrize(("arguments", "name"), [
    ((4, 63), "dim"), ((-1, 64), "end_or_positions"), ((4, 64, 0.0), "theta"),
    ((4, 64, 1e4, {"rope_type": "dynamic"}), "scaling"),
    ((4, 64, 1e4, {"rope_type": "linear"}), "scaling"),
    ((4, 64, 1e4, {"rope_type": "llama3", "factor": 8.0}), "scaling"),
    (([0, 1], 64), "end_or_positions"), ((1.5, 64), "end_or_positions"),
])  # fmt: skip
def test_tables_refused(arguments: Any, name: str) -> None:
    with pytest.raises(errors.ArgumentError, match=f"rope_tables: {name}"):
        dlblas.rope_tables(*arguments)


YARN = {"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096}
OF_MODELS = {
    "deepseek_v3": YARN | {"beta_fast": 32, "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0},
    "deepseek_v2_lite": YARN | {"mscale": 0.707, "mscale_all_dim": 0.707},
    "gpt_oss": YARN | {"factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False},
    "unequal": YARN | {"mscale": 1.0, "mscale_all_dim": 0.5},
    "one_alone": YARN | {"mscale": 0.707},
    "of_all_alone": YARN | {"mscale_all_dim": 0.707},
    "zero": YARN | {"mscale": 1.0, "mscale_all_dim": 0.0},
    "attention_factor": YARN | {"attention_factor": 1.25, "mscale": 1.0, "mscale_all_dim": 1.0},
    "whole": YARN | {"truncate": True},
    "qwen": YARN | {"factor": 4.0, "original_max_position_embeddings": 32768},
}


def yarn(dim: int, theta: float, scaling: dict[str, Any]) -> tuple[Any, float]:
    """An independent YaRN, in torch and f64: the frequencies, and the factor of both tables."""
    plain = theta ** -(torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    factor, seen = scaling["factor"], scaling["original_max_position_embeddings"]
    pairs = [
        dim * math.log(seen / (turns * 2 * math.pi)) / (2 * math.log(theta))
        for turns in (scaling.get("beta_fast", 32), scaling.get("beta_slow", 1))
    ]
    if scaling.get("truncate", True):
        pairs = [math.floor(pairs[0]), math.ceil(pairs[1])]
    first, last = max(pairs[0], 0), min(pairs[1], dim - 1)
    divided = ((torch.arange(dim // 2) - first) / (last - first)).clamp(0, 1)
    m = [0.1 * scaling.get(name, 0) * math.log(factor) + 1 for name in ("mscale", "mscale_all_dim")]
    given = scaling.get("mscale") and scaling.get("mscale_all_dim")
    made = m[0] / m[1] if given else 0.1 * math.log(factor) + 1
    return plain * (1 - divided) + plain / factor * divided, scaling.get("attention_factor", made)


@pytest.mark.parametrize("name", OF_MODELS)
def test_yarn_as_models_have_it(name: str) -> None:
    scaling = OF_MODELS[name]
    for dim, theta in ((64, 1e4), (128, 150000.0)):
        turns, factor = yarn(dim, theta, scaling)
        angles = torch.arange(50, dtype=torch.float64)[:, None] * turns
        made = dlblas.rope_tables(50, dim, theta, scaling | {"rope_theta": theta})
        for got, want in zip(made, (angles.cos(), angles.sin()), strict=True):
            assert (got.double() - want * factor).abs().max() <= 2.0**-23 * factor
    if name in ("deepseek_v3", "deepseek_v2_lite"):
        assert made[0].max() == 1


@pytest.mark.parametrize("name", OF_MODELS)
def test_yarn_is_that_of_transformers(name: str) -> None:
    transformers = pytest.importorskip("transformers")
    utils = pytest.importorskip("transformers.modeling_rope_utils")
    config = transformers.LlamaConfig(
        hidden_size=256, num_attention_heads=4, head_dim=64, max_position_embeddings=163840,
        rope_parameters=OF_MODELS[name] | {"rope_theta": 1e4},
    )  # fmt: skip
    turns, factor = utils.ROPE_INIT_FUNCTIONS["yarn"](config, "cpu")
    at = torch.tensor([1])
    for got, of in zip(dlblas.rope_tables(at, 64, 1e4, OF_MODELS[name]), (torch.cos, torch.sin),
                       strict=True):  # fmt: skip
        torch.testing.assert_close(got[0], of(turns) * factor, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("more", "words"), [
    ({"finetuned": True}, r"keys of yarn: .*mscale_all_dim, truncate, got 'finetuned'"),
    ({"low_freq_factor": 1.0}, r"keys of yarn: .* got 'low_freq_factor'"),
    ({"truncate": "no"}, "a truncate of True or False, got 'no'"),
    ({"mscale": "1"}, "a positive mscale, got '1'"), ({"mscale": -1.0}, "a positive mscale, got"),
    ({"attention_factor": 0.0}, r"a positive attention_factor, got 0\.0"),
    ({"rope_theta": 1e6}, r"a rope_theta of theta, 10000\.0, got 1000000\.0"),
    ({"type": "linear", "rope_type": "linear"}, "keys of linear: rope_type, type, rope_theta, fac"),
])  # fmt: skip
def test_what_a_scaling_does_not_say(more: dict[str, Any], words: str) -> None:
    """Silently ignoring a key would change a model."""
    with pytest.raises(errors.ArgumentError, match=f"rope_tables: scaling .* expected {words}"):
        dlblas.rope_tables(4, 64, 1e4, YARN | more)
    assert dlblas.rope_tables(np.int64(4), 64, 1e4, YARN | {"finetuned": None})[0].shape == (4, 32)
