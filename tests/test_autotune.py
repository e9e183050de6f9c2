"""dlblas.autotune and dlblas.missed: they find what a program ran untuned, whatever calls it, and
search for it once; a file of keys can be searched elsewhere.

Read next: python/dlblas/_autotune.py, src/dispatch/problem_text.cpp.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import subprocess
import sys

import dlblas
import numpy as np
import pytest
from dlblas import _autotune, _specs
from worker_children import child, run

W = np.ones(48, "f")


def x(rows: int) -> np.ndarray:
    return np.ones((rows, 48), "f")


def test_what_is_missed_is_searched_once_and_served() -> None:
    with dlblas.autotune(seconds=0.3, worker=False) as session:
        for _ in range(3):
            dlblas.rms_norm(x(5), W)
        dlblas.rms_norm_(x(17), W)
        assert [key.op for key in session.missed] == ["rms_norm", "rms_norm"]
        assert session.report == []
    first, second = session.missed
    assert first.why == "model" and "[T=8 C=48]" in first.problem and str(first) in str(first)
    assert second.key["tensors"].endswith("in=x")
    assert [report["source"] for report in session.report] == ["tuned", "tuned"]
    assert "rms_norm [T=8 C=48]" in str(session.report)
    assert dlblas.explain("rms_norm", x(5), W).as_dict()["source"] == "store"
    measured = dlblas.counters()["measured"]
    with dlblas.autotune(seconds=0.3, worker=False) as again:
        dlblas.rms_norm(x(5), W)
    assert again.missed == [] and str(again.report) == "nothing was missed"
    assert dlblas.counters()["measured"] == measured


def test_a_key_chosen_before_the_session_is_found_and_a_pinned_one_is_not() -> None:
    dlblas.softmax(x(3))
    with dlblas.autotune(seconds=0) as session:
        dlblas.softmax(x(3))
        with dlblas.pinned("silu_and_mul", "reference"):
            dlblas.silu_and_mul(x(3))
    assert [key.op for key in session.missed] == ["softmax"] and session.report == []
    assert "softmax" in {key.op for key in dlblas.missed()}


def test_progress_and_a_failure_inside() -> None:
    kinds = []
    with dlblas.autotune(
        seconds=0.2, worker=False, progress=lambda event: kinds.append(event.kind)
    ) as session:
        dlblas.log_softmax(x(3))
    assert kinds[0] == "start" and kinds[-1] == "done" and len(session.report) == 1
    with pytest.raises(ZeroDivisionError), dlblas.autotune(seconds=0.2) as session:
        dlblas.silu(x(3))
        raise ZeroDivisionError
    assert [key.op for key in session.missed] == ["silu"] and session.report == []


def test_wrong_options_are_refused_before_anything_runs() -> None:
    for options, words in [
        ({"seconds": -1}, "seconds is no budget"),
        ({"second": 1}, "second is not an option"),
        ({"progress": 3}, "progress has the wrong type"),
    ]:
        with pytest.raises(dlblas.errors.ArgumentError, match=words):
            dlblas.autotune(**options)
    session = dlblas.autotune(seconds=0)
    with session, pytest.raises(dlblas.errors.ArgumentError, match="session is open"), session:
        pass


def test_a_key_that_cannot_be_measured_ends_no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    with dlblas.autotune(seconds=0) as session:
        dlblas.gelu(x(3))
        dlblas.gelu_tanh(x(3))
    real = _autotune.tune_key

    def tune_key(key, **options):
        if key["op"] == "gelu":
            raise dlblas.errors.TuningFailedError("no configuration works\n…")
        return real(key, **options)

    monkeypatch.setattr(_autotune, "tune_key", tune_key)
    report = _autotune.tune_missed(session.missed, seconds=0.2, worker=False)
    assert [row["source"] for row in report] == ["failed", "tuned"]
    assert "gelu [T=4 F=48]: -; failed: no configuration works\n" in str(report)


def test_every_path_of_torch(tmp_path: pathlib.Path) -> None:
    torch = pytest.importorskip("torch")
    w = torch.ones(48)
    norm = dlblas.nn.RMSNorm(48)
    compiled = torch.compile(lambda t: norm(t).relu(), fullgraph=True, backend="aot_eager")
    with torch.no_grad(), dlblas.autotune(seconds=0) as session:
        dlblas.rms_norm(torch.ones(33, 48), w)
        torch.ops.dlblas.rms_norm_out(torch.ones(65, 48), w, torch.empty(65, 48))
        norm(torch.ones(97, 48))
        compiled(torch.ones(129, 48))
    dims = [key.key["dims"] for key in session.missed]
    assert dims == ["T=64 C=48", "T=96 C=48", "T=128 C=48", "T=192 C=48"]
    threads = {key.key["threads"] for key in session.missed}
    assert threads == {str(torch.get_num_threads())}


SESSION = """
    import json, numpy as np, dlblas
    x, w = np.ones((40, 96), "f"), np.ones(96, "f")
    with dlblas.autotune(seconds=1.5) as session:
        dlblas.rms_norm(x, w)
        dlblas.softmax(x)
    print(json.dumps([[r["source"], r["waited_s"] if "waited_s" in r else 0]
                      for r in session.report] + [dlblas.counters()["measured"]]))
