"""dlblas.nn: state_dict compatible with torch's and Hugging Face's modules, the same values, eager
and compiled, with and without a residual. Read next: python/dlblas/nn/rms_norm.py.
"""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys
from pathlib import Path

import dlblas
import pytest

torch = pytest.importorskip("torch")

import dlblas.nn  # noqa: E402

PACKAGE = Path(dlblas.__file__).parent.parent


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    torch.manual_seed(7)
    return str(request.param)


def test_torch_comes_with_the_first_module() -> None:
    code = (
        "import sys, dlblas.nn; print('torch' in sys.modules, dir(dlblas.nn)); "
        "dlblas.nn.RMSNorm; print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(PACKAGE)}, capture_output=True,
        text=True, timeout=480,
    )  # fmt: skip
    first, second = done.stdout.splitlines()
    names = [
        "FP8Linear", "FusedGatedMLP", "FusedLinearCrossEntropy", "FusedRMSNormRoPE", "GatedMLP",
        "GeluAndMul", "GroupNorm", "LayerNorm", "Linear", "LlamaRMSNorm", "PackedLinear",
        "RMSNorm", "SiluAndMul",
    ]  # fmt: skip
    assert first == f"False {names}" and second == "True", done.stderr
    with pytest.raises(AttributeError, match=r"'dlblas.nn' has no attribute 'BatchNorm'"):
        _ = dlblas.nn.BatchNorm


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_as_torchs_own(dtype, device) -> None:
    ours = dlblas.nn.RMSNorm(64, 1e-5, device=device, dtype=dtype)
    theirs = torch.nn.RMSNorm(64, 1e-5, device=device, dtype=dtype)
    torch.nn.init.normal_(theirs.weight)
    assert ours.load_state_dict(theirs.state_dict()).missing_keys == []
    assert theirs.load_state_dict(ours.state_dict()).unexpected_keys == []
    x = torch.randn(2, 5, 64, device=device, dtype=dtype)
    torch.testing.assert_close(ours(x), theirs(x))
    assert ours(x).dtype is dtype


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_as_hugging_faces(dtype, device) -> None:
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    theirs = llama.LlamaRMSNorm(64, 1e-6).to(device, dtype)
    torch.nn.init.normal_(theirs.weight)
    ours = dlblas.nn.RMSNorm(64, cast_before_weight=True, device=device, dtype=dtype)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(300, 64, device=device, dtype=dtype)
    y, expected = ours(x).detach(), theirs(x).detach()
    # The same two roundings: in half precision the bits are equal except for a tie or two.
    assert (y != expected).float().mean() <= (1 if dtype is torch.float32 else 0.002)
    torch.testing.assert_close(y, expected)
    other = dlblas.nn.RMSNorm(64, device=device, dtype=dtype)  # one rounding: another function
    other.load_state_dict(theirs.state_dict())
    assert dtype is torch.float32 or (other(x) != expected).float().mean() > 0.02


def test_zero_centred(device) -> None:
    norm = dlblas.nn.RMSNorm(64, weight_offset=1.0, device=device)
    assert not norm.weight.any()  # a gain of 1
    plain = dlblas.nn.RMSNorm(64, device=device)
    x = torch.randn(3, 64, device=device)
    assert torch.equal(norm(x), plain(x))
    with torch.no_grad():
        norm.weight.fill_(0.5)
    torch.testing.assert_close(norm(x), 1.5 * plain(x))
    norm.reset_parameters()
    assert torch.equal(norm(x), plain(x))


