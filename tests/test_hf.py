"""dlblas.hf on tiny models with random weights, built from configurations: nothing is downloaded.

Read next: python/dlblas/hf.py.
"""

from __future__ import annotations

import copy
import importlib
import warnings
from typing import Any

import dlblas
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from dlblas import hf  # noqa: E402

SIZES = {
    "vocab_size": 100, "hidden_size": 96, "intermediate_size": 160, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
}  # fmt: skip
MORE: dict[str, dict[str, int]] = {"Qwen3": {"head_dim": 24}}
FAMILIES = ["Llama", "Mistral", "Qwen2", "Qwen3"]
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
DTYPES = [torch.bfloat16, torch.float16, torch.float32]


def model_of(family: str, dtype: Any = torch.bfloat16) -> Any:
    torch.manual_seed(3)
    config = getattr(transformers, f"{family}Config")(**SIZES, **MORE.get(family, {}))
    model = getattr(transformers, f"{family}ForCausalLM")(config).to(dtype).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name:
                weight.normal_(1, 0.2)  # all ones would hide a norm that forgets its weight
    return model


def tokens() -> Any:
    return torch.arange(40).view(2, 20)


def calls(run: Any) -> tuple[Any, int]:
    before = dlblas.counters()["calls"]
    with torch.no_grad():
        made = run()
    return made, dlblas.counters()["calls"] - before


def without_norms(model: Any) -> None:
    """Restores the original norms: sums in another order occasionally round a tie differently."""
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            del module.forward


def differing(got: Any, expected: Any) -> int:
    return int((got != expected).sum())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", FAMILIES)
