"""Names of DLBlas and Triton Fused Operators: those that exist here work, the others say what to
use instead.

The list below has every public name of both systems. Read next: python/dlblas/_absent.py,
docs/names.md.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import pickle
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import dlblas
import numpy as np
import pytest

KERNELS = {
    "activation": ["silu_and_mul"],
    "add_rms_norm": ["call"],
    "apply_rotary_pos_emb": ["apply_rotary_pos_emb"],
    "flash_attention_v2": ["FlashAttentionV2"],
    "fp8_gemm": ["fp8_gemm", "call"],
    "fused_moe": ["fused_moe"],
    "fused_rotary_and_fa": ["FusedRotaryAndFA"],
    "ffn": ["call"],
    "fused_rotary_emb": ["fused_rotary_emb"],
    "layernorm_gated": ["layernorm_fn", "rmsnorm_fn", "layernorm_gated"],
    "matmul": ["matmul", "call"],
    "partial_rotary_emb": ["PartialRotaryEmb"],
    "rms_norm": ["rms_norm"],
    "selective_scan": ["selective_scan", "selective_scan_fn"],
    "selective_state_update": ["selective_state_update", "call"],
    "topk_gating": ["TopKGatingFunc"],
}
PRESENT = {
    **{f"dlblas.kernels.{module}": names for module, names in KERNELS.items()},
    "dlblas.utils": [
        "get_op", "get_list_op_names", "get_args_from_op_name", "register_dlblas_op", "SymVar",
        "Tensor", "FixedSpace", "ChoiceSpace", "DiscreteSpace", "RangeSpace", "RangeSapce",
        "PowerOfTwoSpace", "DictSpace", "AutotuneConfig",
    ],
    "dlblas.triton_ops": [
        "fused_rmsnorm_rope", "FusedRMSNormRoPE", "quantize_fp8", "dequantize_fp8",
        "quantize_fp8_with_overflow_handling", "TensorSpec", "RMSNormRoPEInput", "GatedMLPInput",
        "FP8GEMMInput", "KernelMetrics", "TuningResult", "FP8Format", "TritonKernelError",
        "ShapeMismatchError", "UnsupportedDtypeError", "DeviceError", "NumericalOverflowError",
        "TuningFailedError", "TritonAutoTuner", "ConfigCache", "RMSNORM_ROPE_CONFIGS",
        "GATED_MLP_CONFIGS", "FP8_GEMM_CONFIGS", "generate_configs", "get_default_config",
        "BenchmarkSuite", "CorrectnessVerifier", "PerformanceReport", "fp8_gemm", "FP8Linear",
        "fused_gated_mlp", "FusedGatedMLP",
    ],
    "dlblas.triton_ops.api": [
        "fused_rmsnorm_rope", "FusedRMSNormRoPE", "quantize_fp8", "dequantize_fp8", "fp8_gemm",
        "FP8Linear", "fused_gated_mlp", "FusedGatedMLP", "quantize_fp8_with_overflow_handling",
    ],
    "dlblas.triton_ops.benchmark": [
        "BenchmarkSuite", "CorrectnessVerifier", "PerformanceReport", "verify_fp8_accuracy",
        "verify_nan_inf_propagation",
    ],
    "dlblas.triton_ops.benchmark.suite": ["BenchmarkSuite"],
    "dlblas.triton_ops.benchmark.report": [
        "BenchmarkResult", "ComparisonResult", "PerformanceReport",
    ],
    "dlblas.triton_ops.benchmark.correctness": ["CorrectnessVerifier"],
    "dlblas.triton_ops.kernels.rmsnorm_rope": ["fused_rmsnorm_rope_reference"],
    "dlblas.triton_ops.modules": ["FP8Linear", "FusedGatedMLP", "FusedRMSNormRoPE"],
    "dlblas.triton_ops.kernels": ["fused_gated_mlp_reference"],
    "dlblas.triton_ops.kernels.gated_mlp": [
        "fused_gated_mlp", "fused_gated_mlp_reference", "gated_mlp_reference", "FusedGatedMLP",
    ],
    "dlblas.triton_ops.kernels.fp8_gemm": ["fp8_gemm", "fp8_gemm_reference", "FP8Linear"],
    "dlblas.triton_ops.kernels.fp8_quantize": [
        "quantize_fp8_reference", "dequantize_fp8_reference",
    ],
}  # fmt: skip
ABSENT = {
    "dlblas": [
        "FP8Linear", "FusedGatedMLP",
    ],
    "dlblas.layers.moe.ep_moe": ["build_deepep_moe", "rebalance_experts"],
}  # fmt: skip


def pairs(table):
    return [(module, name) for module, names in table.items() for name in names]


def from_import(module: str, name: str):
    scope: dict[str, object] = {}
    exec(f"from {module} import {name}", scope)
    return scope[name]


@pytest.mark.parametrize(("module", "name"), pairs(PRESENT))
def test_what_is_here_is_importable(module: str, name: str) -> None:
    if module.startswith("dlblas.triton_ops") or module.endswith("partial_rotary_emb"):
        pytest.importorskip("torch")
    assert from_import(module, name) is not None


def test_the_api_of_triton_ops_has_all_that_its_kernels_have() -> None:
    pytest.importorskip("torch")
    from dlblas.triton_ops import api, kernels

    assert set(api.__all__) == set(kernels.__all__) == set(dir(api)) & set(kernels.__all__)
    assert all(getattr(api, name) is getattr(kernels, name) for name in kernels.__all__)


@pytest.mark.parametrize(("module", "name"), pairs(ABSENT))
def test_what_is_not_here_says_what_comes_nearest(module: str, name: str) -> None:
    if module.startswith("dlblas.triton_ops"):
        pytest.importorskip("torch")
    with pytest.raises(ImportError, match=r"is not in dlblas .*; nearest: ") as caught:
        from_import(module, name)
    said = str(caught.value)
    assert said.startswith(f"{module}.{name} is not in dlblas {dlblas.__version__}; nearest: ")
    for word in said.partition("nearest: ")[2].replace(",", " ").replace("'", " ").split():
        if word.startswith("dlblas."):  # what is recommended exists
            owner, _, leaf = word.rstrip(";").rpartition(".")
            assert hasattr(importlib.import_module(owner), leaf), word


@pytest.mark.parametrize(("module", "name"), pairs(ABSENT))
def test_a_module_lacks_what_is_not_here(module: str, name: str) -> None:
    """As Python's own modules do: getattr() and hasattr() see an AttributeError, with these words
    too."""
    if module.startswith("dlblas.triton_ops"):
        pytest.importorskip("torch")
    found = importlib.import_module(module)
    assert not hasattr(found, name) and getattr(found, name, None) is None
    with pytest.raises(AttributeError, match=f"{name} is not in dlblas .*; nearest: "):
        getattr(found, name)


def test_other_names_are_attribute_errors() -> None:
    for module in ("dlblas", "dlblas.kernels", "dlblas.kernels.ffn"):
        assert not hasattr(importlib.import_module(module), "__nonsense__")
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        importlib.import_module("dlblas.kernels").nonsense  # noqa: B018


@pytest.mark.parametrize(
    ("module", "name", "nearest"),
    [
        ("nn", "RMSnorm", "RMSNorm"),
        ("utils", "get_ops", "get_op"),
        ("kernels", "rmsnorm", "rms_norm"),
        ("spaces", "ChoiceSpac", "ChoiceSpace"),
        ("cache", "pinn", "pin"),
        ("errors", "ShapeMismatch", "ShapeMismatchError"),
        ("own", "loadd", "load"),
        ("triton_ops", "fused_rmsnorm_rop", "fused_rmsnorm_rope"),
        ("triton_ops.kernels", "fp8_gem", "fp8_gemm"),
        ("triton_ops.api", "fp8_gem", "fp8_gemm"),
    ],
)
def test_a_name_of_a_module_that_is_near_is_told(module: str, name: str, nearest: str) -> None:
    with pytest.raises(AttributeError, match=f"{name}.*did you mean {nearest}"):
        getattr(importlib.import_module(f"dlblas.{module}"), name)
    with pytest.raises(ImportError, match=f"{name}.*did you mean {nearest}"):
        exec(f"from dlblas.{module} import {name}", {})


# Types of results, which only the library creates; and DictSpace, which accepts any name.
MADE_HERE = {"Array", "DictSpace", "Explanation", "Operation", "Patch", "Problem"}
BY_PLACE = {"PartialRotaryEmb"}  # torch calls it


def of_packages() -> list[str]:
    listed = ["dlblas", *(f"dlblas.{name}" for name in ("cache", "nn", "own", "spaces", "utils"))]
    listed += [f"dlblas.kernels.{name}" for name in KERNELS]
    if importlib.util.find_spec("torch"):
        import dlblas.triton_ops as package

        listed += ["dlblas.hf", "dlblas.vllm", "dlblas.triton_ops"]
        listed += [
            one.name for one in pkgutil.walk_packages(package.__path__, "dlblas.triton_ops.")
        ]
    return listed


def misspelt() -> Iterator[Any]:
    """(callable, its longest parameter name) for every public function and class."""
    seen = set()
    for module in of_packages():
        try:
            here = importlib.import_module(module)
        except ImportError:  # of torch
            continue
        names = KERNELS.get(module.removeprefix("dlblas.kernels."), getattr(here, "__all__", ()))
        for name in names:
            called = getattr(here, name, None)
            if called is None or id(called) in seen or name in MADE_HERE | BY_PLACE:
                continue
            seen.add(id(called))
            if isinstance(called, type):
                if issubclass(called, (BaseException, dict, list, tuple)):
                    continue
                called = vars(called).get("apply", called)  # as an autograd function
            elif not callable(called):
                continue
            told = inspect.signature(called).parameters.values()
            taken = [p.name for p in told if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
            if taken and not any(p.kind is p.VAR_KEYWORD for p in told):
                yield pytest.param(called, max(taken, key=len), id=f"{module}.{name}")


@pytest.mark.parametrize(("called", "name"), list(misspelt()))
def test_a_misspelt_argument_is_told_the_nearest(called: Any, name: str) -> None:
    """The error is caught by Python's own handlers for TypeError and by ours."""
    wrong = name + name[-1]
    with pytest.raises(dlblas.errors.ArgumentTypeError, match=f": {wrong} is not an ") as caught:
        called(**{wrong: 1})
    error = caught.value
    assert isinstance(error, TypeError) and error.argument == error.got == wrong
    assert name in re.split(r",? or |, ", error.expected.removeprefix("one of "))
    assert len(name) < 3 or str(error).count("did you mean") == 1, error
    assert len(name) < 3 or f"; did you mean {name}?" in str(error)
    assert error.__suppress_context__ or error.__context__ is None


