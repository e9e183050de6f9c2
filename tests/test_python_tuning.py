"""get_op, tune, explain, pin, the oracle and the cache from Python, each in its own store.

The store's path is read from the environment once: tests that need an empty store run in a child.
Read next: python/dlblas/tuning.py, python/dlblas/spaces.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import dlblas
import numpy as np
import pytest
from dlblas import spaces


def run_child(code: str, cache: Path) -> dict:
    """Runs code in a new process with its own store; returns the JSON on its last output line."""
    package = Path(dlblas.__file__).parent.parent
    env = {
        **os.environ,
        "DLBLAS_CACHE": str(cache),
        "PYTHONPATH": str(package),
        "DLBLAS_TUNE_SECONDS": "2",
    }
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=env,
        capture_output=True,
        text=True,
        timeout=480,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


GET_OP = """
    import json, dlblas, numpy as np
    a, b = np.ones((4, 32), np.float32), np.ones((32, 16), np.float32)
    args = (a, b, "leaky_relu")
    op = dlblas.get_op("matmul", args, seconds=1.0, max_evaluations=12)
    tuned = dlblas.counters()["measured"]
    again = dlblas.get_op("matmul_leaky_relu", (a, b), seconds=1.0)
    y = op(-a, b)
    print(json.dumps({
        "tuned": tuned, "measured": dlblas.counters()["measured"],
        "value": float(y[0, 0]),
        "default": float(op(-a, b, "")[0, 0]), "name": op.name,
        "same": bool((again(-a, b) == y).all()),
        "source": op.explain().as_dict()["source"], "report": bool(op.report),
        "launched": dlblas.counters()["launched"],
    }))
"""


def test_get_op_tunes_once_and_a_new_process_measures_nothing(tmp_path):
    first = run_child(GET_OP, tmp_path)
    assert first["tuned"] > 0
    assert first["measured"] == first["tuned"]  # the second get_op was a hit
    assert first["value"] == pytest.approx(-0.32)
    assert first["default"] == -32
    assert first["same"] and first["report"]
    assert (first["name"], first["source"]) == ("matmul", "store")
    second = run_child(GET_OP, tmp_path)
    assert second["measured"] == 0
    assert second["source"] == "store"


BUDGET = (
    "import dlblas; "
    "x, w = dlblas.Spec((4, 64), 'f32'), dlblas.Spec((64,), 'f32'); "
    "[dlblas.tune('rms_norm', (x, w), max_evaluations=1) for _ in range(2)]"
)


@pytest.mark.parametrize(
    ("given", "warned"),
    [(word, True) for word in ("abc", "10s", "-1", "0", "nan", "inf", "1e999", " ")]
    + [(word, False) for word in ("", "0.5", "1e1")],
)
def test_a_budget_in_the_environment_that_is_none_is_said(
    given: str, warned: bool, tmp_path: Path
) -> None:
    """As for the other variables: one warning, and the default applies."""
    package = Path(dlblas.__file__).parent.parent
    env = {"DLBLAS_CACHE": str(tmp_path), "PYTHONPATH": str(package), "DLBLAS_TUNE_SECONDS": given}
    done = subprocess.run(
        [sys.executable, "-c", BUDGET],
        env={**os.environ, **env}, capture_output=True, text=True, timeout=480,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    line = (
        "dlblas: DLBLAS_TUNE_SECONDS has a wrong value; expected a number of seconds above 0, "
        f"got {given}; it is ignored\n"
    )
    assert done.stderr.count("DLBLAS_TUNE_SECONDS") == warned
    assert (line in done.stderr) == warned, done.stderr


TUNE = """
    import json, dlblas
    x, w = dlblas.Spec((16, 256), "f32"), dlblas.Spec((256,), "f32")
    events = []
    report = dlblas.tune("rms_norm", (x, w), kwargs={"weight_offset": 1.0}, seconds=1.5, seed=3,
                         strategy="random", max_evaluations=6, progress=events.append)
    print(json.dumps({"kinds": [e.kind for e in events], "best": events[-1].best,
                      "text": str(report), "cache": len(dlblas.cache.ls()),
                      "path": dlblas.cache.path(),
                      "good": dlblas.cache.verify()["good"],
                      "shown": len(dlblas.cache.show(dlblas.cache.ls()[0]["hash"])["candidates"]),
                      "removed": dlblas.cache.clear(), "left": len(dlblas.cache.ls())}))