def test_residual(device) -> None:
    norm = dlblas.nn.RMSNorm(64, 1e-5, device=device)
    torch.nn.init.normal_(norm.weight)
    x, residual = torch.randn(2, 7, 64, device=device).unbind()
    y, h = norm(x, residual)
    assert torch.equal(h, x + residual)
    torch.testing.assert_close(y, norm(x + residual))
    (y.sum() + h.sum()).backward()
    assert norm.weight.grad is not None and norm.weight.grad.any()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled(backend, device) -> None:
    torch._dynamo.reset()
    norm = dlblas.nn.RMSNorm(64, weight_offset=0.5, cast_before_weight=True, device=device)
    torch.nn.init.normal_(norm.weight)
    twin = copy.deepcopy(norm)
    compiled = torch.compile(norm, fullgraph=True, dynamic=True, backend=backend)
    for rows in (3, 8):
        x, residual = torch.randn(2, rows, 64, device=device).unbind()
        with torch.no_grad():
            assert torch.equal(compiled(x), norm(x))
        for call, module in ((compiled, norm), (twin, twin)):
            module.weight.grad = None
            y, h = call(x, residual)
            (y.sin().sum() + h.sum()).backward()
        # The compiled graph passes contiguous gradients, eager mode expanded ones: another kernel.
        torch.testing.assert_close(norm.weight.grad, twin.weight.grad)


def test_construction() -> None:
    for shape in (64, (64,), [64], torch.Size([64])):
        assert dlblas.nn.RMSNorm(shape).normalized_shape == (64,)
    words = "RMSNorm: normalized_shape has 2 dimensions; expected 1, got .2, 3.; flatten"
    with pytest.raises(dlblas.errors.ShapeMismatchError, match=words):
        dlblas.nn.RMSNorm((2, 3))
    norm = dlblas.nn.RMSNorm(64, device="meta", dtype=torch.bfloat16)
    assert norm.weight.is_meta and norm.weight.dtype is torch.bfloat16
    norm.to_empty(device="cpu").reset_parameters()
    assert torch.equal(norm.weight, torch.ones(64, dtype=torch.bfloat16))
    assert repr(dlblas.nn.RMSNorm(8)) == "RMSNorm((8,), eps=1e-06)"
    assert repr(dlblas.nn.RMSNorm(8, 1e-5, weight_offset=1.0, cast_before_weight=True)) == (
        "RMSNorm((8,), eps=1e-05, weight_offset=1.0, cast_before_weight=True)"
    )


@pytest.mark.attack("torch.jit.trace")
def test_a_trace_has_the_operator_and_its_gradient(tmp_path: Path) -> None:
    """torch.jit.trace gives the same graph with and without grad; it saves, loads and trains."""
    torch.manual_seed(7)
    norm = dlblas.nn.RMSNorm(16)
    x, residual = torch.randn(4, 16), torch.randn(4, 16)
    for arguments in ((x,), (x, residual)):
        expected = norm(*arguments)
        for mode in (torch.no_grad, torch.enable_grad):
            with mode():
                traced = torch.jit.trace(norm, arguments)
            assert "PythonOp" not in str(traced.graph) and "dlblas::_" not in str(traced.graph)
            traced.save(str(tmp_path / "traced.pt"))
            loaded = torch.jit.load(str(tmp_path / "traced.pt"))
            made = loaded(*arguments)
            torch.testing.assert_close(made, expected, rtol=0, atol=0)
            (made if len(arguments) == 1 else made[0]).sum().backward()
            norm.weight.grad = None
            (expected if len(arguments) == 1 else expected[0]).sum().backward(retain_graph=True)
            torch.testing.assert_close(loaded.weight.grad, norm.weight.grad)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("options", [{}, {"bias": False}, {"elementwise_affine": False}], ids=str)
def test_layer_norm_as_torchs_own(options, dtype, device) -> None:
    ours = dlblas.nn.LayerNorm(64, 1e-4, **options, device=device, dtype=dtype)
    theirs = torch.nn.LayerNorm(64, 1e-4, **options, device=device, dtype=dtype)
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter)
    assert ours.load_state_dict(theirs.state_dict()).missing_keys == []
    assert theirs.load_state_dict(ours.state_dict()).unexpected_keys == []
    mine = torch.randn(2, 5, 64, device=device, dtype=dtype, requires_grad=True)
    wide = copy.deepcopy(theirs).double()  # torch's own gradients in bf16 round more than once
    other = mine.detach().double().requires_grad_()
    y, expected = ours(mine), wide(other)
    torch.testing.assert_close(y, expected.to(dtype))
    dy = torch.randn_like(y)
    y.backward(dy), expected.backward(dy.double())
    torch.testing.assert_close(mine.grad, other.grad.to(dtype))
    for a, b in zip(ours.parameters(), wide.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad.to(dtype))
    ours.reset_parameters(), theirs.reset_parameters()
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict())