def test_every_public_name_has_the_hint() -> None:
    ids = {parameters.id for parameters in misspelt()}
    assert ids >= {"dlblas.rms_norm", "dlblas.linear"}
    assert ids >= {f"dlblas.{name}" for name in ("Spec", "pinned", "tune", "verify", "cache.rm")}
    if importlib.util.find_spec("torch"):
        assert ids >= {f"dlblas.nn.{name}" for name in dlblas.nn.__all__ if name != "SiluAndMul"}
        assert "dlblas.triton_ops.TensorSpec" in ids


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("reference('rms_norm')", "reference: args is missing; .* the signature is reference"),
        ("reference('a', (), {}, 1)", "too many positional arguments; expected at most 3, got 4"),
        ("reference('a', name='a')", "reference: name is given twice; expected one value"),
        ("rms_norm()", "rms_norm: x is missing"),
        ("rms_norm(1, 2, 3, 4)", "rms_norm: call has too many positional arguments"),
        ("flash_attention(1, 2, 3, is_causal=True)", r"got is_causal; did you mean causal\?$"),
        ("explain()", r"name is missing; .*explain\(name, \*args, device=None, \*\*kwargs\)"),
        (
            "register('rms_norm', 'mine', print, wheree=1)",
            "wheree is not an option.*did you mean where",
        ),
    ],
)
def test_other_calls_that_do_not_fit(call: str, words: str) -> None:
    with pytest.raises(dlblas.errors.ArgumentTypeError, match=words):
        eval(f"dlblas.{call}")