"""


def test_processes_of_a_host_search_a_key_once(tmp_path: pathlib.Path) -> None:
    ranks = [child(SESSION, tmp_path) for _ in range(2)]
    told = []
    for rank in ranks:
        out, err = rank.communicate(timeout=480)
        assert rank.returncode == 0, err
        told += [row[0] for row in json.loads(out.splitlines()[-1])[:-1]]
    # A process that starts late misses nothing; one that waits too long takes the default.
    assert told.count("tuned") == 2 and set(told) <= {"tuned", "store", "default"}, told


RECORD = """
    import numpy as np, dlblas
    with dlblas.autotune(seconds=0, missed={file!r}):
        dlblas.rms_norm(np.ones((40, 96), "f")[:, :64], np.ones(64, "f"))
        dlblas.silu_and_mul(np.ones((40, 96), "f"))
"""
SERVED = """
    import json, numpy as np, dlblas
    a = dlblas.explain("rms_norm", np.ones((40, 96), "f")[:, :64], np.ones(64, "f")).as_dict()
    b = dlblas.explain("silu_and_mul", np.ones((40, 96), "f")).as_dict()
    print(json.dumps([a["source"], b["source"]]))
"""


def command(*words: str, cache: pathlib.Path) -> subprocess.CompletedProcess[str]:
    package = os.path.dirname(os.path.dirname(dlblas.__file__))
    env = os.environ | {"DLBLAS_CACHE": str(cache), "PYTHONPATH": package}
    return subprocess.run(
        [sys.executable, "-m", "dlblas", *words], capture_output=True, text=True, env=env
    )


def test_a_file_of_keys_is_searched_by_the_command(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "missed.jsonl"
    for _ in range(2):  # it is appended to
        child(RECORD.format(file=str(file)), tmp_path / "cache").communicate(timeout=240)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["op"] for line in lines] == ["rms_norm", "silu_and_mul"] * 2
    assert "row_strided" in lines[0]["tensors"]
    words = ("tune", "--missed", str(file), "--seconds", "0.3", "--no-worker", "--json")
    done = command(*words, cache=tmp_path / "cache")
    assert done.returncode == 0, done.stderr
    assert [report["source"] for report in json.loads(done.stdout)] == ["tuned", "tuned"]
    again = command(*words, cache=tmp_path / "cache")
    assert [report["source"] for report in json.loads(again.stdout)] == ["store", "store"]
    assert run(SERVED, tmp_path / "cache")[0] == ["store", "store"]


def test_the_command_refuses_what_is_no_file_of_keys(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "bad.jsonl"
    for text, words in [
        ("{", "line 1 of --missed is no key"),
        ('{"dims": "T=1"}', "line 1 of --missed is no key"),
        ('{"op": "rms_norm", "dims": "T=1\\nflags=1"}', "line 1 of --missed is no key"),
        ('{"op": "rms_nrm"}', "rms_nrm"),
        ('{"op": "rms_norm", "dims": "T=1"}', "key's dims is malformed; expected T=… C=…, got \"T"),
    ]:
        file.write_text(f"\n{text}\n".lstrip() if "line" in words else text)
        done = command("tune", "--missed", str(file), cache=tmp_path)
        assert done.returncode == 2 and words in done.stderr, done.stderr
    done = command("tune", "rms_norm", "--missed", str(file), cache=tmp_path)
    assert done.returncode == 2 and "--missed has a problem beside it" in done.stderr
    done = command("tune", cache=tmp_path)
    assert done.returncode == 2 and "OP is missing" in done.stderr


EVERY = """
    import json, dlblas
    from dlblas import _native, _specs
    for row in _native.info()["operators"]:
        cases = next(filter(None, (list(_specs.cases(row, use)) for use in ("tune", "test"))), [])
        for form in row["forms"]:
            takes = {p["name"] for p in form["params"]}
            for case in cases[:3]:
                for dtype in case["dtypes"]:
                    named = _specs.named_arguments(row, case["dims"], {"": dtype}, case["args"])
                    dlblas.warmup(form["name"], **{k: v for k, v in named.items() if k in takes})
    print(json.dumps([[key.key, key.problem] for key in dlblas.missed()]))