GATED = {
    "silu": (lambda: dlblas.nn.SiluAndMul(), torch.nn.functional.silu),
    "gelu": (lambda: dlblas.nn.GeluAndMul(), torch.nn.functional.gelu),
    "tanh": (
        lambda: dlblas.nn.GeluAndMul("tanh"),
        lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    ),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", GATED)
def test_gated(kind, dtype, device) -> None:
    make, gate = GATED[kind]
    module = make()
    assert module.state_dict() == {}
    x = torch.randn(3, 5, 64, device=device, dtype=dtype, requires_grad=True)
    exact = x.detach().double().requires_grad_()
    first, second = exact.chunk(2, -1)
    y, expected = module(x), gate(first) * second
    torch.testing.assert_close(y, expected.to(dtype))
    y.sum().backward(), expected.sum().backward()
    torch.testing.assert_close(x.grad, exact.grad.to(dtype))


@pytest.mark.parametrize(
    "make", [lambda: dlblas.nn.LayerNorm(64), *(make for make, _ in GATED.values())]
)
def test_one_operator_in_a_graph(make, device) -> None:
    torch._dynamo.reset()
    module = make().to(device)
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend="aot_eager")
    for rows in (3, 8):
        x = torch.randn(rows, 64, device=device)
        with torch.no_grad():
            assert torch.equal(compiled(x), module(x))


def test_what_modules_refuse() -> None:
    words = "LayerNorm: normalized_shape has 2 dimensions; expected 1, got .2, 3.; flatten"
    with pytest.raises(dlblas.errors.ShapeMismatchError, match=words):
        dlblas.nn.LayerNorm((2, 3))
    words = "GeluAndMul: approximate is not offered; expected 'none' or 'tanh', got 'erf'"
    with pytest.raises(dlblas.errors.ArgumentError, match=words):
        dlblas.nn.GeluAndMul("erf")
    for value in ([], None, 3):
        with pytest.raises(dlblas.errors.ArgumentError, match="approximate is not offered"):
            dlblas.nn.GeluAndMul(value)
    assert repr(dlblas.nn.GeluAndMul("tanh")) == "GeluAndMul(approximate='tanh')"
    assert repr(dlblas.nn.LayerNorm(8)) == "LayerNorm((8,), eps=1e-05, elementwise_affine=True)"


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("FP8Linear", (8, 4)), ("FusedGatedMLP", (8, 16)), ("GatedMLP", (8, 16)),
        ("GroupNorm", (2, 4)), ("LayerNorm", (8,)), ("Linear", (8, 4)), ("RMSNorm", (8,)),
    ],
)  # fmt: skip
def test_sizes_that_are_none_are_refused_by_name(name: str, good: tuple[int, ...]) -> None:
    """Refused when the module is constructed, in our own words: not by torch's allocator, nor at a
    call."""
    cls = getattr(dlblas.nn, name)
    cls(*good)
    names = list(inspect.signature(cls).parameters)
    for place in range(len(good)):
        for value in (None, "x", 2.5, [], -3, 2**70):
            with pytest.raises(
                (dlblas.errors.ArgumentError, dlblas.errors.ShapeMismatchError)
            ) as e:
                cls(*good[:place], value, *good[place + 1 :])
            assert e.value.argument == names[place], (value, str(e.value))