def test_rotation_and_gated_product_differ_in_no_element(
    family: str, dtype: Any, device: str
) -> None:
    """Logits and a step's loss are equal in 16 bits; in f32 the last places of silu differ.
    Gradients are close: silu's slope differs in the last place of f32, which near a tie changes the
    rounding."""
    model, ids = model_of(family, dtype).to(device), tokens().to(device)

    def step() -> tuple[Any, Any]:
        model.zero_grad()
        result = model(input_ids=ids, labels=ids)
        result.loss.backward()
        return result.loss.detach(), model.model.embed_tokens.weight.grad.clone()

    expected, none = calls(lambda: model(ids).logits)
    loss, grad = step()
    assert none == 0
    with hf.patch(model) as patch:
        assert patch.replaced[f"silu_mul of {family}MLP"] == 2
        without_norms(model)
        logits, ours = calls(lambda: model(ids).logits)
        assert ours == 4  # a product and a rotation a layer
        before = dlblas.counters()["calls"]
        our_loss, our_grad = step()
        assert dlblas.counters()["calls"] - before == 8  # and their gradients
    if dtype == torch.float32:
        torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-5)
    else:
        assert differing(logits, expected) == 0 and torch.equal(our_loss, loss)
    wide = {"rtol": 0.02, "atol": 1e-3} if dtype != torch.float32 else {"rtol": 1e-3, "atol": 1e-6}
    torch.testing.assert_close(our_grad, grad, **wide)
    logits, none = calls(lambda: model(ids).logits)
    assert none == 0 and torch.equal(logits, expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_rotations_and_their_gradients_are_the_original_to_the_bit(dtype: Any, device: str) -> None:
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as theirs

    ours = hf._rotary(theirs)
    torch.manual_seed(5)
    q, k, dq, dk = (
        torch.randn(3, heads, 33, 64, device=device).to(dtype).requires_grad_()
        for heads in (8, 2, 8, 2)
    )
    for tables in (1, 3):
        cos, sin = (torch.randn(tables, 33, 64, device=device).to(dtype) for _ in range(2))
        for dim in (1, 2):
            heads, back = ((q, k), (dq, dk))
            if dim == 2:
                heads, back = ([x.transpose(1, 2) for x in pair] for pair in (heads, back))
            expected = theirs(*heads, cos, sin, unsqueeze_dim=dim)
            got, made = calls(lambda h=heads, d=dim, t=(cos, sin): ours(*h, *t, unsqueeze_dim=d))
            assert made == 1
            in_training = ours(*heads, cos, sin, unsqueeze_dim=dim)
            gradients = [torch.autograd.grad(y, (q, k), back) for y in (in_training, expected)]
            for ours_now, theirs_now in ((got, expected), (in_training, expected), gradients):
                if dtype == torch.float32 and device == "cuda":  # a product and the sum are fused
                    torch.testing.assert_close(
                        tuple(ours_now), tuple(theirs_now), rtol=1e-6, atol=1e-6
                    )
                else:
                    assert sum(map(differing, ours_now, theirs_now)) == 0
    # With a single rounding, a tenth of the elements and more would differ.
    if dtype != torch.float32:
        plain = dlblas.apply_rotary_pos_emb(*(x.detach().transpose(1, 2) for x in (q, k)), cos, sin)
        assert differing(plain[0].transpose(1, 2), theirs(q, k, cos, sin)[0]) > q.numel() // 10


def test_a_second_derivative_of_rotations_is_the_originals() -> None:
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as theirs

    torch.manual_seed(5)
    leaves = [torch.randn(1, 2, 5, 8, requires_grad=True) for _ in range(2)]
    cos, sin = torch.randn(2, 1, 5, 8)
    found = []
    for rotate in (hf._rotary(theirs), theirs):
        q, k = rotate(*leaves, cos, sin)
        firsts = torch.autograd.grad(q.pow(3).sum() + (q * k).sum(), leaves, create_graph=True)
        found.append(torch.autograd.grad(sum(g.square().sum() for g in firsts), leaves))
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_gated_products_are_torchs_to_the_bit(dtype: Any, device: str) -> None:
    torch.manual_seed(6)
    gate, up, dy = (
        torch.randn(64, 1024, device=device).to(dtype).requires_grad_() for _ in range(3)
    )
    expected = torch.nn.functional.silu(gate) * up
    y = dlblas.silu_mul(gate, up, cast_before_mul=True)
    assert differing(y, expected) == 0
    assert differing(dlblas.silu_mul(gate, up), expected) > y.numel() // 10
    gradients = [torch.autograd.grad(z, (gate, up), dy) for z in (y, expected)]
    # silu and its slope may differ in the last places of f32: near a tie, that is one step of the
    # dtype.
    assert sum(map(differing, *gradients)) < 1e-3 * y.numel()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_patched_model_computes_the_same(family: str) -> None:
    model = model_of(family)
    expected, none = calls(lambda: model(tokens()).logits)
    assert none == 0
    norms = 5 + (4 if family == "Qwen3" else 0)
    patch = hf.patch(model)
    logits, ours = calls(lambda: model(tokens()).logits)
    assert ours == norms + 4
    # The roundings are the same (the next test); a tie that rounds differently propagates from
    # there.
    torch.testing.assert_close(logits, expected, rtol=0.02, atol=0.02)
    rotary = f"apply_rotary_pos_emb of modeling_{family.lower()}"
    assert f"{norms} {family}RMSNorm, {rotary}, 2 silu_mul of {family}MLP replaced>" in repr(patch)
    again = copy.deepcopy(model)
    copied, of_copy = calls(lambda: again(tokens()).logits)
    assert of_copy == ours and torch.equal(copied, logits)
    assert list(model.state_dict()) == list(model_of(family).state_dict())
    patch.undo()
    patch.undo()
    logits, none = calls(lambda: model(tokens()).logits)
    assert none == 0 and torch.equal(logits, expected) and "undone" in repr(patch)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", FAMILIES)
def test_an_exact_patch_moves_no_element(family: str, dtype: Any, device: str) -> None:
    model, ids = model_of(family, dtype).to(device), tokens().to(device)
    expected, none = calls(lambda: model(ids).logits)
    with hf.patch(model, exact=True) as patch:
        logits, ours = calls(lambda: model(ids).logits)
    norms = 5 + (4 if family == "Qwen3" else 0)
    in_f32 = 0 if device == "cuda" else 2  # rotations alone
    assert none == 0 and ours == norms + (in_f32 if dtype == torch.float32 else 4)
    assert torch.equal(logits, expected)
    assert f"{norms} {family}RMSNorm" in repr(patch) and "RMSNorm" not in patch.left
    with hf.patch(exact=True):
        logits, again = calls(lambda: model(ids).logits)
    assert again == ours and torch.equal(logits, expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["LlamaRMSNorm", "Qwen3NextRMSNorm", "Qwen3NextRMSNormGated"])
def test_exact_norms_are_the_originals_in_every_bit(name: str, dtype: Any, device: str) -> None:
    """Of 4 M elements, a sum in another order changes about forty."""
    family = "llama" if name.startswith("Llama") else "qwen3_next"
    module = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
    torch.manual_seed(8)
    norm = getattr(module, name)(1024).to(dtype).to(device)
    norm.weight.data.normal_(1, 0.3)
    x = (3 * torch.randn(4, 1000, 1024, device=device)).to(dtype)
    given = [x, x.flip(0)] if name.endswith("Gated") else [x]
    for rows in (slice(None), slice(1), slice(0, 4, 3)):  # whole, one of the batch, strided
        some = [tensor[rows, :: 1 + (rows.step is not None)] for tensor in given]
        with torch.no_grad():
            expected = norm(*some)
            with hf.patch(norm, rotary=False, exact=True):
                got, ours = calls(lambda some=some: norm(*some))
        assert ours == 1 and got.dtype == expected.dtype
        whole = torch.int16 if dtype.itemsize == 2 else torch.int32
        assert differing(got.view(whole), expected.view(whole)) == 0
    with hf.patch(norm, rotary=False, exact=True):  # with gradients it stays theirs
        before = dlblas.counters()["calls"]
        norm(*given).sum().backward()
        assert dlblas.counters()["calls"] == before and norm.weight.grad is not None


def test_norms_have_the_roundings_of_the_original() -> None:
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    for dtype, allowed in ((torch.bfloat16, 1e-4), (torch.float16, 1e-3)):
        torch.manual_seed(1)
        theirs = LlamaRMSNorm(256).to(dtype)
        theirs.weight.data.normal_(1, 0.3)
        ours = dlblas.nn.LlamaRMSNorm(256, dtype=dtype)
        ours.load_state_dict(theirs.state_dict())
        assert ours.variance_epsilon == theirs.variance_epsilon
        x = 3 * torch.randn(1000, 256, dtype=dtype)
        y = ours(hidden_states=x)
        assert (y != theirs(x)).float().mean() < allowed  # with one rounding: a quarter
        assert (dlblas.nn.RMSNorm(256, dtype=dtype)(x) != theirs(x)).float().mean() > 0.05
    ours.variance_epsilon = 1e-2
    assert ours.eps == 1e-2 and "cast_before_weight=True" in repr(ours)
    y, residual = ours(x, x)
    assert torch.equal(residual, x + x) and torch.equal(y, ours(x + x))


QWEN3_NEXT = {
    "head_dim": 24, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
    "linear_key_head_dim": 16, "linear_value_head_dim": 16, "num_experts": 4,
    "num_experts_per_tok": 2, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32,
}  # fmt: skip


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("qwen3_next", "Qwen3NextRMSNorm"), ("qwen3_next", "Qwen3NextRMSNormGated"),
        ("qwen3_5", "Qwen3_5RMSNorm"), ("qwen3_5", "Qwen3_5RMSNormGated"),
        ("qwen3_5_moe", "Qwen3_5MoeRMSNorm"), ("qwen3_5_moe", "Qwen3_5MoeRMSNormGated"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_norms_of_qwen3_next_round_as_theirs(file: str, name: str, dtype: Any) -> None:
    module = pytest.importorskip(f"transformers.models.{file}.modeling_{file}")
    torch.manual_seed(2)
    norm = getattr(module, name)(256).to(dtype)
    norm.weight.data.normal_(1 if "Gated" in name else 0, 0.3)
    given = [3 * torch.randn(1000, 256, dtype=dtype, requires_grad=True) for _ in range(2)]
    given = given[: 2 if "Gated" in name else 1]
    expected = norm(*given)
    wanted = torch.autograd.grad(expected.float().sum(), given)
    with hf.patch(norm, rotary=False) as patch:
        assert patch.replaced == {name: 1} and not patch.left
        before = dlblas.counters()["calls"]
        y = norm(*given)
        assert dlblas.counters()["calls"] > before
        got = torch.autograd.grad(y.float().sum(), given)
        wide = norm(*(x.double() for x in given))  # no dtype of ours: theirs
    if dtype == torch.float32:
        torch.testing.assert_close(y, expected)
    else:  # one step, where a sum in another order meets a tie
        assert y.dtype == dtype and (y != expected).float().mean() < 1e-3
    for ours, theirs in zip(got, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0.05, atol=0.05)
    assert wide.dtype == torch.float64 and torch.equal(wide, norm(*(x.double() for x in given)))


def test_a_mixture_of_experts_says_what_stays() -> None:
    if not hasattr(transformers, "Qwen3NextForCausalLM"):
        pytest.skip("an older transformers")
    torch.manual_seed(3)
    config = transformers.Qwen3NextConfig(
        **SIZES, **QWEN3_NEXT, layer_types=["linear_attention", "full_attention"]
    )
    model = transformers.Qwen3NextForCausalLM(config).eval()
    expected, none = calls(lambda: model(tokens()).logits)
    assert none == 0
    with hf.patch(model) as patch:
        logits, ours = calls(lambda: model(tokens()).logits)
        # Two per layer, the final one, q and k of the attention; a gated one in the linear layer.
        assert patch.replaced["Qwen3NextRMSNorm"] == 7
        assert patch.replaced["Qwen3NextRMSNormGated"] == 1
        assert patch.left["Qwen3NextExperts"] == patch.left["Qwen3NextTopKRouter"] == 2
        assert patch.left["apply_rotary_pos_emb of modeling_qwen3_next"] == 1  # a partial one
        assert "; left as they are: 2 Qwen3NextExperts" in repr(patch)
        assert ours >= 8
    torch.testing.assert_close(logits, expected, rtol=1e-3, atol=1e-4)


def test_silu_is_the_same_on_every_value() -> None:
    cpu = torch.device("cpu")
    assert hf._same_silu(cpu, torch.bfloat16) and hf._same_silu(cpu, torch.float16)


def test_a_patched_model_trains_and_compiles() -> None:
    def step(run: Any, model: Any) -> float:
        model.zero_grad()
        run(input_ids=tokens(), labels=tokens()).loss.backward()
        return float(
            model.model.norm.weight.grad.norm() + model.model.embed_tokens.weight.grad.norm()
        )

    model = model_of("Llama", torch.float32)
    expected = step(model, model)
    with hf.patch(model):
        assert step(model, model) == pytest.approx(expected, rel=1e-4)
        plain, ours = calls(lambda: model(tokens()).logits)
        assert ours == 9
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
        logits, in_graph = calls(lambda: compiled(tokens()).logits)
        assert in_graph >= 9
        torch.testing.assert_close(logits, plain)
        torch._dynamo.reset()
        trained = torch.compile(model, backend="aot_eager")
        assert step(trained, model) == pytest.approx(expected, rel=1e-4)


def test_classes_of_every_model_of_the_process() -> None:
    before = model_of("Mistral")
    with hf.patch() as patch:
        assert "class LlamaRMSNorm" in repr(patch) and "class silu_mul of Qwen3MLP" in repr(patch)
        for model in (before, model_of("Llama"), model_of("Qwen3")):
            assert calls(lambda model=model: model(tokens()))[1] >= 9
            assert repr(hf.patch(model)) == "<dlblas.hf.Patch: nothing replaced>"  # it is already
        assert "nothing" in repr(hf.patch())
    assert calls(lambda: before(tokens()))[1] == 0


def test_rotary_embeddings_can_be_left() -> None:
    from transformers.models.llama import modeling_llama

    model = model_of("Llama", torch.float32)
    with hf.patch(model, rotary=False) as patch:
        assert calls(lambda: model(tokens()))[1] == 7 and "rotary" not in repr(patch)
    with hf.patch(model) as patch:
        assert calls(lambda: model(tokens()))[1] == 9
        assert "apply_rotary_pos_emb of modeling_llama" in repr(patch)
    theirs = modeling_llama.apply_rotary_pos_emb
    assert theirs.__module__ == modeling_llama.__name__


def test_rotations_of_another_kind_are_theirs() -> None:
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as theirs

    def interleaved(q: Any, k: Any, cos: Any, sin: Any, unsqueeze_dim: int = 1) -> Any:
        def turned(x: Any) -> Any:
            return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)

        cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
        return q * cos + turned(q) * sin, k * cos + turned(k) * sin

    def with_positions(q: Any, k: Any, cos: Any, sin: Any, position_ids: Any = None) -> Any:
        return theirs(q, k, cos, sin)

    assert hf._same_rotary(theirs)
    assert not hf._same_rotary(interleaved) and not hf._same_rotary(with_positions)
    ours = hf._rotary(theirs)
    q, k = torch.randn(2, 4, 8, 16).bfloat16(), torch.randn(2, 2, 8, 16).bfloat16()
    cos, sin = torch.randn(2, 1, 8, 16)
    learned = cos.bfloat16().requires_grad_()
    for tables in ((cos, sin), (learned, sin.bfloat16())):  # a wider result; a table's gradient
        expected, got = theirs(q, k, *tables), ours(q, k, *tables)
        assert all(map(torch.equal, got, expected))
        assert got[0].dtype == expected[0].dtype
        assert got[0].requires_grad == expected[0].requires_grad


def test_what_computes_otherwise_is_left_alone() -> None:
    class LlamaRMSNorm(torch.nn.Module):  # of that name, and Gemma's gain
        def __init__(self, size: int, eps: float = 1e-6) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(size))
            self.variance_epsilon = eps

        def forward(self, x: Any) -> Any:
            return torch.nn.functional.rms_norm(x, x.shape[-1:], 1 + self.weight)

    other = LlamaRMSNorm(96)
    assert hf.patch(other).replaced == {}  # of no file of transformers
    LlamaRMSNorm.__module__ = "transformers.models.llama.modeling_llama"
    assert hf.patch(other, rotary=False).replaced == {}  # tried, and found to differ
    model = model_of("Llama")
    model.model.norm.forward = model.model.norm.forward  # a hook's, say
    model.model.layers[0].mlp.act_fn = torch.nn.GELU()
    with hf.patch(model) as patch:
        assert patch.replaced == {
            "LlamaRMSNorm": 4, "silu_mul of LlamaMLP": 1,
            "apply_rotary_pos_emb of modeling_llama": 1,
        }  # fmt: skip
        assert patch.left == {"LlamaMLP": 1}
        mixed = model.model.layers[0].input_layernorm.float()
        y = mixed(torch.ones(2, 96, dtype=torch.bfloat16))
        assert y.dtype == torch.float32  # as theirs: a wider weight makes a wider result


