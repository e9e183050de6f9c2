"""Rows with more columns than one launch takes: where a program's columns are independent, the row
is split; otherwise it is refused with a reason.

Inputs are one broadcast element wherever possible. Read next: src/kernels/row_pieces.hpp.
"""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402

MAX_COLUMNS = 1 << 30  # columns of a launch
WIDTH = MAX_COLUMNS + 24

GPU = "sm_90a"  # which need not be there


@pytest.fixture(scope="module")
def codes() -> Any:
    q = dlblas.quantize_static(torch.ones(1).expand(WIDTH), torch.tensor(0.5), dtype="i8")
    assert q.shape == (WIDTH,) and (q == 2).all()
    for place, code in enumerate((0, MAX_COLUMNS - 1, MAX_COLUMNS, WIDTH - 1)):
        q[code] = place - 7
    return q


@pytest.mark.parametrize("group", [WIDTH, MAX_COLUMNS, MAX_COLUMNS - 3, MAX_COLUMNS // 2 + 5, 24])
def test_a_row_is_cut(codes: Any, group: int) -> None:
    groups = -(-WIDTH // group)
    scale = torch.arange(groups) % 5 + 1.0
    y = dlblas.dequantize_group(codes, scale, group, "f16")
    at = torch.tensor(
        [0, 1, group - 1, group % WIDTH, MAX_COLUMNS - 1, MAX_COLUMNS, MAX_COLUMNS + 1, WIDTH - 1]
    )
    assert torch.equal(y[at].float(), codes[at] * scale[at // group])


def test_one_scale_of_more_elements_than_a_row_has() -> None:
    q = torch.zeros(4, dtype=torch.int8).expand(MAX_COLUMNS // 4 + 3, 4)
    for scale in (torch.tensor(2.0), torch.full((1, 1), 2.0).expand(MAX_COLUMNS // 4 + 3, 1)):
        y = dlblas.dequantize(q, scale, "f16")
        assert y.shape == q.shape and not y[-3:].any()


@pytest.mark.parametrize("width", [MAX_COLUMNS + 1, 2 * MAX_COLUMNS + 77, 2 * MAX_COLUMNS + 4096])
@pytest.mark.parametrize("op", ["silu", "silu_mul", "quantize_static", "scale_rows"])
def test_gpus_take_them(op: str, width: int) -> None:
    x = dlblas.Spec((1, width), "bf16", device=GPU)
    more = {
        "silu": (),
        "silu_mul": (x,),
        "quantize_static": (dlblas.Spec((), "f32", device=GPU),),
        "scale_rows": (dlblas.Spec((1, 1), "f32", device=GPU),),
    }[op]
    words = str(dlblas.explain(op, x, *more))
    assert "cuda_registers" in words and "a call fails" not in words, words


def test_a_row_whose_columns_meet_is_refused_in_words() -> None:
    with pytest.raises(dlblas.errors.UnsupportedError, match="rows of more than 1073741824 col"):
        dlblas.softmax(torch.zeros(1).expand(1, MAX_COLUMNS + 1))


@pytest.mark.gpu
@pytest.mark.parametrize("op", ["silu", "scale_rows", "quantize_static", "dequantize_group"])
def test_on_a_gpu_a_row_in_pieces_is_whole(op: str) -> None:
    """Every 2^27 elements, and around the border, the result equals that of the piece alone."""
    x = torch.empty(1, WIDTH, dtype=torch.bfloat16, device="cuda")
    for part in x[0].split(1 << 27):
        part.normal_()
    scale = torch.tensor(0.5, device="cuda")

    def call(part: Any) -> Any:
        if op == "silu":
            return dlblas.silu(part)
        if op == "scale_rows":
            return dlblas.scale_rows(part, scale.expand(1, 1))
        codes = dlblas.quantize_static(part, scale, dtype="i8")
        if op == "quantize_static":
            return codes
        return dlblas.dequantize_group(codes, scale.expand(1, 1), part.shape[1], "f16")

    y = call(x)
    for begin in (*range(0, WIDTH, 1 << 27), MAX_COLUMNS - 40, WIDTH - 50):
        part = slice(begin, begin + (1 << 27))
        assert torch.equal(y[:, part], call(x[:, part].contiguous())), begin