def test_a_hint_hides_no_error_and_no_signature() -> None:
    from dlblas._arguments import hinted

    def plain(given: int, *, other: int = 2) -> int:
        """Its words."""
        raise TypeError(f"of its own: {given}, {other}")

    told = hinted(plain)
    with pytest.raises(TypeError, match=r"^of its own: 1, 2$"):
        told(1)
    assert inspect.signature(told) == inspect.signature(plain) and told.__doc__ == "Its words."
    for called in (dlblas.reference, dlblas.pinned, dlblas.Spec, dlblas.cache.pin, dlblas.linear):
        assert pickle.loads(pickle.dumps(called)) is called


def test_modules_of_kernels_are_attributes() -> None:
    import dlblas.kernels as kernels

    assert kernels.rms_norm.rms_norm and "matmul" in dir(kernels)


def test_matmul_is_ours() -> None:
    from dlblas.kernels.matmul import call, matmul

    a, b = np.ones((4, 8), "f"), -np.ones((8, 3), "f")
    np.testing.assert_array_equal(matmul(a, b), dlblas.matmul(a, b))
    np.testing.assert_array_equal(call(a, b, "relu"), np.zeros((4, 3)))


# ---- benchmark -----------------------------------------------------------------------------------


@pytest.fixture(name="torch")
def _torch():
    return pytest.importorskip("torch")


