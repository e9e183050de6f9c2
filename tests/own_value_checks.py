"""A user's own operator and its values: inputs that it writes, results in f8, undefined elements,
no result at all. Each is compared in a search, by verify and by the harness.

An operator stays for the process, so test_own_operator.py runs this file in one of its own.
Read next: own_operator_checks.py.
"""

from __future__ import annotations

from typing import Any

import dlblas
import numpy as np
import pytest
from dlblas.errors import ArgumentError

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
    """Of 48 rows, 32 belong to a group; the others need not be written and may hold anything."""
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


def failures(op: str, args: Any, **functions: Any) -> dict[str, Any]:
    """The failure kind that a search reports for each function; None for a right one."""
    for name, function in functions.items():
        dlblas.register(op, name, function)
    report = dlblas.tune(op, args, seconds=2, force=True)
    return {row["implementation"]: row.get("failure") for row in report["evaluated"]}


def filled(make: Any) -> Any:
    def run(x: Any, y: Any) -> None:
        y[...] = make(x)

    return run


def test_integers_are_right_or_wrong() -> None:
    """An id that differs by a few is a different id, however large both are."""
    rng = np.random.default_rng(0)
    dlblas.register_operator("own_ids(x: f[T, C]) -> y: i32[T]", lambda x: x.argmax(-1))
    found = failures(
        "own_ids", (rng.standard_normal((64, 65_536)).astype(np.float32),),
        right=filled(lambda x: x.argmax(-1)),
        coarse=filled(lambda x: x.argmax(-1) // 16 * 16),
        next=filled(lambda x: x.argmax(-1) + 1),
    )  # fmt: skip
    assert found == {"right": None, "coarse": "wrong_result", "next": "wrong_result"}
    dlblas.register_operator("own_positive(x: f[T, C]) -> y: bool[T, C]", lambda x: x > 0)
    found = failures(
        "own_positive", (rng.standard_normal((64, 4096)).astype(np.float32),),
        right=filled(lambda x: x > 0), other=filled(lambda x: x > 0.25),
    )  # fmt: skip
    assert found == {"right": None, "other": "wrong_result"}


WIDE = {"own_wide": 2**60 + 77, "own_most": 2**63 - 400_001, "own_least": -(2**63), "own_53": 2**53}


@pytest.mark.parametrize("op", WIDE)
def test_integers_beyond_f64_are_compared_whole(op: str) -> None:
    base = WIDE[op]
    dlblas.register_operator(
        f"{op}(x: i64[T, C]~index<100000) -> y: i64[T, C]", lambda x: x * 3 + base
    )
    x = np.random.default_rng(0).integers(0, 100_000, (128, 64))
    found = failures(
        op, (x,), right=filled(lambda x: x * 3 + base), off=filled(lambda x: (x * 3 + base) ^ 1),
        floats=filled(lambda x: np.clip((x * 3.0 + base), -(2.0**63), 2.0**63 - 1024)),
    )  # fmt: skip
    assert found == {"right": None, "off": "wrong_result", "floats": "wrong_result"}
    with dlblas.pinned(op, "reference"):
        np.testing.assert_array_equal(getattr(dlblas, op)(x), x * 3 + base)
    verdicts = [dlblas.verify(op, (x,), x * 3 + base + by) for by in (0, 1)]
    assert [verdict.wrong for verdict in verdicts] == [0, x.size]


def test_a_judge_sees_integers_whole() -> None:
    base = 2**60
    dlblas.register_operator(
        "own_judged(x: i64[T]~index<100000) -> y: i64[T]", lambda x: x + base,
        judge=lambda inputs, results, reference: results.y != reference.y,
    )  # fmt: skip
    x = np.arange(64)
    verdicts = [dlblas.verify("own_judged", (x,), x + base + by) for by in (0, 1)]
    assert [verdict.wrong for verdict in verdicts] == [0, 64]


def test_f64_is_held_to_its_own_precision() -> None:
    dlblas.register_operator(
        "own_double(x: f64[*T, C]) -> y: like(x)[*T, C]",
        lambda x: x / (x * x).sum(-1, keepdims=True),
    )
    found = failures(
        "own_double", (np.random.default_rng(0).standard_normal((64, 256)),),
        right=filled(lambda x: x / (x * x)[:, ::-1].cumsum(-1)[:, -1:]),
        single=filled(lambda x: x.astype("f4") / (x.astype("f4") ** 2).sum(-1, keepdims=True)),
    )  # fmt: skip
    assert found == {"right": None, "single": "wrong_result"}


@pytest.mark.gpu
@pytest.mark.parametrize("name", F8)
def test_f8_of_cuda_text_is_that_of_the_reference(name: str) -> None:
    """The kernel rounds with one instruction, the host with arithmetic: the codes are the same."""
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
