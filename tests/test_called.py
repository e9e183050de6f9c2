"""explain, get_op, tune and warmup take the forms that a call takes, and explain the functions made
of operators: they show what the call runs.

Read next: python/dlblas/_called.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dlblas
import numpy as np
import pytest
from dlblas import Spec, errors

torch = pytest.importorskip("torch")

R = torch.randn
X, W = R(4, 6), R(6)
Q, K, TABLE = R(2, 3, 4, 8), R(2, 3, 2, 8), R(3, 8)
AT = torch.zeros(2, 3, dtype=torch.long)

# Operator, positional and named arguments, and the operator that the call runs.
FORMS: dict[str, tuple[str, tuple[Any, ...], dict[str, Any], str]] = {
    "dim": ("softmax", (X,), {"dim": 0}, "softmax"),
    "last dim": ("softmax", (X,), {"dim": -1}, "softmax"),
    "dim in place": ("log_softmax", (X, 0), {}, "log_softmax"),
    "dim in NumPy": ("l2_norm", (X.numpy(),), {"dim": 0}, "l2_norm"),
    "no residual": ("add_rms_norm", (X, W), {}, "rms_norm"),
    "hidden_states": ("rms_norm", (), {"hidden_states": X, "weight": W}, "rms_norm"),
    "batches": ("matmul", (R(2, 4, 6), R(2, 6, 8)), {}, "batched_matmul"),
    "several strides": ("matmul", (R(3, 5, 6).transpose(0, 1), R(6, 8)), {}, "batched_matmul"),
    "rows of a layer": (
        "gated_linear", (R(3, 5, 6).transpose(0, 1), R(8, 6), R(8, 6)), {}, "gated_linear",
    ),
    "rotary_dim": (
        "rope", (Q[0], K[0], AT[0], R(9, 8)), {"rotary_dim": 8}, "rope",
    ),
    "leading": ("rope", (Q, K, AT, R(9, 8)), {}, "rope"),
    "tables": ("apply_rotary_pos_emb", (Q, K, TABLE, TABLE), {}, "apply_rotary_pos_emb"),
    "experts": (
        "moe_permute", (R(2, 3, 8), torch.zeros(2, 3, 2, dtype=torch.int32), 4), {}, "moe_permute",
    ),
}  # fmt: skip


@pytest.mark.parametrize("device", [None, "sm_90a"])
@pytest.mark.parametrize("name", FORMS)
def test_forms_are_explained(name: str, device: str | None) -> None:
    op, args, named, runs = FORMS[name]
    told = dlblas.explain(op, *args, device=device, **named).as_dict()
    assert told["op"] == runs and told["implementation"]
    assert device is None or told["implementation"].startswith(("cu", "wgmma", "cublas"))


@pytest.mark.parametrize("name", FORMS)
def test_the_explained_key_is_the_one_that_runs(name: str) -> None:
    op, args, named, runs = FORMS[name]
    with dlblas.autotune(seconds=0) as session:
        getattr(dlblas, op)(*args, **named)
    missed = next(one for one in session.missed if one.op == runs)
    told = dlblas.explain(op, *args, **named).as_dict()
    assert missed.problem.split(";")[0] == told["problem"].split(";")[0]
    dlblas.warmup(op, *args, **named)


@pytest.mark.parametrize("name", ["dim", "no residual", "batches", "tables"])
def test_forms_are_searched(name: str) -> None:
    op, args, named, runs = FORMS[name]
    found = dlblas.get_op(op, args, kwargs=named, seconds=0.1, worker=False, progress=False)
    assert found.report["op"] == runs and found.explain().as_dict()["source"] == "store"
    made, wanted = (call(*args, **named) for call in (found, getattr(dlblas, op)))
    torch.testing.assert_close(made, wanted)
    again = dlblas.tune(op, args, kwargs=named, seconds=0.1, worker=False, progress=False)
    assert again["op"] == runs


def test_what_no_form_takes_keeps_its_words() -> None:
    for call in (dlblas.explain, dlblas.warmup):
        with pytest.raises(errors.ArgumentError, match=r"dim is out of range; expected -2 to 1"):
            call("softmax", X, dim=7)
        with pytest.raises(errors.ArgumentError, match="did you mean dim"):
            call("softmax", X, dam=0)
        with pytest.raises(errors.ShapeMismatchError, match="linear: weight does not fit x"):
            call("linear", X, R(8, 7))
        with pytest.raises(errors.ShapeMismatchError, match="rotary_dim is not the width"):
            call("rope", Q[0], K[0], AT[0], R(9, 8), rotary_dim=4)
    with pytest.raises(errors.ArgumentError, match="dim is out of range"):
        dlblas.get_op("softmax", (X,), kwargs={"dim": 7}, seconds=0.1)


WHOLE: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "linear": (lambda run: run("linear", X, R(8, 6)), ["matmul"]),
    "linear residual": (
        lambda run: run("linear", X, R(8, 6), residual=R(4, 8)), ["linear_residual"],
    ),
    "flash_attention": (
        lambda run: run("flash_attention", Q, K, K, causal=True), ["flash_attention_lse"],
    ),
    "quantize": (lambda run: run("quantize", X, "token"), ["quantize_token"]),
    "group_norm": (lambda run: run("group_norm", R(2, 8, 4, 4), 2), ["group_norm_rows"]),
    "fp8_gemm": (
        lambda run: run("fp8_gemm", X, R(6, 8)),
        ["quantize_tensor", "quantize_tensor", "scaled_mm_channel"],
    ),
    "fused_moe": (
        lambda run: run(
            "fused_moe", R(6, 32), R(3, 16, 32), R(3, 32, 8), torch.ones(6, 2),
            torch.zeros(6, 2, dtype=torch.int32),
        ),
        ["moe_sort", "grouped_gemm_gathered", "silu_and_mul", "grouped_gemm_rows", "moe_unpermute"],
    ),
    "Specs": (
        lambda run: run("linear", Spec((4, 6), "bf16"), Spec((8, 6), "bf16")), ["matmul"],
    ),
    "NumPy": (
        lambda run: run("linear", np.ones((4, 6), "f"), np.ones((8, 6), "f")), ["matmul"],
    ),
    "tables": (
        lambda run: run("rms_norm_linear", R(3, 16), R(16), R(24, 16),
                        rope=(TABLE, TABLE, 1, 1)),
        ["rms_norm", "linear_rope"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("device", [None, "sm_90a"])
@pytest.mark.parametrize("name", WHOLE)
def test_functions_made_of_operators_are_explained(name: str, device: str | None) -> None:
    call, runs = WHOLE[name]
    made = call(lambda *args, **named: dlblas.explain(*args, device=device, **named))
    told = made.as_dict()
    assert [one["op"] for one in told.get("parts", [told])] == runs
    for one in told.get("parts", [told]):
        assert one["implementation"] and one["op"] in str(made)
    if device is None:
        call(dlblas.warmup)


def test_nothing_runs_and_nothing_is_written() -> None:
    x = X.clone()
    launched = dlblas.counters()["launched"]
    dlblas.explain("softmax", x, dim=0, out=x)
    dlblas.explain("quantize", x, "token")
    assert torch.equal(x, X) and dlblas.counters()["launched"] == launched


def test_what_out_shares_counts() -> None:
    w, r = R(8, 6), R(4, 8)
    apart = dlblas.explain("linear", X, w, residual=r).as_dict()["problem"]
    over = dlblas.explain("linear", X, w, residual=r, out=r).as_dict()["problem"]
    assert over == dlblas.explain("linear_residual", X, w, residual=r, out=r).as_dict()["problem"]
    assert over != apart
    odd = torch.empty(4 * 6 + 1)[1:].view(4, 6)
    told = dlblas.explain("linear", odd, w).as_dict()["problem"]
    assert told == dlblas.explain("matmul", odd, w.T).as_dict()["problem"]
    with pytest.raises(errors.ArgumentError, match="out overlaps"):
        dlblas.explain("linear", X, R(6, 6), out=X)