"""


def test_tune_reports_progress_and_fills_the_cache(tmp_path):
    got = run_child(TUNE, tmp_path)
    assert got["kinds"][0] == "start" and got["kinds"][-1] == "done"
    assert "measured" in got["kinds"]
    assert got["best"] and got["text"]
    assert got["cache"] == 1 and got["good"] >= 1 and got["shown"] >= 1
    assert got["path"].startswith(str(tmp_path))
    assert got["removed"] >= 1 and got["left"] == 0


INTERRUPT = """
    import json, dlblas
    x, w = dlblas.Spec((16, 256), "f32"), dlblas.Spec((256,), "f32")
    seen = []
    def stop(event):
        seen.append(event.kind)
        if event.kind == "measured":
            raise KeyboardInterrupt("enough")
    try:
        dlblas.tune("rms_norm", (x, w), seconds=5, progress=stop)
        raised = False
    except KeyboardInterrupt as reason:
        raised = str(reason) == "enough"
    try:
        dlblas.tune("rms_norm", (x, w), seconds=1, where=lambda implementation: 1 / 0, force=True)
        mine = False
    except ZeroDivisionError:
        mine = True
    print(json.dumps({"raised": raised, "after": seen[seen.index("measured") + 1:], "mine": mine,
                      "kept": len(dlblas.cache.ls())}))
"""


def test_an_exception_in_a_callback_stops_the_search_and_keeps_what_was_measured(tmp_path):
    got = run_child(INTERRUPT, tmp_path)
    assert got == {"raised": True, "after": [], "mine": True, "kept": 1}


NARROW = """
    import json, dlblas
    from dlblas.spaces import ChoiceSpace, PowerOfTwoSpace
    a, b = dlblas.Spec((64, 64), "f32"), dlblas.Spec((64, 64), "f32")
    tried = []
    def note(event):
        if event.kind in ("measured", "failed"):
            config = dict(word.split("=") for word in event.config.split() if "=" in word)
            tried.append((event.implementation, config))
    dlblas.tune("matmul", (a, b), seconds=2, max_evaluations=40, implementations=["cpu_baseline"],
                space={"block_k": PowerOfTwoSpace(1, 256), "cpu_baseline": {"order": ["columns"]}},
                where=["block_n <= 512", lambda block_m, block_n: block_m * block_n <= 96 * 512],
                progress=note)
    print(json.dumps(tried))
"""


def test_space_and_where_narrow_the_search(tmp_path):
    tried = run_child(NARROW, tmp_path)
    assert len(tried) > 2
    for implementation, config in tried[1:]:  # the first is today's choice: a winner must beat it
        assert implementation == "cpu_baseline"
        assert int(config["block_k"]) <= 256
        assert config["order"] == "columns"
        assert int(config["block_n"]) <= 512
        assert int(config["block_m"]) * int(config["block_n"]) <= 96 * 512


NARROWED_HITS = """
    import json
    import numpy as np
    import dlblas
    x, w = np.ones((8, 256), np.float32), np.ones(256, np.float32)
    rows = []
    for options in ({}, {"implementations": ["cpu_baseline"]}, {"space": {"task_kib": [256]}}):
        before = dlblas.counters()["measured"]
        report = dlblas.get_op("rms_norm", (x, w), seconds=1, **options).report
        rows.append((report["winner"], report["served"], dlblas.counters()["measured"] - before))
    print(json.dumps(rows))
