"""Functions composed of operators, given invalid inputs: a typed error names the function's own
argument, whichever line detects it.

Read next: python/dlblas/_made_of.py (told), ops/<family>/api.py (CALLED).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402
import dlblas.nn  # noqa: E402
import numpy as np  # noqa: E402
from dlblas import _faces, _made_of  # noqa: E402
from dlblas._functions import FUNCTIONS  # noqa: E402
from dlblas.errors import (  # noqa: E402
    ArgumentError,
    ArgumentTypeError,
    ShapeMismatchError,
    renamed,
)
from dlblas.kernels import ffn  # noqa: E402
from dlblas.kernels.fp8_gemm import fp8_gemm as block_gemm  # noqa: E402

NAMES = [name for name in _faces.__all__ if callable(getattr(dlblas, name))]
WRONG = {
    "none": None,
    "sparse": torch.eye(4).to_sparse(),
    "without_dimensions": torch.tensor(1.0),
    "number_of_numpy": np.float32(1),
    "word": "word",
}


def usual(parameter: inspect.Parameter) -> Any:
    return {"Any": torch.ones(4, 4), "str": "token"}.get(str(parameter.annotation), 1)


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("name", NAMES)
def test_each_required_argument_is_named(name: str, kind: str) -> None:
    function = getattr(dlblas, name)
    needed = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    for wrong in needed:
        given = {p.name: usual(p) for p in needed} | {wrong.name: WRONG[kind]}
        try:
            function(**given)
        except dlblas.Error as error:
            assert error.argument and "; expected " in str(error), error


t, F8, E5M2 = torch.ones, torch.float8_e4m3fn, torch.float8_e5m2
slots = torch.zeros(2, dtype=torch.long)
turns = (t(2, 1, 8), t(2, 1, 8), torch.zeros(3, 2, dtype=torch.long), t(4, 8))
heads = (t(2, 5, 3, 16, requires_grad=True), t(2, 5, 1, 8))

CALLS: dict[str, tuple[Callable[[], Any], type, str, str]] = {
    "class weights": (
        lambda: dlblas.cross_entropy(t(2, 5), slots, t(4)),
        ShapeMismatchError, "weight", "cross_entropy: weight has length 4; expected C = 5",
    ),
    "class weights' dtype": (
        lambda: dlblas.cross_entropy(t(2, 5), slots, t(5).half()),
        dlblas.errors.UnsupportedDtypeError, "weight", "cross_entropy: weight has dtype f16",
    ),
    "positions": (
        lambda: dlblas.mrope(*turns[:2], torch.full((3, 2), 99), turns[3], (2, 1, 1)),
        ArgumentError, "positions", "mrope: positions is out of bounds at element 0",
    ),
    "no sections": (
        lambda: dlblas.mrope(*turns, None),
        ArgumentTypeError, "sections", "expected a tuple of integers, got None",
    ),
    "a word in sections": (
        lambda: dlblas.mrope(*turns, ("a", 1, 2)),
        ArgumentTypeError, "sections", "expected a tuple of integers",
    ),
    "a group size": (
        lambda: dlblas.layernorm_gated(t(2, 4), t(4), group_size="a"),
        ArgumentTypeError, "group_size", "expected an integer, got str",
    ),
    "groups": (
        lambda: dlblas.group_norm(t(2, 4, 3), 0),
        ArgumentError, "groups", "expected 1 or more, got 0",
    ),
    "a scale that is a list": (
        lambda: dlblas.dequantize(t(2, 4).to(torch.int8), [2.0]),
        ArgumentTypeError, "scale", "scale is no array; .* got list",
    ),
    "no scale": (
        lambda: dlblas.dequantize(t(2, 4).to(torch.int8), None),
        ArgumentTypeError, "scale", "scale is no array; .* got None",
    ),
    "an up weight's dtype": (
        lambda: dlblas.fused_gated_mlp(t(2, 8), t(4, 8), t(4, 8).double()),
        dlblas.errors.UnsupportedDtypeError, "up_weight",
        r"^fused_gated_mlp: up_weight has dtype f64; expected f32 \(like x\)",
    ),
    "a gate weight's columns": (
        lambda: dlblas.fused_gated_mlp(t(2, 8), t(4, 7), t(4, 8)),
        ShapeMismatchError, "gate_weight", r"^fused_gated_mlp: gate_weight has size 7 .* from x",
    ),
    "w_up, which is activated": (
        lambda: dlblas.gated_mlp(t(2, 8), t(4, 8), t(4, 8).half(), activate="up"),
        dlblas.errors.UnsupportedDtypeError, "w_up", r"^gated_mlp: w_up .* w_up\.to\(x\.dtype\)",
    ),
    "w_gate, beside it": (
        lambda: dlblas.gated_mlp(t(2, 8), t(4, 8).half(), t(4, 8), activate="up"),
        dlblas.errors.UnsupportedDtypeError, "w_gate", "^gated_mlp: w_gate has dtype f16",
    ),
    "w_down's dtype": (
        lambda: dlblas.gated_mlp(t(2, 8), t(4, 8), t(4, 8), w_down=t(3, 4).half()),
        dlblas.errors.UnsupportedDtypeError, "w_down",
        r"^gated_mlp: w_down .* \(like x\).* w_down\.to\(x\.dtype\)",
    ),
    "w_down's columns": (
        lambda: dlblas.gated_mlp(t(2, 8), t(4, 8), t(4, 8), w_down=t(3, 5)),
        ShapeMismatchError, "w_down", r"w_down does not fit w_gate .* expected \[N, 4\]",
    ),
    "a vector for w_down": (
        lambda: dlblas.gated_mlp(t(2, 8), t(4, 8), t(4, 8), w_down=t(4)),
        ShapeMismatchError, "w_down", r"expected \[N, 4\], got \(4,\)",
    ),
    "a norm's weight": (
        lambda: dlblas.rms_norm_linear(t(2, 8), t(7), t(12, 8), rope=(t(2, 4), t(2, 4), 1, 1)),
        ShapeMismatchError, "rms_w", "^rms_norm_linear: rms_w has length 7",
    ),
    "a rotation's sines": (
        lambda: dlblas.rms_norm_linear(
            t(2, 8), t(8), t(12, 8), rope=(t(2, 4), t(2, 4).half(), 1, 1)
        ),
        dlblas.errors.UnsupportedDtypeError, "rope[1]", r"^rms_norm_linear: rope\[1\] has dtype",
    ),
    "a layer's weight": (
        lambda: dlblas.linear(t(2, 8), t(4, 8).half()),
        dlblas.errors.UnsupportedDtypeError, "weight",
        r"^linear: weight .* \(like x\).* weight\.to\(x\.dtype\)",
    ),
    "a layer's x": (
        lambda: dlblas.linear(t(2, 8, requires_grad=True), t(4, 8), out=t(2, 4)),
        ArgumentError, "x", "^linear: x requires grad",
    ),
    "a layer's bias": (
        lambda: dlblas.linear(t(2, 8), t(4, 8), t(5)),
        ShapeMismatchError, "bias", r"^linear: bias has length 5; expected N = 4 from weight \[",
    ),
    "integers to quantise": (
        lambda: dlblas.fp8_gemm(t(2, 8), t(8, 4).int()),
        dlblas.errors.UnsupportedDtypeError, "b", "^fp8_gemm: b has dtype i32",
    ),
    "what has a gradient to quantise": (
        lambda: dlblas.fp8_gemm(t(2, 8, requires_grad=True), t(8, 4)),
        ArgumentError, "a", "^fp8_gemm: a requires grad",
    ),
    "a scale to quantise by": (
        lambda: dlblas.fp8_gemm(t(2, 8), t(8, 4), b_scale=t(1).double()),
        dlblas.errors.UnsupportedDtypeError, "b_scale", "^fp8_gemm: b_scale has dtype f64",
    ),
    "a product's dtype": (
        lambda: dlblas.fp8_gemm(t(2, 8), t(8, 4), output_dtype=torch.float64),
        ArgumentError, "output_dtype", "^fp8_gemm: output_dtype has a wrong value",
    ),
    "scales of SGLang's name": (
        lambda: dlblas.int8_scaled_mm(t(2, 8).to(torch.int8), t(8, 4).to(torch.int8), t(3), 1.0),
        ShapeMismatchError, "scales_a", "^int8_scaled_mm: scales_a has other leading dimensions",
    ),
    "groups' matrices": (
        lambda: dlblas.grouped_gemm(t(3, 8), t(2, 4, 7), torch.tensor([0, 1, 3])),
        ShapeMismatchError, "b", r"^grouped_gemm: b has size 7 .* from a \[M=3, K=8\]",
    ),
    "groups' scales": (
        lambda: dlblas.grouped_gemm(
            t(3, 8).to(F8), t(2, 4, 8).to(F8), torch.tensor([0, 1, 3]),
            a_scale=t(3, 1), b_scale=t(2, 2, 1),
        ),
        ShapeMismatchError, "b_scale", r"^grouped_gemm: b_scale has size 2 .* from b \[E=2",
    ),
    "a head's dtype": (
        lambda: dlblas.fused_linear_cross_entropy(t(2, 8), t(4, 8).half(), slots),
        dlblas.errors.UnsupportedDtypeError, "weight", r"^fused_linear_.*: weight .* \(like x\)",
    ),
    "a head's columns": (
        lambda: dlblas.fused_linear_cross_entropy(t(2, 8), t(4, 7), slots),
        ShapeMismatchError, "weight", r"weight does not fit x \(2, 8\); expected \[V, 8\]",
    ),
    "weights of a head's classes": (
        lambda: dlblas.fused_linear_cross_entropy(t(2, 8), t(4, 8), slots, ce_weight=t(5)),
        ShapeMismatchError, "ce_weight", "^fused_linear_cross_entropy: ce_weight has length 5",
    ),
    "an f8 layer's x": (
        lambda: dlblas.nn.FP8Linear(8, 4)(t(2, 7)),
        ShapeMismatchError, "x", r"^FP8Linear: x has another width; expected \[…, 8\]",
    ),
    "DLBlas's third weight": (
        lambda: ffn.call(t(2, 8).half(), t(4, 8).half(), t(3, 8).half(), t(8).half()),
        ShapeMismatchError, "w3", r"^ffn\.call: w3 has size 3 .* from w1 \[F=4, K=8\]",
    ),
    "codes beside floats": (
        lambda: ffn.call(t(2, 8).half(), t(4, 8).to(E5M2), t(4, 8).half(), t(8).half()),
        dlblas.errors.UnsupportedDtypeError, "w1",
        "^ffn.call: w1 .* expected torch.float16, as x is, or .* of all of w1, w3 and rms_w, got",
    ),
    "DLBlas's scales": (
        lambda: block_gemm(t(3, 8).to(F8), t(4, 8).to(F8), t(3, 2), t(1, 1)),
        ShapeMismatchError, "a_s", "^fp8_gemm: a_s has size 2 in dimension 1",
    ),
    "seeds": (
        lambda: dlblas.sample(t(3, 8), seed=torch.ones(2, dtype=torch.long)),
        ShapeMismatchError, "seed", "^sample: seed has other leading dimensions",
    ),
    "probabilities": (
        lambda: dlblas.top_k_renorm(t(3, 8).int(), 2),
        dlblas.errors.UnsupportedDtypeError, "probs", "^top_k_renorm: probs has dtype i32",
    ),
    "tables of a width that no head has": (
        lambda: dlblas.rope_tables(4, 2**70),
        ArgumentError, "dim", "an even number from 0 to 65536",
    ),
    "tables without an end": (
        lambda: dlblas.rope_tables(2**40, 64),
        ArgumentError, "end_or_positions", "0 to 2147483647",
    ),
    "complex positions": (
        lambda: dlblas.rope_tables(torch.ones(3, dtype=torch.complex64), 8),
        ArgumentError, "end_or_positions", "real positions",
    ),
    "a word for a scaling": (
        lambda: dlblas.rope_tables(4, 16, scaling="linear"),
        ArgumentTypeError, "scaling", "expected a mapping, got str",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", CALLS)
def test_the_argument_that_is_wrong_is_named(what: str) -> None:
    call, kind, argument, words = CALLS[what]
    with pytest.raises(kind, match=words) as refused:
        call()
    assert refused.value.argument == argument  # type: ignore[attr-defined]


def test_names_are_exchanged_wherever_a_text_has_them() -> None:
    """A one-letter argument may also be a word of the text; two names may be exchanged."""
    names = {"a": "x", "b": "weight", "w_gate": "w_up", "w_up": "w_gate"}
    text = "op: a has dtype f16; expected a multiple of b [K=8], or (like a); cast b.to(a.dtype)"
    error = ArgumentError.from_library(text, "op", "a", "one (like a)", "f16")
    again = renamed(error, "call", "x", names)
    assert str(again) == (
        "call: x has dtype f16; expected a multiple of weight [K=8], or (like x); "
        "cast weight.to(x.dtype)"
    )
    assert (again.op, again.argument, again.expected) == ("call", "x", "one (like x)")
    error = ArgumentError.from_library("op: w_up is not like w_gate [F=3]", "op", "w_up")
    assert str(renamed(error, "f", "w_gate", names)) == "f: w_gate is not like w_up [F=3]"


def test_it_says_once_which_function_calls() -> None:
    with pytest.raises(ShapeMismatchError) as refused:
        dlblas.partial_rotary_emb(*heads, t(2, 5, 2, 16), t(5, 8), t(5, 8))
    assert str(refused.value).count("called by partial_rotary_emb") == 1


# Tensors of an operator that the function computes or leaves out, so no caller can get them wrong;
# and those that it renames itself, because two of its arguments become one.
MADE = {
    "bmm_fp8": {"bias"},
    "flash_attention_v2": {"bias", "q_descale", "k_descale", "v_descale"},
    "fp8_gemm": {"bias", "x", "scale"},
    "fused_linear_cross_entropy": {"logits", "lse", "dloss", "dlse"},
    "fused_moe": {"a", "weight", "offsets", "rows", "inverse", "scale", "a_scale", "weight_scale"},
    "gated_mlp": {"bias"},
    "partial_rotary_emb": {"dk_out", "dk_pe", "dq_out", "dv_out"},
    "quantize_mx": {"x"},
    "rms_norm_linear": {"bias", "q", "k"},
    "top_k_mask_logits": {"top_p", "min_p"},
    "top_k_renorm": {"top_p", "min_p"},
    "top_p_renorm": {"top_k", "min_p"},
}


@pytest.mark.parametrize("name", NAMES)
def test_an_operators_argument_has_a_name_of_the_functions(name: str) -> None:
    function = inspect.unwrap(getattr(dlblas, name))
    own = {*inspect.signature(function).parameters} | MADE.get(name, set())
    own |= {*function.__globals__.get("CALLED", {}).get(name, {})} | {"indptr"}
    for operator in _made_of.operators_of(function):
        params = FUNCTIONS[operator].params
        unknown = {p.name for p in params if p.kind == "tensor"} - own
        assert not unknown, f"{operator}: {unknown}"


def test_codes_that_are_not_named_are_those_of_the_operator() -> None:
    for layout in ("row", "column_major_tma"):
        q, _ = dlblas.quantize(t(4, 64), "token", None, scale_layout=layout)
        assert q.dtype is torch.float8_e4m3fn