"""
# Where measuring is off, a miss is an error that prints the problem.
READ = """
    import json, os, dlblas
    from dlblas import _autotune
    said = []
    for key in json.load(open(os.environ["KEYS"])):
        try:
            said.append(_autotune.tune_key(key)["source"])
        except dlblas.Error as error:
            said.append(f"{type(error).__name__}: {error}")
    print(json.dumps(said))
"""


@pytest.fixture(name="keys", scope="module")
def _keys(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[dict[str, str], str]]:
    found: list[tuple[dict[str, str], str]] = run(EVERY, tmp_path_factory.mktemp("every"))[0]
    return found


def read(keys: list[dict[str, str]], folder: pathlib.Path) -> list[str]:
    (folder / "keys.json").write_text(json.dumps(keys))
    said: list[str] = run(
        READ, folder / "cache", KEYS=str(folder / "keys.json"), DLBLAS_REQUIRE_HIT="1"
    )[0]
    return said


def test_keys_of_every_operator_are_read_back(keys, tmp_path: pathlib.Path) -> None:
    operators = {row["name"] for row in dlblas.info()["operators"]}
    built_in = {op for op in operators if list(_specs.cases(_specs.operator_row(op)[0], "test"))}
    assert {key["op"] for key, _ in keys} >= built_in and len(keys) > 300
    said = read([key for key, _ in keys], tmp_path)
    for (_, problem), words in zip(keys, said, strict=True):
        assert "is not in the store and DLBLAS_REQUIRE_HIT is set" in words and problem in words


def test_mangled_keys_are_refused_in_words(keys, tmp_path: pathlib.Path) -> None:
    rng = random.Random(7)
    mangled = []
    for _ in range(5000):
        key = dict(rng.choice(keys)[0])
        field = rng.choice(list(key))
        value, at = key[field], rng.randrange(len(key[field]) + 1)
        digit = rng.choice('0123456789:=xM "-,')
        other = rng.choice(keys)[0].get(field, "")
        key[field] = rng.choice(
            [
                value[:at] + digit + value[at + 1 :],
                value[:at] + digit + value[at:],
                value[:at],
                other,
            ]
        )
        mangled.append(key)
    kinds = {words.partition(":")[0] for words in read(mangled, tmp_path)}
    assert kinds >= {"ArgumentError", "UnknownOperatorError", "TuningFailedError"}
    # Or it is a key again, of a problem without elements.
    assert kinds <= {*dlblas.errors.__dict__, "empty"}


def test_a_search_that_was_cut_goes_on_and_force_searches_anew() -> None:
    a, b = np.ones((64, 300), "f"), np.ones((300, 500), "f")

    def session(seconds: float, force: bool = False) -> _autotune.autotune:
        with dlblas.autotune(seconds=seconds, force=force, worker=False, progress=False) as made:
            dlblas.matmul(a, b)
        return made

    first = session(0.1)
    assert len(first.missed) == 1 and "cut; more: autotune(seconds=0.2)" in str(first.report)
    assert str(session(0.1).report) == "nothing was missed"
    on = session(0.4)
    assert on.missed == [] and [row["source"] for row in on.report] == ["tuned"]
    again = session(0.1, force=True)
    assert again.missed == [] and [row["source"] for row in again.report] == ["tuned"]


def test_an_implementation_registered_since_is_measured() -> None:
    def session() -> _autotune.ModelReport:
        with dlblas.autotune(seconds=0.3, worker=False, progress=False) as made:
            dlblas.rms_norm(x(9), W)
        return made.report

    def normed(x, weight, eps, weight_offset, y):
        mean = np.square(x, dtype=np.float64).mean(-1, keepdims=True)
        y[...] = x / np.sqrt(mean + eps) * (weight + weight_offset)

    assert len(session()) == 1
    dlblas.register("rms_norm", "of_the_session", normed)
    try:
        (report,) = session()
        assert "of_the_session" in {one["implementation"] for one in report["evaluated"]}
        assert str(session()) == "nothing was missed"
    finally:
        dlblas.unregister("rms_norm", "of_the_session")


def test_an_exception_inside_is_told_and_its_keys_are_kept(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "keys.jsonl"
    with pytest.raises(ZeroDivisionError), dlblas.autotune(missed=file) as session:
        assert str(session.report) == "not over yet"
        dlblas.silu(x(130))
        raise ZeroDivisionError
    assert str(session.report) == "not searched, 1 missed" and session.report == []
    assert [key["op"] for key in _autotune.read_missed(file)] == ["silu"]
    nowhere = tmp_path / "no" / "keys.jsonl"
    with pytest.raises(ZeroDivisionError), dlblas.autotune(missed=nowhere):
        raise ZeroDivisionError