MADE = {
    "FP8Linear": (8, 4), "FusedGatedMLP": (8, 16), "FusedLinearCrossEntropy": (),
    "FusedRMSNormRoPE": (16, 8), "GatedMLP": (8, 16), "GeluAndMul": (), "GroupNorm": (2, 4),
    "LayerNorm": (8,), "Linear": (8, 4), "LlamaRMSNorm": (8,), "PackedLinear": (8, 4),
    "RMSNorm": (8,), "SiluAndMul": (),
}  # fmt: skip


@pytest.mark.parametrize("name", dlblas.nn.__all__)
def test_a_module_is_an_ordinary_class(name: str) -> None:
    """Its argument errors do not change that; test_known_names.py tests the names."""
    cls = getattr(dlblas.nn, name)
    assert type(cls) is type and issubclass(cls, torch.nn.Module)
    taken = inspect.signature(cls).parameters.values()
    assert not any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in taken)
    module = cls(*MADE[name])
    twins = [copy.deepcopy(module)]
    if name != "FP8Linear":  # torch does not read an f8 tensor that pickle wrote
        twins.append(pickle.loads(pickle.dumps(module)))
    for twin in twins:
        assert type(twin) is cls and repr(twin) == repr(module)
        assert twin.state_dict().keys() == module.state_dict().keys()
    if "device" in inspect.signature(cls).parameters:
        there = torch.nn.utils.skip_init(cls, *MADE[name])
        assert repr(there) == repr(module)


def test_a_users_own_module_has_its_own_errors() -> None:
    class Heir(dlblas.nn.RMSNorm):
        pass

    class Own(dlblas.nn.RMSNorm):
        def __init__(self, size: int, **options: object) -> None:
            super().__init__(size, **options)

        def reset_parameters(self) -> None:
            raise TypeError("of its own")

    with pytest.raises(dlblas.errors.ArgumentTypeError, match=r"^Heir: epss .* did you mean eps"):
        Heir(8, epss=1)
    with pytest.raises(dlblas.errors.ArgumentTypeError, match=r"^RMSNorm: epss .* did you mean"):
        Own(8, epss=1)
    with pytest.raises(TypeError, match=r"^of its own$"):
        Own(8)
    with pytest.raises(TypeError, match="multiple values for argument 'size'"):
        Own(8, size=8)


def test_products_cast_under_autocast_as_torchs_own(device) -> None:
    linear, theirs = dlblas.nn.Linear(8, 6, device=device), torch.nn.Linear(8, 6, device=device)
    theirs.load_state_dict(linear.state_dict())
    first = torch.nn.Linear(8, 8, device=device)
    x = torch.randn(3, 4, 8, device=device)
    with torch.autocast(device, torch.bfloat16):
        for given in (x, first(x), x.half()):  # torch's first layer leaves bf16
            torch.testing.assert_close(linear(given), theirs(given), rtol=2e-2, atol=2e-2)
            assert linear(given).dtype is theirs(given).dtype is torch.bfloat16
        h = first(x)
        modules = [
            dlblas.nn.GatedMLP(8, 16, device=device), dlblas.nn.FusedGatedMLP(8, 16, device=device),
            dlblas.nn.GatedMLP(8, 16, down=False, device=device),
            dlblas.nn.FP8Linear(8, 16, bias=True, device=device),
        ]  # fmt: skip
        for module in modules:
            assert module(h.detach()).dtype is module(x).dtype is torch.bfloat16
        head, target = torch.randn(9, 8, device=device), torch.arange(4, device=device)
        assert dlblas.nn.FusedLinearCrossEntropy()(h[0], head, target).isfinite()
        compiled = torch.compile(linear, backend="aot_eager", fullgraph=True)
        assert compiled(h).dtype is torch.bfloat16
        loss = linear(h).sum()
    loss.backward()
    assert linear.weight.grad.dtype is torch.float32  # as the parameter
    wide = linear.double()
    with torch.autocast(device, torch.bfloat16):
        assert theirs.double()(x.double()).dtype is torch.float64
    with pytest.raises(dlblas.errors.UnsupportedDtypeError):
        wide(x.double())  # the operators have no f64
