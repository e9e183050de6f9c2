"""A user's own operator: from one schema string and a reference to a function, torch's operators
with fakes, harness cases and every command, with no more code.

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
        cwd=TESTS, env=env, capture_output=True, text=True, timeout=120,
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
    """cases= of one row; a key that is None is left out."""
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
        capture_output=True, text=True, timeout=120,
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


STEP = (
    "own_step(x: f[*T, C], state: like(x)[*T, C]!, slow: like(x)[C]?!) -> y: like(x)[*T, C] "
    "where T: bucket(tokens)"
)


def step(x: Any, state: Any, slow: Any) -> tuple[Any, ...]:
    state[...] = 0.5 * state + x  # in place, on copies of the reference's own
    if slow is not None:
        slow += x.sum(axis=tuple(range(x.ndim - 1)))
    return (2 * state,)


def step_by(rest: Any) -> Any:
    def run(x: Any, state: Any, slow: Any, y: Any) -> None:
        new = state * state.dtype.type(0.5) + x
        y[...] = 2 * new
        rest(new, state)
        if slow is not None:
            slow += x.astype(np.float64).sum(axis=tuple(range(x.ndim - 1))).astype(slow.dtype)

    return run


def test_what_an_operator_writes_into_its_inputs_is_compared() -> None:
    dlblas.register_operator(STEP, step)
    right = step_by(lambda new, state: state.__setitem__(..., new))
    dlblas.register("own_step", "right", right)
    dlblas.register("own_step", "sevens", step_by(lambda new, state: state.fill(7)))
    dlblas.register("own_step", "forgets", step_by(lambda new, state: None))
    rng = np.random.default_rng(0)
    x, state = rng.standard_normal((2, 24, 40)).astype(np.float32)
    slow = rng.standard_normal(40).astype(np.float32)
    for args in ((x, state), (x, state, slow)):
        report = dlblas.tune("own_step", args, seconds=1)
        rows = {row["implementation"]: row for row in report["evaluated"]}
        assert report["winner"]["implementation"] == "right", rows
        for name in ("sevens", "forgets"):
            assert rows[name]["failure"] == "wrong_result"
            assert "of the written input state" in rows[name]["note"]
    before = (x.copy(), state.copy(), slow.copy())
    with dlblas.pinned("own_step", "reference"):
        y = dlblas.own_step(x, state, slow)  # type: ignore[attr-defined]
    assert (x == before[0]).all() and np.allclose(state, 0.5 * before[1] + x)
    assert dlblas.verify("own_step", before, (y, state, slow)).ok
    assert dlblas.verify("own_step", before[:2], (y, state, None)).ok
    wrong = dlblas.verify("own_step", before, (y, state, before[2]))
    assert (wrong.result, wrong.wrong, wrong.first_wrong) == (2, 40, 0)
    with pytest.raises(ArgumentError, match=r"expected 3 \(y, state, slow\)"):
        dlblas.verify("own_step", before, y)
    with pytest.raises(ArgumentError, match="state is another tensor among the outputs"):
        dlblas.verify("own_step", before, (y, state[1:], slow))


def test_the_harness_compares_written_inputs() -> None:
    from dlblas.harness import expand, load_registry, run_group

    registry = load_registry()
    cases = [case for case in expand(registry) if case.op == "own_step"]
    for name, status in {"right": "passed", "sevens": "failed", "forgets": "failed"}.items():
        outcomes = run_group(registry, cases[-2:], name, 0)
        assert [o.status for o in outcomes] == [status] * 2, outcomes
        assert status == "passed" or all("first state[" in o.reason for o in outcomes)


def test_a_written_input_receives_no_result() -> None:
    with pytest.raises(ArgumentError, match="does not write itself"):
        dlblas.register_operator(
            "own_bad(x: f[C]!) -> y: f[C]", lambda x: x, inplace=["own_bad_(x!y)"]
        )


F8 = ("f8e4m3", "f8e5m2")


def f8_type(name: str) -> Any:
    found = pytest.importorskip("ml_dtypes")
    return np.dtype(found.float8_e4m3fn if name == "f8e4m3" else found.float8_e5m2)


@pytest.mark.parametrize("name", F8)
def test_f8_codes_and_roundings_are_those_of_ml_dtypes(name: str) -> None:
    from dlblas.harness.checks import round_to

    kind = f8_type(name)
    widen = dlblas.register_operator(f"own_widen_{name}(x: {name}[N]) -> y: f32[N]", lambda x: x)
    narrow = dlblas.register_operator(f"own_narrow_{name}(x: f32[N]) -> y: {name}[N]", lambda x: x)
    codes = np.arange(256, dtype=np.uint8).view(kind)
    np.testing.assert_array_equal(widen(codes), codes.astype(np.float32))
    most = float(np.nanmax(np.where(np.isfinite(codes.astype("f")), codes.astype("f"), 0)))
    rng = np.random.default_rng(0)
    x = rng.standard_normal(200_000) * np.exp2(rng.uniform(-20, 9, 200_000))
    x = np.clip(x, -most, most).astype(np.float32)
    expected = x.astype(kind)
    np.testing.assert_array_equal(narrow(x).view(np.uint8), expected.view(np.uint8))
    np.testing.assert_array_equal(round_to(kind, x.astype(np.float64)), expected.astype(np.float64))
    beyond = np.array([1e30, -1e30, np.inf, -np.inf, np.nan, most * 1.4, 0.0, -0.0], np.float32)
    there = [most, -most, most, -most, np.nan, most, 0.0, -0.0]
    np.testing.assert_array_equal(narrow(beyond).astype(np.float64), there)
    np.testing.assert_array_equal(round_to(kind, beyond.astype(np.float64)), there)


@pytest.mark.parametrize("name", F8)
def test_f8_results_are_judged_by_value(name: str) -> None:
    kind = f8_type(name)
    most = 448.0 if name == "f8e4m3" else 57344.0
    op = f"own_quantize_{name}"
    dlblas.register_operator(
        f"{op}(x: f[*T, C], scale: f32[*T]~positive) -> q: {name}[*T, C] where T: bucket(tokens)",
        lambda x, scale: x / scale[..., None],
    )

    def quantize(factor: float) -> Any:
        def run(x: Any, scale: Any, q: Any) -> None:
            values = x.astype(np.float32) / scale[..., None].astype(np.float32) * factor
            q[...] = np.clip(values, -most, most).astype(kind)

        return run

    def raw(x: Any, scale: Any, q: Any) -> None:
        q.view(np.uint8)[...] = (x / scale[..., None]).astype(np.int64).astype(np.uint8)

    dlblas.register(op, "right", quantize(1.0))
    dlblas.register(op, "off", quantize(1.3))
    dlblas.register(op, "raw", raw)
    x, scale = np.random.default_rng(1).standard_normal((2, 64, 48)).astype(np.float32)
    args = x, np.abs(scale[:, 0]) + 0.1
    report = dlblas.tune(op, args, seconds=1)
    rows = {row["implementation"]: row for row in report["evaluated"]}
    assert report["winner"]["implementation"] == "right", rows
    assert rows["off"]["failure"] == rows["raw"]["failure"] == "wrong_result"
    with dlblas.pinned(op, "reference"):
        q = getattr(dlblas, op)(x * 1e6, args[1])
    assert dlblas.verify(op, (x * 1e6, args[1]), q).ok and np.abs(q.astype("f")).max() == most

    from dlblas.harness import expand, load_registry, run_group

    registry = load_registry()
    cases = [case for case in expand(registry) if case.op == op]
    for one, status in {"right": "passed", "raw": "failed"}.items():
        outcomes = run_group(registry, cases[-2:], one, 0)
        assert [o.status for o in outcomes] == [status] * 2, outcomes


GROUPED = (
    "own_grouped(x: f[T, K], w: f[E, K, N], ends: i32[E+1] ~offsets<=U, used: f[U]) "
    "-> y: f32[T, N] where T: bucket(tokens)"
)


def grouped(x: Any, w: Any, ends: Any, used: Any) -> Any:
    y = np.ma.masked_all((len(x), w.shape[2]))
    for e in range(len(w)):
        rows = slice(min(ends[e], len(x)), min(ends[e + 1], len(x)))
        y[rows] = x[rows] @ w[e]
    return y


def grouped_by(pads: Any, wrong: float = 1.0) -> Any:
    def run(x: Any, w: Any, ends: Any, used: Any, y: Any) -> None:
        assert ends[0] == 0 and ends[-1] == len(used) and (np.diff(ends) >= 0).all()
        for e in range(len(w)):
            rows = slice(min(ends[e], len(x)), min(ends[e + 1], len(x)))
            y[rows] = x[rows].astype(np.float64) @ w[e].astype(np.float64) * wrong
        if pads is not None:
            y[ends[-1] :] = pads

    return run


def test_rows_of_no_group_are_skipped_and_offsets_end_at_their_letter() -> None:
    """Of 48 rows 32 belong to a group: the others need not be written, and hold anything."""
    sizes = {"T": 48, "K": 24, "E": 4, "N": 20, "U": 32}
    case = {"name": "padded", "dims": sizes, "dtypes": ["f32"], "use": ["test", "tune"]}
    dlblas.register_operator(GROUPED, grouped, cases=[case])
    dlblas.register("own_grouped", "leaves", grouped_by(None), deterministic=True)
    dlblas.register("own_grouped", "zeros", grouped_by(0), deterministic=True)
    dlblas.register("own_grouped", "wrong", grouped_by(0, 1.01))
    rng = np.random.default_rng(2)
    x, used = rng.standard_normal((48, 24)).astype("f"), np.zeros(32, "f")
    w = rng.standard_normal((4, 24, 20)).astype("f")
    ends = np.array([0, 5, 5, 20, 32], np.int32)
    for lent in (True, False):
        args = (x, w, ends if lent else dlblas.Spec((5,), "i32"), used)
        report = dlblas.tune("own_grouped", args, seconds=1, force=True)
        rows = {row["implementation"]: row.get("failure") for row in report["evaluated"]}
        assert rows == {"leaves": None, "zeros": None, "wrong": "wrong_result"}, report
    y = np.full((48, 20), 7, np.float32)
    with dlblas.pinned("own_grouped", "reference"):
        dlblas.own_grouped(x, w, ends, used, out=y)  # type: ignore[attr-defined]
    assert (y[32:] == 7).all() and not (y[:32] == 7).any()
    verdict = dlblas.verify("own_grouped", (x, w, ends, used), y)
    assert verdict.ok and verdict.checked == 32 * 20

    from dlblas.harness import expand, load_registry, run_group

    registry = load_registry()
    cases = [c for c in expand(registry) if c.op == "own_grouped"]
    for name, status in {"leaves": "passed", "zeros": "passed", "wrong": "failed"}.items():
        outcomes = run_group(registry, cases, name, 0)
        assert [o.status for o in outcomes] == [status], outcomes


def test_an_operator_without_results() -> None:
    torch = pytest.importorskip("torch")

    def store(x: Any, cache: Any, slots: Any) -> None:
        cache[slots[slots >= 0]] = x[slots >= 0]

    dlblas.register_operator(
        "own_store(x: f[T, C], cache: like(x)[P, C]!, slots: i64[T] ~distinct<P|-1) -> () "
        "where T: bucket(tokens)",
        store,
    )
    dlblas.register("own_store", "right", store)
    dlblas.register("own_store", "shifted", lambda x, cache, slots: store(x, cache, slots[::-1]))
    dlblas.register("own_store", "nothing", lambda x, cache, slots: None)
    rng = np.random.default_rng(3)
    x, cache = rng.standard_normal((6, 8)).astype("f"), np.zeros((20, 8), "f")
    slots = np.array([3, -1, 19, 0, 7, 5])
    report = dlblas.tune("own_store", (x, cache, slots), seconds=1)
    rows = {row["implementation"]: row.get("failure") for row in report["evaluated"]}
    assert rows == {"right": None, "shifted": "wrong_result", "nothing": "wrong_result"}, report
    before = cache.copy()
    assert dlblas.own_store(x, cache, slots) is None  # type: ignore[attr-defined]
    assert (cache[[3, 19, 0, 7, 5]] == x[[0, 2, 3, 4, 5]]).all() and not cache[[1, 2, 4]].any()
    assert dlblas.verify("own_store", (x, before, slots), cache).ok
    assert dlblas.verify("own_store", (x, before, slots), before).wrong == 40

    from dlblas.harness import expand, load_registry, run_group

    registry = load_registry()
    cases = [c for c in expand(registry) if c.op == "own_store"]
    for name, status in {"right": "passed", "nothing": "failed"}.items():
        outcomes = run_group(registry, cases[-2:], name, 0)
        assert [o.status for o in outcomes] == [status] * 2, outcomes

    there = torch.zeros(20, 8)
    given = torch.from_numpy(x), there, torch.from_numpy(slots)
    assert torch.ops.dlblas.own_store(*given) is None
    assert (there.numpy() == cache).all()
    assert not hasattr(torch.ops.dlblas, "own_store_out")
    torch.library.opcheck(torch.ops.dlblas.own_store.default, given)


def test_default_cases_are_small_whatever_the_number_of_letters() -> None:
    dlblas.register_operator(
        "own_wide(x: f[A, B, C, D, E, F]) -> y: f[A, B, C, D, E, F]", lambda x: x
    )
    cases = dlblas.own.cases("own_wide")
    assert {case["name"] for case in cases} == {"ones", "small", "odd", "even", "plain"}
    for case in cases:
        assert np.prod(list(case["dims"].values()), dtype=object) <= 1 << 20, case
    assert max(cases[-1]["dims"].values()) > 1


@pytest.mark.gpu
@pytest.mark.parametrize("name", F8)
def test_f8_of_cuda_text_is_that_of_the_reference(name: str) -> None:
    """Rounded in the kernel by one instruction, on the host by arithmetic: the same codes."""
    torch = pytest.importorskip("torch")
    op = f"own_gpu_narrow_{name}"
    schema = f"{op}(x: f32[N]) -> (y: {name}[N], z: f32[N])"
    dlblas.register_operator(schema, lambda x: (x, x.astype(f8_type(name)).astype(np.float64)))
    text = """extern "C" __global__ void narrow(own::y* y, own::z* z, const own::x* x, long N) {
      const long i = blockIdx.x * 256L + threadIdx.x;
      if (i >= N) return;
      y[i] = x[i];
      z[i] = y[i];
    }"""
    dlblas.register(op, "text", text, grid="ceil_div(N, 256)", block=256)
    codes = np.arange(256, dtype=np.uint8).view(f8_type(name)).astype(np.float32)
    exact = codes[np.isfinite(codes)]
    rng = np.random.default_rng(0)
    x = np.concatenate([exact, rng.standard_normal(1 << 16).astype(np.float32) * exact.max() / 4])
    x = np.clip(x, -exact.max(), exact.max())
    there = torch.from_numpy(x).cuda()
    with dlblas.pinned(op, "text"):
        y, z = getattr(dlblas, op)(there)
    expected = x.astype(f8_type(name))
    np.testing.assert_array_equal(y.view(torch.uint8).cpu().numpy(), expected.view(np.uint8))
    np.testing.assert_array_equal(z.cpu().numpy(), expected.astype(np.float32))
    assert dlblas.verify(op, (there,), (y, z)).ok
    report = dlblas.tune(op, (there,), seconds=1)
    assert report["winner"]["implementation"] == "text", report


@pytest.mark.gpu
def test_written_inputs_on_a_gpu_are_compared_there() -> None:
    torch = pytest.importorskip("torch")

    def ref(x: Any, state: Any) -> Any:
        return 2 * (0.5 * state + x), 0.5 * state + x

    dlblas.register_operator(
        "own_gpu_step(x: f[*T, C], state: like(x)[*T, C]!) -> y: like(x)[*T, C]", ref
    )

    def right(x: Any, state: Any, y: Any) -> None:
        state.mul_(0.5).add_(x)
        torch.mul(state, 2, out=y)

    def sevens(x: Any, state: Any, y: Any) -> None:
        torch.mul(0.5 * state + x, 2, out=y)
        state.fill_(7)

    dlblas.register("own_gpu_step", "right", right, devices="cuda")
    dlblas.register("own_gpu_step", "sevens", sevens, devices="cuda")
    x, state = torch.randn(2, 300, 128, device="cuda")
    report = dlblas.tune("own_gpu_step", (x, state), seconds=2)
    rows = {row["implementation"]: row for row in report["evaluated"]}
    assert report["winner"]["implementation"] == "right", rows
    assert rows["sevens"]["failure"] == "wrong_result"
    assert "of the written input state" in rows["sevens"]["note"]
    before = state.clone()
    y = dlblas.own_gpu_step(x, state)  # type: ignore[attr-defined]
    assert dlblas.verify("own_gpu_step", (x, before), (y, state)).ok
    assert not dlblas.verify("own_gpu_step", (x, before), (y, before)).ok
