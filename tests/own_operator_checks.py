"""A user's own operator: one schema string and a reference give a function, torch operators with
fakes, harness cases and every command, with no more code.

The operator is that of own_module.py, which other processes import too. An operator stays for the
process, so test_own_operator.py runs this file in one of its own. Read next: docs/own.md.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import Any

import dlblas
import numpy as np
import pytest
from dlblas.errors import ArgumentError, LaunchError, ShapeMismatchError

TESTS = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(TESTS))
import own_module  # noqa: E402

OP = "own_power"


def arrays(rows: int = 12, columns: int = 40, dtype: Any = np.float32) -> tuple[Any, Any]:
    rng = np.random.default_rng(rows)
    x = rng.standard_normal((rows, columns)).astype(dtype)
    return x, rng.standard_normal(columns).astype(dtype)


def test_it_is_a_function_with_a_signature_and_errors() -> None:
    x, scale = arrays()
    y = dlblas.own_power(x, scale, power=3.0)  # type: ignore[attr-defined]
    np.testing.assert_allclose(y, np.abs(x) ** 3.0 * scale, rtol=1e-5)
    assert "own_power(x, scale, power=2.0" in str(dlblas.own_power.__text_signature__) or (  # type: ignore[attr-defined]
        "Schema: own_power(x: f[*T, C]" in dlblas.own_power.__doc__  # type: ignore[attr-defined]
    )
    with pytest.raises(ShapeMismatchError, match="own_power: scale has length 39"):
        dlblas.own_power(x, scale[:39])  # type: ignore[attr-defined]
    assert OP in dlblas.list_operators()
    assert dlblas.own_power is dlblas._functions.FUNCTIONS[OP].call  # type: ignore[attr-defined]


def test_until_it_is_tuned_the_reference_runs() -> None:
    explained = dlblas.explain(OP, *arrays(5, 24)).as_dict()
    assert explained["implementation"] == "reference" and explained["source"] == "heuristic"
    names = [row["implementation"] for row in explained["candidates"]]
    assert names == ["numpy_whole", "numpy_blocks", "reference"]


def test_tuned_it_is_served_from_the_store() -> None:
    x, scale = arrays(50, 64)
    op = dlblas.get_op(OP, (x, scale), seconds=3)
    assert op.report["winner"]["implementation"].startswith("numpy_")
    explained = dlblas.explain(OP, x, scale).as_dict()
    assert explained["source"] == "store"
    assert {row["implementation"] for row in explained["candidates"] if "measured_ms" in row} == {
        "numpy_whole", "numpy_blocks",
    }  # fmt: skip
    y = op(x, scale)
    assert dlblas.verify(OP, (x, scale), y).ok


def test_the_reference_is_the_oracle() -> None:
    x, scale = arrays(7, 9, np.float16)
    (result,) = dlblas.reference(OP, (x, scale))
    np.testing.assert_allclose(
        result.value, np.abs(x.astype(np.float64)) ** 2 * scale.astype(np.float64)
    )
    y = dlblas.own_power(x, scale)  # type: ignore[attr-defined]
    assert dlblas.verify(OP, (x, scale), y).ok
    y[3, 4] += np.float16(0.5)
    assert dlblas.verify(OP, (x, scale), y).first_wrong == 3 * 9 + 4


def test_torch_has_it_with_fake_and_out() -> None:
    torch = pytest.importorskip("torch")
    import dlblas.torch

    x, scale = map(torch.from_numpy, arrays(6, 32))
    y = torch.ops.dlblas.own_power(x, scale, 2.0)
    torch.testing.assert_close(y, x.abs() ** 2 * scale)
    out = torch.empty_like(x)
    torch.ops.dlblas.own_power_out(x, scale, out, 2.0)
    torch.testing.assert_close(out, y)
    torch.testing.assert_close(dlblas.own_power(x, scale), y)  # type: ignore[attr-defined]
    for op, args in (
        (torch.ops.dlblas.own_power.default, (x, scale)),
        (torch.ops.dlblas.own_power_out.default, (x, scale, out)),
    ):
        torch.library.opcheck(op, args)
    meta = torch.ops.dlblas.own_power(x.to("meta"), scale.to("meta"))
    assert meta.shape == x.shape and meta.is_meta


def test_registered_after_torch_it_is_there_too() -> None:
    torch = pytest.importorskip("torch")
    import dlblas.torch

    dlblas.register_operator("own_late(x: f[*T, C]) -> y: like(x)[*T, C]", lambda x: x + 1)
    x = torch.arange(6.0).reshape(2, 3)
    torch.testing.assert_close(torch.ops.dlblas.own_late(x), x + 1)
    torch.testing.assert_close(dlblas.own_late(x), x + 1)  # type: ignore[attr-defined]
    torch.library.opcheck(torch.ops.dlblas.own_late.default, (x,))


def test_torch_compile_traces_it() -> None:
    torch = pytest.importorskip("torch")
    import dlblas.torch

    def f(x: Any, scale: Any) -> Any:
        return dlblas.own_power(x + 1, scale) * 2  # type: ignore[attr-defined]

    x, scale = map(torch.from_numpy, arrays(4, 16))
    compiled = torch.compile(f, backend="aot_eager", fullgraph=True, dynamic=True)
    torch.testing.assert_close(compiled(x, scale), f(x, scale))


def test_the_harness_runs_its_cases() -> None:
    from dlblas.harness import expand, load_registry, run_group

    registry = load_registry()
    cases = [case for case in expand(registry) if case.op == OP]
    assert len(cases) >= 15
    for name in ("numpy_whole", "numpy_blocks"):
        outcomes = run_group(registry, cases, name, 3)
        failed = [o for o in outcomes if o.status == "failed"]
        assert not failed, failed[0]
        assert sum(o.status == "passed" for o in outcomes) >= 10
        assert " --import own_module" in outcomes[0].repro


def cli(*args: str) -> subprocess.CompletedProcess[str]:
    package = pathlib.Path(dlblas.__file__).parent.parent
    env = {**os.environ, "PYTHONPATH": str(package)}
    return subprocess.run(
        [sys.executable, "-m", "dlblas", *args],
        cwd=TESTS, env=env, capture_output=True, text=True, timeout=480,
    )  # fmt: skip


def test_every_command_takes_it() -> None:
    assert OP in cli("list", "--import", "own_module").stdout
    dims = ("own_power", "--dims", "T=48,C=64")
    explained = cli("--import", "own_module", "explain", *dims)
    assert "numpy_blocks" in explained.stdout, explained.stderr
    tuned = cli("--import=own_module", "tune", *dims, "--seconds", "2")
    assert tuned.returncode == 0 and "numpy_" in tuned.stdout, tuned.stdout + tuned.stderr
    again = cli("--import", "own_module", "explain", *dims)
    assert "(store)" in again.stdout  # another process, the same store, the same sources
    tested = cli("test", "--import", "own_module", "--op", OP, "--impl", "numpy_whole")
    assert tested.returncode == 0 and "numpy_whole" in tested.stdout, tested.stdout
    assert cli("explain", *dims).returncode == 2
    missing = cli("--import", "no_such_module", "list")
    assert missing.returncode == 2
    assert missing.stderr.startswith("dlblas: --import cannot be imported; expected a module, got")


def test_its_module_is_named_for_workers() -> None:
    assert "own_module" in dlblas.own.modules()


def test_a_changed_reference_is_another_key() -> None:
    schema = "own_twice(x: f[*T, C]) -> y: like(x)[*T, C]"
    dlblas.register_operator(schema, lambda x: 2 * x)

    def twice(x: Any, y: Any) -> None:
        np.multiply(x, 2, out=y)

    dlblas.register("own_twice", "twice", twice)
    x = np.ones((4, 8), np.float32)
    x[0] = np.arange(8)
    assert dlblas.tune("own_twice", (x,), seconds=1)["winner"]["implementation"] == "twice"
    assert dlblas.explain("own_twice", x).as_dict()["source"] == "store"
    dlblas.register_operator(schema, lambda x: 3 * x)
    assert dlblas.explain("own_twice", x).as_dict()["source"] == "heuristic"
    np.testing.assert_array_equal(dlblas.own_twice(x), 3 * x)  # type: ignore[attr-defined]
    with pytest.raises(dlblas.errors.TuningFailedError):
        dlblas.tune("own_twice", (x,), seconds=1)


def test_an_in_place_form_and_two_results() -> None:
    def peaks(x: Any) -> tuple[Any, Any]:
        return np.tanh(x), np.abs(x).max(-1, keepdims=True)

    dlblas.register_operator(
        "own_peaks(x: f[*T, C]) -> (y: like(x)[*T, C], peak: f32[*T, 1])",
        peaks,
    )
    x, _ = arrays(5, 6)
    y, peak = dlblas.own_peaks(x)  # type: ignore[attr-defined]
    np.testing.assert_allclose(y, np.tanh(x), rtol=1e-6)
    np.testing.assert_array_equal(peak, np.abs(x).max(-1, keepdims=True))
    dlblas.register_operator(
        "own_tanh(x: f[*T, C]) -> y: like(x)[*T, C]",
        lambda x: np.tanh(x),
        inplace="own_tanh_(x!y)",
    )
    dlblas.own_tanh_(x)  # type: ignore[attr-defined]
    np.testing.assert_array_equal(x, y)


def test_a_repetition_is_not_half_taken() -> None:
    schema = "own_negate(x: f[*T]) -> y: like(x)[*T]"

    def reference(x: Any) -> Any:
        return -x

    form = "own_negate_(x!y)"
    dlblas.register_operator(schema, reference, inplace=form, formula="y = -x")
    for given in ({}, {"inplace": form}, {"formula": "y = -x"}):
        dlblas.register_operator(schema, reference, **given)
    x = np.ones(4, np.float32)
    dlblas.own_negate_(x)  # type: ignore[attr-defined]
    assert x[0] == -1
    differs = "differs from the one registered with this operator; expected"
    for argument, given, words in (
        ("formula", {"formula": "y = 0 - x"}, f"{differs} y = -x, got y = 0 - x"),
        ("inplace", {"inplace": "own_negated_(x!y)"}, rf"{differs} own_negate_\(x!y\), got own_n"),
        ("inplace", {"inplace": ("own_negate_(x!y)", "own_neg_(x!y)")}, "; own_neg_"),
    ):
        with pytest.raises(ArgumentError, match=words) as caught:
            dlblas.register_operator(schema, lambda x: x, **given)  # type: ignore[arg-type]
        assert caught.value.argument == argument
    np.testing.assert_array_equal(dlblas.own_negate(x), -x)  # type: ignore[attr-defined]


def test_a_bound_of_ones_own() -> None:
    schema = "own_rough(x: f[*T, C]) -> y: like(x)[*T, C]"

    def rough(x: Any, y: Any) -> None:
        y[...] = x * np.float32(1.05)

    x, _ = arrays(6, 10)
    dlblas.register_operator(schema, lambda x: x, bound=(0, 0.01, 0))
    dlblas.register("own_rough", "rough", rough)
    with pytest.raises(dlblas.errors.TuningFailedError, match="rough"):
        dlblas.tune("own_rough", (x,), seconds=1)
    dlblas.register_operator(
        schema, lambda x: x, bound=lambda p, result: (0, 0.1 if p.dtypes[result] == "f32" else 0, 0)
    )
    assert dlblas.tune("own_rough", (x,), seconds=1)["winner"]["implementation"] == "rough"


def test_a_bound_that_cannot_be_told_is_a_failure_in_words() -> None:
    schema = "own_unbound(x: f[*T, C]) -> y: like(x)[*T, C]"
    x, _ = arrays(6, 10)
    for bound, words in (
        (lambda p, result: 1 / 0, "got ZeroDivisionError: division by zero"),
        (lambda p, result: (0, -1, 0), "got -1"),
        (lambda p, result: (0, float("nan"), 0), "got -?nan"),
    ):
        dlblas.register_operator(schema, lambda x: x, bound=bound)
        with pytest.raises(LaunchError, match="own_unbound: bound failed; .*" + words):
            dlblas.verify("own_unbound", (x,), x.copy())


def test_a_reference_that_raises_says_so() -> None:
    def broken(x: Any) -> Any:
        raise ValueError("no oracle today")

    dlblas.register_operator("own_broken(x: f[*T, C]) -> y: like(x)[*T, C]", broken)
    with pytest.raises(LaunchError, match=r"own_broken: reference failed; .* no oracle today"):
        dlblas.own_broken(np.ones((2, 2), np.float32))  # type: ignore[attr-defined]
    dlblas.register_operator("own_shape(x: f[*T, C]) -> y: like(x)[*T, C]", lambda x: x[:1])
    with pytest.raises(LaunchError, match=r"returned a result of shape \(1, 2\)"):
        dlblas.own_shape(np.ones((2, 2), np.float32))  # type: ignore[attr-defined]


def row(**change: Any) -> list[dict[str, Any]]:
    """A cases= argument of one row; a key that is None is left out."""
    plain = {"name": "a", "dims": {"T": 3, "C": 8}, "dtypes": ["f32"], "use": ["test"]}
    return [{key: value for key, value in {**plain, **change}.items() if value is not None}]


def named(name: str) -> dict[str, str]:
    return {"schema": f"{name}(x: f[*T, C]) -> y: like(x)[*T, C]"}


def test_cases_of_ones_own() -> None:
    made = row(
        dims={"T": [2, 3], "C": 8}, layouts=["nt", "row_strided_x", "inplace"], values=["nan"],
        args={"x": True},
    )  # fmt: skip
    dlblas.register_operator(named("own_cased")["schema"], lambda x: x, cases=iter(made))
    assert dlblas.own.cases("own_cased", "test") == [{**made[0], "op": "own_cased"}]


@pytest.mark.parametrize(
    ("change", "argument", "words"),
    [
        *(
            (named(name), "name", "would hide what dlblas has")
            for name in (
                "register",
                "unregister",
                "register_operator",
                "nn",
                "torch",
                "utils",
                "spaces",
                "triton_ops",
                "bench",
                "cli",
                "harness",
                "ops",
                "own",
                "_worker",
                "__getattr__",
            )
        ),
        (named("name"), "name", "is reserved"),
        (named("class"), "name", "is a keyword"),
        (named("rms_norm_out"), "name", "is taken; expected a name apart from rms_norm, "),
        (named("_own_power"), "name", "is taken"),
        ({"inplace": "unregister(x!y)"}, "inplace", "would hide what dlblas has"),
        ({"inplace": "del(x!y)"}, "inplace", "is a keyword"),
        ({"inplace": "own_power_out(x!y)"}, "inplace", "is taken"),
        ({"inplace": ("own_es_(x!y)", "own_es_(x!y)")}, "inplace", "is taken"),
        ({**named("own_eq"), "inplace": "own_eq(x!y)"}, "inplace", "is taken"),
        ({**named("own_eq"), "inplace": "own_eq_out(x!y)"}, "inplace", "is taken"),
        (
            {
                "schema": "own_ek(x: f[*T], if: float) -> y: like(x)[*T]",
                "reference": lambda **given: given["x"],
            },
            "schema",
            "by a keyword",
        ),
        ({"schema": named("own_eu")["schema"] + "\ud800"}, "schema", "is not valid Unicode"),
        ({"formula": 5}, "formula", "has the wrong type"),
        ({"formula": "\ud800"}, "formula", "is not valid Unicode"),
        ({"inplace": 5}, "inplace", "has the wrong type"),
        ({"inplace": (5,)}, "inplace", "has the wrong type"),
        ({"cases": "abc"}, "cases", "is no list of rows"),
        ({"cases": 5}, "cases", "is no list of rows"),
        ({"cases": [5]}, "cases", "is no list of rows"),
        ({"cases": [{"bad": 1}]}, "cases", "cases[0]; expected name, dims, dtypes, use"),
        ({"cases": row(use=None)}, "cases", "cases[0]; expected name, dims, dtypes, use"),
        ({"cases": row() + row(more=1)}, "cases", "cases[1]; expected no key but"),
        ({"cases": row(name="A b")}, "cases", "cases[0]['name']"),
        ({"cases": row(dims={"T": 1})}, "cases", "expected a size for each of T, C"),
        ({"cases": row(dims={"T": 1, "C": [1]})}, "cases", "expected C to be a size"),
        ({"cases": row(dims={"T": -1, "C": 1})}, "cases", "expected T to be a size"),
        ({"cases": row(dtypes=["f33"])}, "cases", "cases[0]['dtypes']"),
        ({"cases": row(dtypes="f32")}, "cases", "cases[0]['dtypes']"),
        ({"cases": row(dtypes=["f32", "f32"])}, "cases", "cases[0]['dtypes']"),
        ({"cases": row(use=[])}, "cases", "cases[0]['use']"),
        ({"cases": row(use=["tests"])}, "cases", "cases[0]['use']"),
        ({"cases": row(layouts=["row_strided_q"])}, "cases", "cases[0]['layouts']"),
        ({"cases": row(values=["odd"])}, "cases", "cases[0]['values']"),
        ({"cases": row(args={"q": 1})}, "cases", "expected values of some of x"),
        ({"cases": row(args={"x": []})}, "cases", "expected x to be a number"),
        ({"schema": "nonsense"}, "schema", "is malformed"),
        ({"schema": "own_bad(x: q[*T]) -> y: f[*T]"}, "schema", "malformed at column"),
        ({"schema": "rms_norm(x: f[*T]) -> y: like(x)[*T]"}, "name", "is taken"),
        ({"schema": "tune(x: f[*T]) -> y: like(x)[*T]"}, "name", "would hide"),
        ({"schema": "own_power(x: f[*T]) -> y: like(x)[*T]"}, "schema", "differs from the one"),
        ({"reference": 3}, "reference", "has the wrong type"),
        ({"bound": (1, 2)}, "bound", "is malformed"),
        ({"reference": lambda a: a}, "reference", "takes an argument that is not there"),
        ({"reference": np.tanh}, "reference", "takes x by position only"),
    ],
)
def test_errors_are_typed_and_name_the_argument(
    change: dict[str, Any], argument: str, words: str
) -> None:
    given = {
        "schema": f"own_e{abs(hash(words)) % 1000}(x: f[*T, C]) -> y: like(x)[*T, C]",
        "reference": own_module.reference,
        **change,
    }
    if "reference" not in change:
        given["reference"] = lambda x: x
    before, functions = dlblas.list_operators(), set(vars(dlblas))
    with pytest.raises(ArgumentError) as caught:
        dlblas.register_operator(**given)
    assert caught.value.argument == argument, str(caught.value)
    assert words in str(caught.value)
    assert dlblas.list_operators() == before
    new = set(vars(dlblas)) - functions - {"harness"}  # which checks of cases import
    assert not new, new


def test_after_refused_names_torch_has_every_operator() -> None:
    pytest.importorskip("torch")
    code = "\n".join(
        (
            "import dlblas",
            "from dlblas.errors import ArgumentError",
            "def refused(name, **more):",
            "    schema = name + '(x: f[*T]) -> y: like(x)[*T]'",
            "    try: dlblas.register_operator(schema, lambda x: x, **more)",
            "    except ArgumentError: return True",
            "assert refused('rms_norm_out') and refused('class') and refused('register')",
            "assert refused('q', inplace='q(x!y)') and refused('q', inplace='q_out(x!y)')",
            "assert not refused('q', inplace='q_(x!y)')",
            "import dlblas.torch, torch",
            "y = torch.ops.dlblas.rms_norm(torch.ones(2, 4, device='meta'), None)",
            "assert y.is_meta and torch.ops.dlblas.q(torch.ones(3)).sum() == 3",
            "dlblas.register('rms_norm', 'mine', lambda **given: None)",
        )
    )
    package = pathlib.Path(dlblas.__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(package)},
        capture_output=True, text=True, timeout=480,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.gpu
def test_a_new_operator_on_a_gpu_is_judged_by_its_reference() -> None:
    torch = pytest.importorskip("torch")
    dlblas.register_operator("own_gpu_cube(x: f[*T, C]) -> y: like(x)[*T, C]", lambda x: x**3)

    def cube(x: Any, y: Any) -> None:
        torch.mul(x * x, x, out=y)

    dlblas.register("own_gpu_cube", "cube", cube, devices="cuda")
    x = torch.randn(300, 1000, device="cuda")
    assert dlblas.tune("own_gpu_cube", (x,), seconds=2)["winner"]["implementation"] == "cube"
    torch.testing.assert_close(torch.ops.dlblas.own_gpu_cube(x), x**3)


def test_default_cases_are_small_whatever_the_number_of_letters() -> None:
    dlblas.register_operator(
        "own_wide(x: f[A, B, C, D, E, F]) -> y: f[A, B, C, D, E, F]", lambda x: x
    )
    cases = dlblas.own.cases("own_wide")
    assert {case["name"] for case in cases} == {"ones", "small", "odd", "even", "plain"}
    for case in cases:
        assert np.prod(list(case["dims"].values()), dtype=object) <= 1 << 20, case
    assert max(cases[-1]["dims"].values()) > 1
