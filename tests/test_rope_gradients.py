"""Gradients of rotations: the inverse rotation, by the operators themselves; nothing of q and k is
kept. Read next: ops/rope/inverse.py, test_rope.py."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402
import dlblas.torch  # noqa: E402
from dlblas import errors  # noqa: E402
from test_rope import STYLES, table_of  # noqa: E402


def rotate(x: Any, cos: Any, sin: Any, style: str) -> Any:
    """The contract in f64: tables [*T, Dh] for the first 2Dh channels of each head."""
    cos, sin = cos.double()[..., None, :], sin.double()[..., None, :]
    width = 2 * cos.shape[-1]
    turned, rest = x[..., :width], x[..., width:]
    low, high = turned.chunk(2, -1) if style == "neox" else (turned[..., ::2], turned[..., 1::2])
    pair = low * cos - high * sin, high * cos + low * sin
    out = torch.stack(pair, -1).flatten(-2) if style == "interleaved" else torch.cat(pair, -1)
    return torch.cat((out, rest), -1)


def gradient_calls(style: str) -> dict[str, Any]:
    """Name -> (the call of q and k, the tables of every token in f64)."""
    table, freq, at = table_of(9, 12), torch.rand(8), torch.randint(0, 9, (3, 2, 5))
    half = torch.randn(2, 5, 8)
    rows = [table[i].double().chunk(2, -1) for i in at]
    three = [torch.cat((t[..., :3], h[..., 3:5], w[..., 5:]), -1)
             for t, h, w in zip(*rows, strict=True)]  # fmt: skip
    angles = at[0].double()[..., None] / 2 * freq.double()
    return {
        "apply_rotary_pos_emb": (
            lambda q, k: dlblas.apply_rotary_pos_emb(q, k, *torch.cat((half, half), -1),
                                                     style=style),
            half,
        ),
        "half": (lambda q, k: dlblas.apply_rotary_pos_emb(q, k, *half, style=style), half),
        "rope": (lambda q, k: dlblas.rope(q, k, at[0], table, style=style), rows[0]),
        "mrope": (lambda q, k: dlblas.mrope(q, k, at, table, (3, 2, 1), style), three),
        "fused_rotary_emb": (
            lambda q, k: dlblas.fused_rotary_emb(q, k, at[0], freq, 2.0, style=style),
            (angles.cos(), angles.sin()),
        ),
    }  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", ["apply_rotary_pos_emb", "half", "rope", "mrope",
                                  "fused_rotary_emb"])  # fmt: skip
def test_gradients(name: str, style: str, dtype: str) -> None:
    """Against autograd's in f64; compiled; of k alone; nothing of q and k is kept."""
    call, tables = gradient_calls(style)[name]
    torch._dynamo.reset()
    runs = [call]
    if style == "interleaved_to_half" and dtype == "float32":  # compiling takes seconds
        runs.append(torch.compile(call, fullgraph=True, dynamic=True, backend="aot_eager"))
    for run in runs:
        for alone in (False, True):
            x = [torch.randn(2, 5, h, 16).to(getattr(torch, dtype)) for h in (3, 2)]
            wide = [t.double().requires_grad_() for t in x]
            leaves = [t.requires_grad_(h == 1 or not alone) for h, t in enumerate(x)]
            kept: list[Any] = []
            with torch.autograd.graph.saved_tensors_hooks(lambda t, kept=kept: kept.append(t) or t,
                                                          lambda t: t):  # fmt: skip
                made = run(*leaves)
            want = [rotate(t, *tables, style) for t in wide]
            dy = [torch.randn(5, 2, 16, t.shape[2]).to(t.dtype).permute(1, 0, 3, 2) for t in x]
            asked = [i for i in (0, 1) if leaves[i].requires_grad]
            got = torch.autograd.grad(made, [leaves[i] for i in asked], dy)
            expected = torch.autograd.grad(want, wide, [g.double() for g in dy])
            for i, g in zip(asked, got, strict=True):
                near = (
                    {"rtol": 1e-4, "atol": 1e-5}
                    if dtype == "float32"
                    else {"rtol": 8e-3, "atol": 2e-2}
                )
                torch.testing.assert_close(g.double(), expected[i], **near)
            heads = {t.untyped_storage().data_ptr() for t in x}
            assert kept and not any(t.untyped_storage().data_ptr() in heads for t in kept)


def test_tables_have_no_gradient() -> None:
    q, k = torch.randn(5, 4, 16, requires_grad=True), torch.randn(5, 2, 16)
    table = torch.randn(5, 16, requires_grad=True)
    for call, name in (
        (lambda: dlblas.apply_rotary_pos_emb(q, k, table, table.detach()), "cos"),
        (lambda: dlblas.rope(q, k, torch.arange(5), table), "cos_sin_cache"),
        (lambda: dlblas.fused_rotary_emb(q[None], k[None], torch.arange(5)[None], table[0, :8]),
         "inv_freq"),
    ):  # fmt: skip
        with pytest.raises(errors.ArgumentError, match=f"{name} requires grad"):
            call()
