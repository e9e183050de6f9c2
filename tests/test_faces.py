"""Functions that are made of operators, given what is no input of theirs: a typed error that names
their own argument, whichever line finds out.

Read next: python/dlblas/_made_of.py (told), ops/<family>/api.py (CALLED).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402
import numpy as np  # noqa: E402
from dlblas import _faces, _made_of  # noqa: E402
from dlblas._functions import FUNCTIONS  # noqa: E402
from dlblas.errors import ArgumentError, ArgumentTypeError, ShapeMismatchError  # noqa: E402

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


t = torch.ones
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
    "a scale that is a number": (
        lambda: dlblas.dequantize(t(2, 4).to(torch.int8), 2.0),
        ArgumentTypeError, "scale", "scale is no array; .* got float",
    ),
    "no scale": (
        lambda: dlblas.dequantize(t(2, 4).to(torch.int8), None),
        ArgumentTypeError, "scale", "scale is no array; .* got None",
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


def test_it_says_once_which_function_calls() -> None:
    with pytest.raises(ShapeMismatchError) as refused:
        dlblas.partial_rotary_emb(*heads, t(2, 5, 2, 16), t(5, 8), t(5, 8))
    assert str(refused.value).count("partial_rotary_emb calls it") == 1


# Tensors of an operator that a function makes: nothing that a caller could have got wrong.
MADE = {
    "fused_moe": {"a", "weight", "offsets", "rows", "inverse"},
    "quantize_mx": {"x"},
    "partial_rotary_emb": {"dk_out", "dk_pe", "dq_out", "dv_out"},
}
FAMILIES = ("norm", "rope", "quant", "moe", "kv_cache", "loss")


@pytest.mark.parametrize("name", NAMES)
def test_an_operators_argument_has_a_name_of_the_functions(name: str) -> None:
    function = inspect.unwrap(getattr(dlblas, name))
    if function.__module__.rpartition(".")[2] not in FAMILIES:
        return
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