def test_verify_takes_either_tolerance_and_allclose_their_sum(torch) -> None:
    from dlblas.triton_ops import CorrectnessVerifier

    verifier = CorrectnessVerifier(rtol=0.1, atol=0.1)
    expected = torch.tensor([0.01, 1.0, 1.0, torch.inf])
    actual = torch.tensor([0.10, 1.09, 1.15, torch.inf])
    right, details = verifier.verify(actual, expected)
    assert not right and details["num_violations"] == 1 and details["total_elements"] == 4
    assert details["max_abs_diff"] == pytest.approx(0.15)
    assert verifier.verify_allclose(actual, expected)
    assert verifier.verify(expected, expected)[0]
    nan = torch.full((4,), torch.nan)
    assert not verifier.verify(nan, expected)[0] and not verifier.verify_allclose(nan, expected)
    assert verifier.compute_relative_error(actual, expected) == pytest.approx(9, rel=1e-3)
    with pytest.raises(dlblas.errors.ShapeMismatchError, match="actual"):
        verifier.verify(actual[:2], expected)


def test_fp8_accuracy_and_nan_propagation(torch) -> None:
    from dlblas.triton_ops.benchmark import verify_fp8_accuracy, verify_nan_inf_propagation

    base = torch.ones(10)
    assert verify_fp8_accuracy(base * 1.001, base)[0]
    right, details = verify_fp8_accuracy(base * 1.5, base)
    assert not right and details["max_relative_error"] == pytest.approx(0.5)
    holes = torch.tensor([1.0, torch.nan])
    assert verify_nan_inf_propagation(holes, True, False)[0]
    assert verify_nan_inf_propagation(holes, False, True)[0]
    assert not verify_nan_inf_propagation(base, True, False)[0]
    assert not verify_nan_inf_propagation(base, False, True)[0]