"""


def test_a_narrowed_get_op_answers_inside_the_narrowing(tmp_path):
    (best, _, first), (baseline, served, second), (four, _, _) = run_child(NARROWED_HITS, tmp_path)
    assert first > 0
    assert second == 0  # a hit
    assert baseline["implementation"] == "cpu_baseline"
    assert "task_kib=256" in four["config"].split()  # a hit or not: by chance of what was kept
    assert served == best


X = np.ones((4, 64), np.float32)
W = np.ones(64, np.float32)


def test_explain_names_every_candidate():
    explanation = dlblas.explain("rms_norm", X, W)
    table = explanation.as_dict()
    listed = {row["implementation"] for row in table["candidates"]}
    known = {
        i["name"]
        for op in dlblas.info()["operators"]
        if op["name"] == "rms_norm"
        for i in op["implementations"]
    }
    assert listed == known
    assert all(row["supports"] or row["reason"] for row in table["candidates"])
    for_gpus = {name for name in known if name.startswith("cuda_")}
    shown = {name for name in known if name in str(explanation)}
    if shown != known:  # without a GPU those for GPUs are one line
        assert shown == known - for_gpus
        assert f" {len(for_gpus)} for GPUs; -v shows them" in str(explanation)
    assert repr(explanation) == str(explanation)


def test_pins_hold_and_are_restored():
    y = dlblas.rms_norm(X, W)
    with dlblas.pinned("rms_norm", "reference"):
        assert dlblas.explain("rms_norm", X, W).as_dict()["source"] == "pinned"
        np.testing.assert_allclose(dlblas.rms_norm(X, W), y, rtol=1e-6)
        with dlblas.pinned("rms_norm_", "cpu_baseline"):
            assert dlblas.explain("rms_norm", X, W).as_dict()["implementation"] == "cpu_baseline"
        assert dlblas.explain("rms_norm", X, W).as_dict()["implementation"] == "reference"
    assert dlblas.explain("rms_norm", X, W).as_dict()["source"] != "pinned"
    with pytest.raises(dlblas.errors.ArgumentError):
        dlblas.pin("rms_norm", "no_such_implementation")
    with pytest.raises(dlblas.errors.ArgumentError, match="config has no implementation"):
        dlblas.pin("rms_norm", None, "block=1")


def test_oracle():
    x = np.random.default_rng(0).standard_normal((2, 3, 64), np.float32)
    (y,) = dlblas.reference("rms_norm", (x, W), {"eps": 1e-3})
    wide = x.astype(np.float64)
    np.testing.assert_allclose(
        y.value, wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-3), rtol=1e-6
    )
    assert y.name == "y" and y.value.shape == y.magnitude.shape == x.shape
    out = dlblas.rms_norm(x, W, eps=1e-3)
    assert (abs(out - y.value) <= y.allowed()).all()
    (some,) = dlblas.reference("rms_norm", (x, W), {"eps": 1e-3}, rows=[4, 0])
    np.testing.assert_array_equal(some.value, y.value.reshape(6, 64)[[4, 0]])

    good = dlblas.verify("rms_norm", (x, W), out, {"eps": 1e-3})
    assert good.ok and good.checked == x.size and not good.mistrusted
    with pytest.raises(TypeError, match="verify: args is not a tuple"):
        dlblas.verify("rms_norm", [x, W], out)
    out[1, 2, 5] += 0.1
    bad = dlblas.verify("rms_norm", (x, W), out, {"eps": 1e-3})
    assert not bad.ok and (bad.wrong, bad.first_wrong) == (1, 5 * 64 + 5)
    assert dlblas.verify("rms_norm", (x, W), out, {"eps": 1e-3}, rows=[0, 1]).ok


def test_names_that_dlblas_users_know():
    from dlblas.utils import get_args_from_op_name, get_list_op_names

    assert {*get_list_op_names()} > {*dlblas.list_operators()}
    assert get_list_op_names() == sorted({*get_list_op_names()})
    assert {"matmul", "rms_norm", "add_rms_norm"} <= set(get_list_op_names())
    assert {"flash_attention_v2", "fused_moe", "fp8_gemm", "topk_gating"} <= {*get_list_op_names()}
    assert get_args_from_op_name("flash_attention_v2")[:3] == ["q", "k", "v"]
    assert get_args_from_op_name("matmul")[:3] == ["a", "b", "activation"]


DOMAINS = {
    "fast": {"block": [16, 32, 48, 64], "order": ["mn", "nm"]},
    "slow": {"block": [8, 16]},
}


class TestSpaces:
    def test_rows(self):
        rows, empty = spaces.narrow({"block": spaces.PowerOfTwoSpace(16, 64)}, DOMAINS)
        assert rows == [("fast", "block", "16,32,64"), ("slow", "block", "16")]
        assert not empty
        rows, empty = spaces.narrow(
            spaces.DictSpace(block=spaces.RangeSpace(20.5, 50), fast={"order": "nm"}), DOMAINS
        )
        assert rows == [("fast", "block", "32,48"), ("fast", "order", "nm")]
        assert empty == {"slow"}
        rows, empty = spaces.narrow({"fast.block": [32], "slow.block": [16]}, DOMAINS)
        assert rows == [("fast", "block", "32"), ("slow", "block", "16")] and not empty

    def test_membership(self):
        assert 48 in spaces.DiscreteSpace(1, 48) and 48.5 not in spaces.DiscreteSpace(1, 50)
        assert 0 not in spaces.PowerOfTwoSpace(0, 8) and 8 in spaces.PowerOfTwoSpace(0, 8)
        assert "a" in spaces.ChoiceSpace(["a", 1]) and 2 not in spaces.FixedSpace(1)

    @pytest.mark.parametrize(
        "space, words",
        [
            ({"blok": [1]}, "names an unknown knob blok; expected block, order"),
            ({"block": [17]}, "asks for a value outside the domain"),
            ({"block": spaces.RangeSpace(65, 70)}, "leaves no value"),
            ({"quick": {"block": [16]}}, "names no implementation; expected fast, slow"),
            ({"fasd.block": [16]}, r"'fasd'\] names no implementation;.* did you mean fast\?"),
            ({"fast.blok": [16]}, r"names an unknown knob blok;.* did you mean block\?"),
        ],
    )
    def test_mistakes(self, space, words):
        with pytest.raises(dlblas.errors.ArgumentError, match=words):
            spaces.narrow(space, DOMAINS)
        with pytest.raises(dlblas.errors.ArgumentError):
            spaces.RangeSpace(2, 1)

    def test_where(self):
        keep = spaces.compile_where("block % 32 == 0 and order in ('mn', 'nn')", DOMAINS)
        assert keep("fast", "block=32 order=mn")
        assert not keep("fast", "block=48 order=mn")
        assert not keep("fast", "block=32 order=nm")
        assert keep("slow", "block=48")  # it has no `order`: the predicate says nothing about it
        both = spaces.compile_where([lambda block: block > 16, "implementation != 'slow'"], DOMAINS)
        assert both("fast", "block=32 order=mn") and not both("slow", "block=32")
        assert spaces.compile_where("16 < block <= 48", DOMAINS)("fast", "block=48 order=mn")
        assert spaces.compile_where(None, DOMAINS) is None

    @pytest.mark.parametrize(
        "text, words",
        [
            ("__import__('os')", "holds what is not allowed"),
            ("block.real > 1", "holds what is not allowed"),
            ("block[0]", "holds what is not allowed"),
            ("block >", "does not parse"),
            ("2 ** block", "holds what is not allowed"),
            ("block " + "+ 1" * 1000, "is too long"),
            ("blok > 1", "names an unknown knob blok"),
        ],
    )
    def test_texts_that_are_refused(self, text, words):
        with pytest.raises(dlblas.errors.ArgumentError, match=words):
            spaces.compile_where(text, DOMAINS)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"foo": 1}, "foo is not an option; expected seconds, effort, strategy, .*, got foo"),
        ({"seed": -1}, r"seed is out of range; expected an integer from 0 to 2\^64 - 1, got -1"),
        ({"seed": 1.5}, "seed is out of range"),
        ({"seed": 2**64}, "seed is out of range"),
        ({"seconds": -1}, "seconds is no budget; expected a finite number above 0, got -1"),
        ({"seconds": 0}, "seconds is no budget"),
        ({"seconds": float("nan")}, "seconds is no budget"),
        ({"seconds": float("inf")}, "seconds is no budget"),
        ({"seconds": "1"}, "seconds is no budget"),
        ({"max_evaluations": 0}, "max_evaluations is out of range"),
        ({"max_evaluations": 2**31}, "max_evaluations is out of range"),
        ({"implementations": []}, "implementations leaves none; expected at least one name"),
        ({"implementations": "cpu_baseline,"}, "implementations leaves none"),
        ({"implementations": [1]}, "implementations has the wrong type"),
        ({"implementations": 3}, "implementations has the wrong type"),
        ({"strategy": 3}, "strategy has the wrong type"),
        ({"space": [1]}, "space has the wrong type"),
        ({"progress": 1}, "progress has the wrong type"),
        ({"effort": "lots"}, "effort is unknown; expected quick, normal, thorough, got 'lots'"),
        ({"effort": "quick", "seconds": 1}, "effort is given with seconds"),
        ({"effort": 3}, "effort has the wrong type"),
        ({"log": 3}, "log has the wrong type"),
        ({"log": "/dev/null/log.csv"}, "log cannot be written"),
    ],
)
@pytest.mark.parametrize("function", [dlblas.tune, dlblas.get_op])
def test_options_are_judged_before_the_search(function, options, words):
    x, w = dlblas.Spec((4, 64), "f32"), dlblas.Spec((64,), "f32")
    measured = dlblas.counters()["measured"]
    with pytest.raises(dlblas.errors.ArgumentError, match=f"^{function.__name__}: {words}") as e:
        function("rms_norm", (x, w), **options)
    assert e.value.argument == next(iter(options))
    assert dlblas.counters()["measured"] == measured


def test_a_space_that_leaves_nothing_of_the_chosen_implementations():
    a, b = dlblas.Spec((4, 64), "f32"), dlblas.Spec((64, 64), "f32")
    with pytest.raises(dlblas.errors.ArgumentError, match="implementations leaves none"):
        dlblas.tune("matmul", (a, b), implementations=["cpu_avx2"], space={"tile": ["6x64"]})


class TestDeterministic:
    """oneDNN is the only implementation here whose bits may vary."""

    A, B = np.ones((64, 64), np.float32), np.ones((64, 64), np.float32)

    @pytest.fixture(autouse=True)
    def _onednn(self):
        if self.reason() is not None:
            pytest.skip(f"onednn: {self.reason()}")

    def reason(self):
        """Why oneDNN does not serve this problem; None if it may."""
        rows = dlblas.explain("matmul", self.A, self.B).as_dict()["candidates"]
        row = next(row for row in rows if row["implementation"] == "onednn")
        return None if row["supports"] else row["reason"]

    def widest(self):
        rows = dlblas.explain("matmul", self.A, self.B).as_dict()["candidates"]
        blocked = ("cpu_avx512", "cpu_avx2", "cpu_baseline")
        return next(
            r["implementation"]
            for n in blocked
            for r in rows
            if r["implementation"] == n and r["supports"]
        )

    def test_explain_and_tune(self):
        with dlblas.deterministic():
            assert "not deterministic" in self.reason()
            with dlblas.deterministic(False):
                assert self.reason() is None
            assert "not deterministic" in self.reason()
            report = dlblas.tune(
                "matmul", (self.A, self.B), seconds=0.2, implementations=["onednn", self.widest()]
            )
        row = next(row for row in report.candidates if row["implementation"] == "onednn")
        assert not row["takes_part"] and "not deterministic" in row["reason"]
        assert self.reason() is None

    def test_calls(self):
        with dlblas.pinned("matmul", "onednn"):
            dlblas.matmul(self.A, self.B)
            with dlblas.deterministic(), pytest.raises(dlblas.Error, match="not deterministic"):
                dlblas.matmul(self.A, self.B)
            dlblas.matmul(self.A, self.B)

    def test_one_instance_nests_and_ends_with_an_exception(self):
        once = dlblas.deterministic()
        with pytest.raises(ZeroDivisionError), once:
            with once:
                pass
            assert self.reason() is not None
            _ = 1 / 0
        assert self.reason() is None

    def test_other_threads_are_not_affected(self):
        from concurrent.futures import ThreadPoolExecutor

        with dlblas.deterministic(), ThreadPoolExecutor(1) as pool:
            assert pool.submit(self.reason).result() is None
            assert self.reason() is not None
