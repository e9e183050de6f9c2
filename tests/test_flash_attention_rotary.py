"""flash_attention_rotary, and fused_rotary_and_fa on top of it, in torch: against the two operators
that it replaces, tables of every shape, gradients, opcheck, refusals; on a GPU, its implementations
against each other.

The harness covers values of every shape (tests/test_cases.py). Read next: ops/attention/api.py,
ops/attention/flash_attention_rotary/.
"""

from __future__ import annotations

from typing import Any

import dlblas
import pytest

torch = pytest.importorskip("torch")

from dlblas.kernels.fused_rotary_and_fa import FusedRotaryAndFA  # noqa: E402

OP = "flash_attention_rotary"
CPU = pytest.param("cpu")
GPU = pytest.param("cuda", marks=pytest.mark.gpu)


def drawn(
    b: int, s: int, h: int, hkv: int, d: int, dv: int, *, device: str = "cpu", dtype: Any = None,
    tables: Any = None,
) -> list[Any]:  # fmt: skip
    """q, k, v, and cos and sin with one position per row."""
    made = torch.Generator().manual_seed(b + s + h + d)
    heads = [torch.randn(b, s, *of, generator=made) for of in ((h, d), (hkv, d), (hkv, dv))]
    angles = torch.arange(s)[:, None] * 100 ** -(torch.arange(d // 2) / max(1, d // 2))
    angles = torch.cat((angles, angles), -1)[None]
    dtype = dtype or torch.float32
    return [t.to(device, dtype) for t in heads] + [
        t.to(device, tables or dtype) for t in (angles.cos(), angles.sin())
    ]


def turned(x: Any, cos: Any, sin: Any) -> Any:
    low, high = x.chunk(2, -1)
    return x * cos[:, :, None] + torch.cat((-high, low), -1) * sin[:, :, None]


def wanted(q: Any, k: Any, v: Any, cos: Any, sin: Any, causal: bool = False) -> Any:
    heads = (t.transpose(1, 2) for t in (turned(q, cos, sin), turned(k, cos, sin), v))
    made = torch.nn.functional.scaled_dot_product_attention(
        *heads, is_causal=causal, enable_gqa=True
    )
    return made.transpose(1, 2)


@pytest.mark.parametrize("device", [CPU, GPU])
@pytest.mark.parametrize(
    "shape", [(2, 9, 4, 2, 16, 8), (1, 1, 8, 2, 64, 64), (3, 70, 4, 4, 96, 96)]
)
@pytest.mark.parametrize("causal", [False, True])
def test_it_is_torchs(device: str, shape: tuple[int, ...], causal: bool) -> None:
    given = drawn(*shape, device=device)
    o, lse = dlblas.flash_attention_rotary(*given, causal=causal)
    torch.testing.assert_close(o, wanted(*given, causal), rtol=1e-5, atol=1e-5)
    q, k, v, cos, sin = given
    of = dlblas.flash_attention(
        turned(q, cos, sin), turned(k, cos, sin), v, causal=causal, return_lse=True
    )
    torch.testing.assert_close(lse, of[1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_two_launches_have_the_bits_of_both_calls(dtype: str) -> None:
    q, k, v, cos, sin = drawn(2, 33, 4, 2, 64, 64, dtype=getattr(torch, dtype))
    both = dlblas.apply_rotary_pos_emb(q, k, *(t.expand(2, -1, -1) for t in (cos, sin)))
    apart = dlblas.flash_attention(*both, v, causal=True, return_lse=True)
    with dlblas.pinned(OP, "composed"):
        made = dlblas.flash_attention_rotary(q, k, v, cos, sin, causal=True)
    for mine, its in zip(made, apart, strict=True):
        assert torch.equal(mine, its)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_oracle_refuses_heads_that_were_not_rounded(dtype: str) -> None:
    given = drawn(2, 64, 4, 2, 64, 64, dtype=getattr(torch, dtype))
    _, _, v, cos, sin = (t.double() for t in given)
    for rounds in (True, False):
        q, k = (turned(t.double(), cos, sin) for t in given[:2])
        if rounds:
            q, k = (t.to(given[0].dtype).double() for t in (q, k))
        k, wide = (t.transpose(1, 2).repeat_interleave(2, 1) for t in (k, v))
        scores = q.transpose(1, 2) @ k.transpose(-1, -2) / 8
        o = (scores.softmax(-1) @ wide).transpose(1, 2).to(given[0].dtype).contiguous()
        made = o, scores.logsumexp(-1).float()
        assert bool(dlblas.verify(OP, tuple(given), made)) == rounds


def test_tables_in_every_shape() -> None:
    q, k, v, cos, sin = drawn(2, 9, 4, 2, 16, 8)
    before = q.clone(), k.clone()
    right = wanted(q, k, v, cos, sin)
    half = cos[..., :8], sin[..., :8]
    for tables in (
        (cos, sin), (cos[0], sin[0]), (cos.expand(2, -1, -1), sin), (cos[:, :, None], sin[0]), half,
        [t[0] for t in half],
    ):  # fmt: skip
        for call in (dlblas.fused_rotary_and_fa, FusedRotaryAndFA.apply):
            torch.testing.assert_close(call(q, k, v, *tables), right, rtol=1e-5, atol=1e-5)
    assert torch.equal(q, before[0]) and torch.equal(k, before[1])


@pytest.mark.parametrize("which", [(True, True), (True, False), (False, True)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("device", [CPU, GPU])
def test_half_tables_have_the_bits_of_whole_ones(
    device: str, dtype: str, which: tuple[bool, bool]
) -> None:
    """The operator reads tables of D/2 columns where they lie: slices of rows, and one table of
    both kinds."""
    q, k, v, cos, sin = drawn(2, 37, 4, 2, 64, 32, dtype=getattr(torch, dtype), device=device)
    whole = [torch.cat((t[..., :32], t[..., :32]), -1) for t in (cos, sin)]
    tables = [
        t[..., :32] if half else w for t, w, half in zip((cos, sin), whole, which, strict=True)
    ]
    composed = "composed" if device == "cpu" else "cuda_composed"
    for causal in (False, True):
        with dlblas.pinned(OP, composed):
            want = dlblas.flash_attention_rotary(q, k, v, *whole, causal=causal)
            got = dlblas.flash_attention_rotary(q, k, v, *tables, causal=causal)
        assert all(torch.equal(a, b) for a, b in zip(want, got, strict=True))


def test_half_tables_are_not_copied_on_a_cpu(monkeypatch: Any) -> None:
    from dlblas.ops import attention_api

    def copies(table: Any) -> Any:
        raise AssertionError("a copy")

    q, k, v, cos, sin = drawn(2, 9, 4, 2, 16, 8)
    halves = cos[..., :8], sin[..., :8]
    want = dlblas.fused_rotary_and_fa(q, k, v, cos, sin)
    monkeypatch.setattr(attention_api, "doubled", copies)
    for tables in (halves, [t.expand(2, -1, -1) for t in halves]):
        made = dlblas.fused_rotary_and_fa(q, k, v, *tables)
        torch.testing.assert_close(made, want, rtol=1e-5, atol=1e-5)


def test_gradients_of_half_tables() -> None:
    q, k, v, cos, sin = drawn(2, 13, 4, 2, 16, 8)
    ours = [t.clone().requires_grad_() for t in (q, k, v, cos[..., :8], sin[..., :8])]
    theirs = [t.detach().double().requires_grad_() for t in ours]
    o, _ = dlblas.flash_attention_rotary(*ours, causal=True)
    weights = torch.randn(o.shape, generator=torch.Generator().manual_seed(3))
    (o * weights).sum().backward()
    doubled = [torch.cat((t, t), -1) for t in theirs[3:]]
    (wanted(*theirs[:3], *doubled, True) * weights.double()).sum().backward()
    for mine, its in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.grad.double(), its.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("grad", [False, True])
def test_errors_of_the_compatibility_name(grad: bool) -> None:
    q, k, v, cos, sin = drawn(2, 9, 4, 2, 16, 8)
    q.requires_grad_(grad)
    errors = dlblas.errors
    name = "^FusedRotaryAndFA.apply: "
    for wrong, argument, kind in (
        ((q, k.half(), v, cos, sin), "k", errors.UnsupportedDtypeError),
        ((q, k, v.half(), cos, sin), "v", errors.UnsupportedDtypeError),
        ((q, k[:, :8], v, cos, sin), "k", errors.ShapeMismatchError),
        ((q, k, v, cos[..., :5], sin), "cos", errors.ShapeMismatchError),
        ((q, k, v, cos, sin[:, :4]), "sin", errors.ShapeMismatchError),
        ((q, k, v, cos, sin.half()), "sin", errors.UnsupportedDtypeError),
    ):
        with pytest.raises(kind, match=name) as refused:
            FusedRotaryAndFA.apply(*wrong)
        assert refused.value.op == "FusedRotaryAndFA.apply"
        assert refused.value.argument == argument


@pytest.mark.parametrize("device", [CPU, GPU])
@pytest.mark.parametrize("causal", [False, True])
def test_gradients_are_torchs(device: str, causal: bool) -> None:
    given = drawn(2, 13, 4, 2, 16, 8, device=device)
    ours = [t.clone().requires_grad_() for t in given]
    theirs = [t.double().requires_grad_() for t in given]
    o, _ = dlblas.flash_attention_rotary(*ours, causal=causal)
    weights = torch.randn(o.shape, generator=torch.Generator().manual_seed(3)).to(device)
    (o * weights).sum().backward()
    (wanted(*theirs, causal) * weights.double()).sum().backward()
    for mine, its in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.grad.double(), its.grad, rtol=1e-4, atol=1e-4)


def test_a_gradient_of_lse_alone() -> None:
    given = drawn(1, 7, 2, 1, 8, 8)
    ours, theirs = ([t.clone().requires_grad_() for t in given[:2]] for _ in range(2))
    _, lse = dlblas.flash_attention_rotary(*ours, *given[2:])
    lse.sum().backward()
    q, k = (turned(t, *given[3:]).transpose(1, 2) for t in theirs)
    (q @ k.transpose(-1, -2).expand(1, 2, -1, -1) / 8**0.5).logsumexp(-1).sum().backward()
    for mine, its in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.grad, its.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("halves", [False, True])
def test_the_class_has_gradients_without_another_forward(halves: bool) -> None:
    given = drawn(2, 9, 4, 2, 16, 8)
    tables = [t[..., :8] if halves else t for t in given[3:]]
    ours, theirs = ([t.clone().requires_grad_() for t in given[:3]] for _ in range(2))
    FusedRotaryAndFA.apply(*ours, *tables).square().sum().backward()
    wanted(*theirs, *given[3:]).square().sum().backward()
    for mine, its in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.grad, its.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("learned", [(3,), (3, 4), (0, 4), (0, 1, 2, 3, 4)], ids=str)
def test_the_class_has_gradients_of_tables(learned: tuple[int, ...]) -> None:
    given = drawn(2, 9, 4, 2, 16, 8)
    ours, theirs = (
        [t.clone().requires_grad_(i in learned) for i, t in enumerate(given)] for _ in range(2)
    )
    FusedRotaryAndFA.apply(*ours).square().sum().backward()
    wanted(*theirs).square().sum().backward()
    for i in learned:
        torch.testing.assert_close(ours[i].grad, theirs[i].grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("learned", [False, True])
def test_the_class_refuses_tables_in_words(learned: bool) -> None:
    q, k, v, cos, sin = drawn(2, 9, 4, 2, 16, 8)
    q.requires_grad_(learned)
    for other in (cos[:, :4], cos[0, 0, 0], cos.expand(3, -1, -1), cos[None, None]):
        with pytest.raises(dlblas.errors.ShapeMismatchError, match="cos has"):
            FusedRotaryAndFA.apply(q, k, v, other, sin)
    arrays = cos.numpy(), sin.numpy()
    if learned:
        with pytest.raises(dlblas.errors.ArgumentTypeError, match="cos is a NumPy array"):
            FusedRotaryAndFA.apply(q, k, v, *arrays)
    else:
        made = FusedRotaryAndFA.apply(q, k, v, *arrays)
        assert torch.equal(made, FusedRotaryAndFA.apply(q, k, v, cos, sin))
        whole = FusedRotaryAndFA.apply(*(t.numpy() for t in (q, k, v)), *arrays)
        assert torch.equal(torch.from_numpy(whole), made)


def test_opcheck() -> None:
    given = drawn(2, 5, 4, 2, 16, 8)
    torch.library.opcheck(torch.ops.dlblas.flash_attention_rotary.default, tuple(given))
    ours = tuple(t.requires_grad_() for t in given)
    torch.library.opcheck(torch.ops.dlblas.flash_attention_rotary.default, ours)


@pytest.mark.parametrize(
    ("change", "kind", "named"),
    [
        ({"q": (2, 5, 4, 15), "k": (2, 5, 2, 15), "cos": (1, 5, 15), "sin": (1, 5, 15)},
         "ShapeMismatchError", "multiple of 2"),
        ({"cos": (1, 4, 16)}, "ShapeMismatchError", "cos"),
        ({"sin": (3, 5, 16)}, "ShapeMismatchError", "sin"),
        ({"k": (2, 6, 2, 16)}, "ShapeMismatchError", "k"),
        ({"q": (2, 5, 3, 16)}, "ShapeMismatchError", "q"),
    ],
)  # fmt: skip
def test_shapes_that_do_not_fit_are_refused(change: Any, kind: str, named: str) -> None:
    shapes = {
        "q": (2, 5, 4, 16), "k": (2, 5, 2, 16), "v": (2, 5, 2, 8), "cos": (1, 5, 16),
        "sin": (1, 5, 16),
    }  # fmt: skip
    given = {name: torch.zeros(shape) for name, shape in {**shapes, **change}.items()}
    with pytest.raises(getattr(dlblas.errors, kind), match=named):
        dlblas.flash_attention_rotary(**given)


def test_dtypes_and_scalars_that_do_not_fit_are_refused() -> None:
    q, k, v, cos, sin = drawn(2, 5, 4, 2, 16, 8)
    with pytest.raises(dlblas.errors.UnsupportedDtypeError, match="sin"):
        dlblas.flash_attention_rotary(q, k, v, cos, sin.half())
    with pytest.raises(dlblas.errors.ArgumentError, match="softcap"):
        dlblas.flash_attention_rotary(q, k, v, cos, sin, softcap=-1.0)
    with pytest.raises(dlblas.errors.ShapeMismatchError, match="cos"):
        dlblas.fused_rotary_and_fa(q, k, v, cos[:, :4], sin)


@pytest.mark.gpu
@pytest.mark.parametrize("implementation", ["cuda_mma", "cuda_wgmma"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("tables", ["like q", "float32"])
@pytest.mark.parametrize(
    "shape", [(1, 1, 8, 2, 128, 128), (2, 77, 4, 2, 64, 64), (3, 300, 8, 2, 128, 128),
              (1, 513, 2, 2, 256, 256)],
)  # fmt: skip
def test_fused_forms_have_the_bits_of_two_launches(
    implementation: str, dtype: str, tables: str, shape: tuple[int, ...]
) -> None:
    if implementation == "cuda_wgmma" and torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("no Hopper")
    kind = getattr(torch, dtype)
    given = drawn(
        *shape, device="cuda", dtype=kind, tables=kind if tables == "like q" else torch.float32
    )
    with dlblas.pinned(OP, "cuda_composed"), dlblas.pinned("flash_attention_lse", implementation):
        apart = dlblas.flash_attention_rotary(*given, causal=True)
    with dlblas.pinned(OP, implementation):
        made = dlblas.flash_attention_rotary(*given, causal=True)
        again = dlblas.flash_attention_rotary(*given, causal=True)
    # The same products of the same rotated heads, in the same order.
    for mine, its, second in zip(made, apart, again, strict=True):
        assert torch.equal(mine, its) and torch.equal(mine, second)


@pytest.mark.gpu
@pytest.mark.parametrize("implementation", ["cuda_mma", "cuda_wgmma", "cuda_composed"])
def test_a_captured_graph_serves_other_values(implementation: str) -> None:
    if implementation == "cuda_wgmma" and torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("no Hopper")
    given = drawn(3, 70, 8, 2, 128, 128, device="cuda", dtype=torch.bfloat16)
    with dlblas.pinned(OP, implementation):
        dlblas.fused_rotary_and_fa(*given)  # compiled before the capture
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            made = dlblas.fused_rotary_and_fa(*given)
        given[0].mul_(-0.5)
        graph.replay()
        torch.testing.assert_close(made, dlblas.fused_rotary_and_fa(*given), rtol=0, atol=0)