def test_a_patch_undoes_only_what_is_still_its_own() -> None:
    model = model_of("Llama")
    patch = hf.patch(model)
    norm = model.model.norm
    norm.forward = mine = lambda x: x
    patch.undo()
    assert norm.forward is mine and "forward" not in vars(model.model.layers[0].mlp)


def test_a_version_of_kernels_that_transformers_does_not_take_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from importlib import metadata, util

    from transformers.utils import import_utils

    found, version = util.find_spec, metadata.version
    monkeypatch.setattr(util, "find_spec", lambda name: name == "kernels" or found(name))
    monkeypatch.setattr(
        metadata, "version", lambda name: "0.17.2" if name == "kernels" else version(name)
    )
    monkeypatch.setattr(import_utils, "KERNELS_MIN_VERSION", "0.18.2", raising=False)
    monkeypatch.setattr(import_utils, "KERNELS_MAX_VERSION", "0.19.0", raising=False)
    monkeypatch.setattr(import_utils, "is_kernels_available", lambda: False)
    words = r"wants kernels>=0\.18\.2,<0\.19\.0, and 0\.17\.2 is installed"
    with pytest.warns(UserWarning, match=words) as told:
        hf.kernel_mapping()
    assert told[0].filename == __file__
    monkeypatch.setattr(import_utils, "is_kernels_available", lambda: True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hf.kernel_mapping()


@pytest.mark.filterwarnings("ignore:kernel_mapping")
def test_the_kernels_package_takes_the_layer() -> None:
    mapping = hf.kernel_mapping()
    layer = mapping["RMSNorm"]["cuda"].load()
    assert layer.can_torch_compile and layer.has_backward and "dlblas" in repr(mapping)
    # What the package requires of a layer: no state, no constructor.
    assert layer.__init__ is torch.nn.Module.__init__
    for name in ("RMSNorm", "RMSNormZeroCentered", "RMSNormGated"):
        layer = mapping[name]["cpu"].load()
        assert set(dir(layer)) - set(dir(torch.nn.Module)) == {"can_torch_compile", "has_backward"}
    kernels = pytest.importorskip("kernels")

    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    norm = kernels.use_kernel_forward_from_hub("RMSNorm")(
        type("LlamaRMSNorm", (LlamaRMSNorm,), {})
    )(96)
    expected = norm(torch.ones(2, 96))
    with kernels.use_kernel_mapping(mapping):
        kernels.kernelize(norm, mode=kernels.Mode.TRAINING, device="cpu", use_fallback=False)
    y, ours = calls(lambda: norm(torch.ones(2, 96)))
    assert ours == 1
    torch.testing.assert_close(y, expected)