def test_a_suite_measures_checks_and_reports(torch, tmp_path) -> None:
    from dlblas.triton_ops import BenchmarkSuite

    suite = BenchmarkSuite(warmup_runs=1, benchmark_runs=3)
    x = torch.randn(64, 64)
    result = suite.benchmark_kernel(torch.relu, torch.relu, "relu", (64, 64), x, config={"a": 1})
    assert result.correctness and result.metrics.latency_ms > 0 and result.config == {"a": 1}
    moved = 2 * 64 * 64 * 4
    assert result.metrics.bandwidth_gbps * result.metrics.latency_ms * 1e6 == pytest.approx(moved)
    assert result.metrics.bandwidth_utilization > 0
    wrong = suite.compare_with_pytorch(torch.relu, torch.neg, "neg", (64, 64), x)
    assert not wrong.correctness and wrong.speedup > 0
    (norm,) = suite.benchmark_rmsnorm_rope([1], [8], [128])
    assert norm.problem_size == (1, 8, 128) and norm.metrics.latency_ms > 0
    text = suite.generate_report()
    assert "relu (64, 64): right" in text and "neg (64, 64): WRONG" in text
    read = json.loads(suite.generate_report("json"))
    assert [row["kernel_name"] for row in read["results"]] == ["relu", "fused_rmsnorm_rope"]
    suite.save_report(tmp_path / "report.json", "json")
    assert json.loads((tmp_path / "report.json").read_text())["comparisons"]
    with pytest.raises(dlblas.errors.ArgumentError, match="format is unknown"):
        suite.generate_report("xml")
    (mlp,) = suite.benchmark_gated_mlp([2], [8], [32], [48])
    assert mlp.problem_size == (2, 8, 32, 48) and mlp.correctness
    assert mlp.metrics.throughput_tflops * mlp.metrics.latency_ms == pytest.approx(
        4 * 2 * 8 * 32 * 48 * 1e-9
    )
    (product,) = suite.benchmark_fp8_gemm([16], [24], [32])
    assert product.problem_size == (16, 24, 32) and product.correctness
    beside = json.loads(suite.generate_report("json"))["comparisons"]
    assert [row["kernel_name"] for row in beside] == [
        "neg", "fused_rmsnorm_rope beside eager", "fused_gated_mlp beside eager",
        "fp8_gemm beside f16",
    ]  # fmt: skip
    assert "fused_gated_mlp beside eager (2, 8, 32, 48): right" in suite.generate_report()


def test_planned_operators_say_what_to_use() -> None:
    from dlblas import _planned

    operators = {row["name"] for row in dlblas.info()["operators"]}
    for name, nearest in _planned.NEAREST.items():
        if name in operators or name in vars(dlblas):
            continue  # it is here by now
        with pytest.raises(AttributeError, match=f"nearest: {re.escape(nearest)}"):
            getattr(dlblas, name)
        for used in re.findall(r"dlblas\.(\w+)", nearest):
            assert callable(getattr(dlblas, used)), (name, used)


def test_get_op_of_utils_spells_the_options() -> None:
    params = inspect.signature(dlblas.utils.get_op).parameters
    wanted = {k: p for k, p in inspect.signature(dlblas.get_op).parameters.items() if p.kind == 3}
    assert {key: params[key] for key in wanted} == wanted
    config = dlblas.utils.AutotuneConfig(tunner="random")
    x = np.ones((5, 24), "f")
    op = dlblas.utils.get_op("silu", (x,), config, seconds=0.2, worker=False, progress=False)
    assert op.report["budget_s"] == 0.2 and op.report["strategy"] == "random"
    with pytest.raises(dlblas.errors.ArgumentError, match="secnds is not an option"):
        dlblas.utils.get_op("silu", (x,), secnds=1)
