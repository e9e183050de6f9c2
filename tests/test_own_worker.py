"""Users' own implementations that crash, exit, hang or allocate too much: each failure is recorded
by kind, and this process goes on. Read next: own_bad_module.py, docs/tuning.md "In a worker".
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import time
from math import sqrt
from typing import Any

import dlblas
import numpy as np
import pytest

pytestmark = pytest.mark.attack("candidates that crash, hang or leave")

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
NAMES = ("own_crash", "own_exit", "own_hang", "own_huge", "own_good")


def test_none_of_them_wins_and_none_takes_this_process_down() -> None:
    import own_bad_module  # noqa: F401

    rng = np.random.default_rng(0)
    x: Any = rng.standard_normal((40, 96)).astype(np.float32)
    w: Any = rng.standard_normal(96).astype(np.float32)
    assert "own_bad_module" in dlblas.own.modules()
    first_calls: list[str] = []

    def watch(event: Any) -> None:
        if event.kind == "first_call":
            first_calls.append(event.implementation)

    try:
        begin = time.monotonic()
        report = dlblas.tune(
            "rms_norm", (x, w), seconds=20, implementations=list(NAMES), worker=True, progress=watch
        )  # fmt: skip
        assert time.monotonic() - begin < 60
        assert report["measured_in"] == "worker"
        assert sorted(first_calls) == sorted(NAMES)  # each is told, once
        kinds = {
            row["implementation"]: row.get("failure")
            for row in report["evaluated"]
            if row["implementation"] in NAMES
        }
        assert kinds["own_crash"] == "crash" and kinds["own_exit"] == "crash", kinds
        assert kinds["own_hang"] == "timeout", kinds
        assert kinds["own_huge"] in ("launch_error", "out_of_memory"), kinds
        assert not kinds["own_good"], kinds
        assert report["winner"]["implementation"] == "own_good"
        y = dlblas.rms_norm(x, w)
        assert dlblas.verify("rms_norm", (x, w), y).ok
        rows = dlblas.explain("rms_norm", x, w).as_dict()["candidates"]
        told = {row["implementation"]: row.get("failure") for row in rows}
        assert told["own_crash"] == "crash"
        assert told["own_hang"] is None  # what a first call takes is not held against it
        note = next(r for r in rows if r["implementation"] == "own_crash")["note"]
        assert "segmentation fault" in note
    finally:
        for name in NAMES:
            dlblas.unregister("rms_norm", name)
    assert "own_bad_module" not in dlblas.own.modules()  # nothing of it is left


PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(dlblas.__file__)))
HERE = pathlib.Path(__file__).resolve().parent


def python(*words: str, folder: pathlib.Path | None = None) -> str:
    """The standard output of a fresh process."""
    path = os.pathsep.join([PACKAGE, str(HERE), *sys.path])
    done = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": path},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=480,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("how", ["file", "module"])
@pytest.mark.parametrize("where", ["body", "guard"])
def test_a_script_with_a_guard_is_imported_by_a_worker(where: str, how: str) -> None:
    script = [str(HERE / "own_script.py")] if how == "file" else ["-m", "own_script"]
    told = json.loads(python(*script, where))
    # A worker's crash is contained there; functions defined below the guard are sent by value.
    assert told["rows"].get("script_bad") == "crash", told
    assert not told["rows"]["script_good"], told
    assert told["local"] == {"script_bad": False, "script_good": False}
    assert told["modules"] == []


@pytest.mark.parametrize("link", [False, True], ids=["file", "link"])
def test_a_script_needs_no_suffix(tmp_path: pathlib.Path, link: bool) -> None:
    script = tmp_path / "tool"
    if link:
        script.symlink_to(HERE / "own_script.py")
    else:
        script.write_text((HERE / "own_script.py").read_text())
    told = json.loads(python(str(script), "body"))
    assert told["rows"].get("script_bad") == "crash", told
    assert not told["rows"]["script_good"], told
    assert not told["local"]["script_bad"]


def test_functions_of_a_script_without_a_guard_go_by_value(tmp_path: pathlib.Path) -> None:
    text = (HERE / "own_script.py").read_text().replace('if __name__ == "__main__":', "if True:")
    (tmp_path / "plain.py").write_text(text)
    told = json.loads(python(str(tmp_path / "plain.py"), "body"))
    assert told["rows"]["script_bad"] == "crash" and not told["local"]["script_bad"]
    assert not told["rows"]["script_good"]


def test_what_cannot_travel_stays_here_with_a_warning_whatever_the_budget(
    tmp_path: pathlib.Path,
) -> None:
    text = (HERE / "own_script.py").read_text().replace('if __name__ == "__main__":', "if True:")
    text = text.replace("HOME = int", "KEPT: list[int] = []\nHOME = int")
    text = text.replace('"in the caller"', '"in the caller", KEPT')
    text = text.replace("seconds=60", "seconds=1").replace(", worker=True", "")
    text = text.replace("implementations=names", "max_evaluations=9")
    text = text.replace('    dlblas.register("rms_norm", "script_good", good)\n', "")
    (tmp_path / "plain.py").write_text(text)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "plain.py"), "body"],
        env={**os.environ, "PYTHONPATH": PACKAGE}, capture_output=True, text=True, timeout=480,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["rows"]["script_bad"] == "launch_error" and told["local"]["script_bad"]
    assert "script_bad is measured in this process, which a crash or a hang" in done.stderr


CLOSURES = """
import ctypes, json, os, threading, warnings
warnings.simplefilter("ignore")
import dlblas, numpy as np
def make(how):
    lock = threading.Lock()  # nothing takes that along
    def mine(x, weight, eps, weight_offset, y):
        with lock:
            how()
            s = 1 / np.sqrt((x.astype("d") ** 2).mean(-1, keepdims=True) + eps)
            y[...] = x * s * (weight + weight_offset)
    return mine
dlblas.register("rms_norm", "dies", make(lambda: ctypes.string_at(0)))
dlblas.register("rms_norm", "leaves", make(lambda: os._exit(3)))
dlblas.register("rms_norm", "raises", make(lambda: 1 / 0))
dlblas.register("rms_norm", "right", make(lambda: None))
x, w = np.random.randn(8, 64).astype("f"), np.ones(64, "f")
names = "dies,leaves,raises,right,cpu_baseline"
report = dlblas.tune("rms_norm", (x, w), seconds=2, implementations=names)
rows = {e["implementation"]: [e.get("failure"), e.get("note")] for e in report["evaluated"]}
print(json.dumps(rows))
"""


def test_a_closure_that_dies_does_so_in_a_forked_child() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CLOSURES],
        env={**os.environ, "PYTHONPATH": PACKAGE}, capture_output=True, text=True, timeout=480,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert "crash: SIGSEGV in a forked child" in told["dies"][1]
    assert "with status 3" in told["leaves"][1]
    assert "ZeroDivisionError" in told["raises"][1]
    assert not told["right"][0], told


FAULTS = """
import json, resource, threading, warnings
warnings.simplefilter("ignore")
import dlblas, numpy as np
def make():
    lock = threading.Lock()  # nothing takes that along
    def mine(x, weight, eps, weight_offset, y):
        with lock:
            s = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
            y[...] = x * s * (weight + weight_offset)
    return mine
dlblas.register("rms_norm", "mine", make())
x, w = np.random.randn(256, 4096).astype("f"), np.ones(4096, "f")
faults = []
def watch(event):
    if event.implementation == "mine" or faults:
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
report = dlblas.tune("rms_norm", (x, w), seconds=4, progress=watch)
print(json.dumps([report["measured_in"], len(faults), faults[-1] - faults[1]]))
"""


def test_the_forked_child_leaves_the_others_no_page_faults() -> None:
    """With 4 MiB of results in each of about a hundred sets, a sample had 1000 page faults and took
    twice its time."""
    place, events, faults = json.loads(python("-c", FAULTS))
    assert place == "process" and events > 10 and faults < 10_000, (events, faults)


def test_what_a_check_took_is_no_sample_of_a_users() -> None:
    seen = [1e-6]

    def compiles_anew(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
        if eps not in seen:  # another scalar of the check, which torch.compile compiles for
            seen.append(eps)
            time.sleep(0.3)
        s = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
        y[...] = x * s * (weight + weight_offset)

    x, w = np.ones((8, 64), np.float32), np.ones(64, np.float32)
    dlblas.register("rms_norm", "compiles_anew", compiles_anew)
    try:
        report = dlblas.tune("rms_norm", (x, w), seconds=0.2, worker=False, progress=False)
        (row,) = (e for e in report["evaluated"] if e["implementation"] == "compiles_anew")
        assert row["ms"] < 50, row
    finally:
        dlblas.unregister("rms_norm", "compiles_anew")


def test_triton_kernels_travel_by_text() -> None:
    triton = pytest.importorskip("triton")
    from dlblas.own._travel import parcel, unpack

    try:
        plain = triton.jit(_kernel_of_rows)
    except Exception as reason:  # Triton that finds no driver
        pytest.skip(str(reason))
    _kernel_of_rows.__globals__.update(tl=triton.language, TWO=triton.language.constexpr(2))
    config = triton.Config({"BLOCK": 64}, num_warps=4)
    for kernel in (plain, triton.autotune(configs=[config], key=["C"])(plain)):
        sent = parcel(
            kernel, "d1", op="rms_norm", name="n", space=[{"BLOCK": 64}],
            grid=lambda meta: (meta["T"], 1),
        )  # fmt: skip
        assert sent is not None and sent["constants"] == {"TWO": 2}
        got: list[Any] = []
        unpack(json.loads(json.dumps(sent)), lambda **by: got.append(by))  # noqa: B023
        (by,) = got
        assert by["fn"].arg_names == plain.arg_names and "program_id" in by["fn"].src
        assert [p.is_constexpr for p in by["fn"].params] == [p.is_constexpr for p in plain.params]
        assert by["grid"]({"T": 7}) == (7, 1) and by["space"] == [{"BLOCK": 64}]
    _kernel_of_rows.__globals__["TWO"] = object()  # neither a value nor a module: it stays here
    assert parcel(plain, "d1", op="rms_norm", name="n", grid=(1,)) is None
    held = [1]
    _kernel_of_rows.__globals__["TWO"] = 2
    assert parcel(plain, "d1", op="rms_norm", name="n", grid=lambda meta: (held[0],)) is None
    helped = triton.jit(_kernel_of_rows_helped)
    _kernel_of_rows.__globals__["_doubled"] = triton.jit(_doubled)
    sent = parcel(helped, "d1", op="rms_norm", name="n", grid=(1,))
    assert sent is not None and [part["name"] for part in sent["helpers"]] == ["_doubled"]
    got.clear()
    unpack(json.loads(json.dumps(sent)), lambda **by: got.append(by))
    there = got[0]["fn"].fn.__globals__["_doubled"]
    assert type(there) is type(plain) and "2 * at" in there.src
    two = (lambda meta: (meta["T"] + 1,), lambda meta: (meta["T"] - 1,))  # which of them is it?
    assert parcel(plain, "d1", op="rms_norm", name="n", grid=two[1]) is None


def _kernel_of_rows(x, weight, y, eps, weight_offset, C, BLOCK: tl.constexpr):  # type: ignore  # noqa: N803, F821
    at = tl.program_id(0) * TWO  # type: ignore  # noqa: F821, F841


def _kernel_of_rows_helped(x, weight, y, eps, weight_offset):  # type: ignore
    at = _doubled(tl.program_id(0))  # type: ignore  # noqa: F821, F841


def _doubled(at):  # type: ignore
    return 2 * at


def test_what_travels() -> None:
    from dlblas.own._travel import parcel, unpack

    got: list[Any] = []

    def closes_over(x: Any) -> None:
        got.append(x)

    def plain(x: np.ndarray, at: int = 3, *, y: str = "s") -> Any:
        return np.sum(x) + at, y, os.sep, NAMES_BY_TEXT

    sent = parcel(plain, "d1", op="rms_norm", name="n", space={"a": [1, 2]})
    assert sent is not None
    unpack(json.loads(json.dumps(sent)), lambda **by: got.append(by))
    (by,) = got
    assert by["name"] == "n" and by["space"] == {"a": [1, 2]}
    assert by["fn"](np.ones(2)) == plain(np.ones(2)) and by["fn"](np.ones(2), 4, y="t")[1] == "t"
    pickles = "cloudpickle" in sys.modules or importlib.util.find_spec("cloudpickle") is not None
    for other in (closes_over, lambda x: x, functools.partial(plain), len, uses_a_list):
        found = parcel(other, "d1", op="rms_norm", name="n")
        assert found is None or (pickles and "pickle" in found)
    assert parcel(plain, "d1", op="rms_norm", space={"a": {1, 2}}) is None
    assert parcel(plain, None, op="rms_norm") is None


def _half(n: int, by: Any = (2, 3)) -> Any:
    return n if n < 2 else _other_half(n // by[0]) + _root(NAMES_BY_TEXT.count("c")) + sqrt(0)


def _other_half(n: int, *, more: int = 1) -> Any:
    return _half(n - more) + sum(_same(i) for i in range(n))


_root, _same = (lambda n: n), np.asarray  # the first has no definition, the second is numpy's


def _root_of(n: int) -> int:
    return n


def helped(x: Any) -> Any:
    return _half(int(x)) + late_flag()  # type: ignore  # noqa: F821


def test_functions_that_a_function_calls_travel_with_it() -> None:
    from dlblas.own._travel import Parcel, parcel, unpack

    def sent() -> Any:
        return parcel(helped, "d1", op="rms_norm", name="n")

    space = globals()
    kept = dict(space)
    try:
        assert sent() is None  # late_flag may be defined below
        space["late_flag"] = int
        assert sent() is None  # _root is a lambda
        space["_root"] = _root_of  # under another name than its own
        way = Parcel(helped, "d1", op="rms_norm", name="n")
        row = way.row()
        assert row is not None and row == sent() and row["imported"]["_same"][0] == "numpy"
        assert {part["name"] for part in row["helpers"]} == {"_half", "_other_half", "_root"}
        got: list[Any] = []
        unpack(json.loads(json.dumps(row)), lambda **by: got.append(by["fn"]))
        assert got[0](9) == helped(9) and got[0].__globals__ is not space
        assert way.row() is row
        space["_root"] = _root_again
        again = way.row()
        assert again is not None and "10 * n" in json.dumps(again["helpers"])
        space["_root"] = (lambda held: lambda n: held)(1)  # closes over something
        assert way.row() is None
        space["_root"] = [1]
        assert sent() is None
    finally:
        space.clear()
        space.update(kept)


def _root_again(n: int) -> int:
    return 10 * n


NAMES_BY_TEXT = "constant"


def uses_a_list(x: Any) -> Any:
    return NAMES_LISTED


NAMES_LISTED = [1]


HELPED = """
import json
import warnings
import dlblas
import numpy as np

def scale(x, eps):
    return 1 / np.sqrt(mean(x * x) + eps)

def mean(x):
    return x.mean(-1, keepdims=True)

@dlblas.register("rms_norm", "helped")
def helped(x, weight, eps, weight_offset, y):
    y[...] = x * scale(x, eps) * (weight + weight_offset)

@dlblas.register("rms_norm", "early")
def early(x, weight, eps, weight_offset, y):
    y[...] = x * below(x, eps) * (weight + weight_offset)

below = scale

x, w = np.ones((8, 64), np.float32), np.ones(64, np.float32)
for name in ("helped", "early"):
    names = [name, "cpu_baseline"]
    report = dlblas.tune("rms_norm", (x, w), seconds=1, implementations=names, progress=False)
    failed = {e["implementation"]: e.get("failure") for e in report["evaluated"]}
    print(json.dumps([name, report["measured_in"], failed[name]]))
"""


def test_a_function_goes_to_a_worker_with_what_it_calls(tmp_path: pathlib.Path) -> None:
    (tmp_path / "script.py").write_text(HELPED)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "script.py")],
        env={**os.environ, "PYTHONPATH": PACKAGE}, capture_output=True, text=True, timeout=480,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = {name: told for name, *told in map(json.loads, done.stdout.splitlines())}
    assert told == {"helped": ["worker", None], "early": ["process", None]}, told
    assert "early is measured in this process" in done.stderr
    assert "helped is" not in done.stderr


COMPILED = """
import json
import dlblas
import torch

@dlblas.register("rms_norm", "above")
@torch.compile(backend="eager", dynamic=False)
def above(x, weight, eps, weight_offset, y):
    y.copy_(torch.nn.functional.rms_norm(x, (x.shape[-1],), weight + weight_offset, eps))

def plain(x, weight, eps, weight_offset, y):
    y.copy_(torch.nn.functional.rms_norm(x, (x.shape[-1],), weight + weight_offset, eps))

dlblas.register("rms_norm", "called", torch.compile(plain, backend="eager"))

if GUARD:
    x, w = torch.ones(8, 64), torch.ones(64)
    names = ["above", "called", "cpu_baseline"]
    report = dlblas.tune("rms_norm", (x, w), seconds=2, implementations=names, progress=False)
    failed = {e["implementation"]: e.get("failure") for e in report["evaluated"]}
    print(json.dumps([report["measured_in"], failed["above"], failed["called"]]))
"""


@pytest.mark.parametrize("guard", ['__name__ == "__main__"', "True"])
def test_what_torch_compile_made_goes_to_a_worker(tmp_path: pathlib.Path, guard: str) -> None:
    pytest.importorskip("torch")
    (tmp_path / "script.py").write_text(COMPILED.replace("GUARD", guard))
    done = subprocess.run(
        [sys.executable, str(tmp_path / "script.py")],
        env={**os.environ, "PYTHONPATH": PACKAGE}, capture_output=True, text=True, timeout=480,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["worker", None, None]
    assert "in this process" not in done.stderr


TEXT = """
__global__ void copied(own::y* y, const own::x* x, const own::weight* w, long T, long C, float eps,
                       float offset, bool cast) {}
"""


def test_cuda_text_needs_no_module() -> None:
    from dlblas import _worker_command
    from dlblas.own import _source

    knobs = {"BLOCK": [128, 256], "ORDER": ["up", "down"]}

    def rows_of(name: str) -> list[dict[str, Any]]:
        op = next(op for op in dlblas.info()["operators"] if op["name"] == "rms_norm")
        return [row for row in op["implementations"] if row["name"] == name]

    def register(name: str, text: str = TEXT, **options: Any) -> None:
        dlblas.register("rms_norm", name, text, grid="T", block="BLOCK", space=knobs, **options)

    try:
        register(
            "text", where="BLOCK < 256 or ORDER == 'up'", default={"BLOCK": 256, "ORDER": "up"}
        )
        register("asked", supports=lambda problem: None)
        register("large", TEXT + "//" + "x" * (1 << 19))
        (there,) = rows_of("text")
        assert not there["local"] and rows_of("asked")[0]["local"] and rows_of("large")[0]["local"]
        assert len(_source.rows()) == 1
        for name, problem in (("reference", "taken"), ("text", "CUDA text|is malformed|expected")):
            with pytest.raises(dlblas.errors.ArgumentError, match=problem):
                dlblas.register("rms_norm", name, TEXT, grid="T +" if name == "text" else "T")
        assert len(_source.rows()) == 1 and rows_of("text") == [there]  # as it was
        variables = _worker_command.rows_out(_source.rows() * 400)  # in parts
        assert len(variables) > 1 and max(map(len, variables)) < 1 << 17
        variables = _worker_command.rows_out(_source.rows())
        code = "\n".join(
            (
                "import dlblas, json",
                "from dlblas import _worker",
                "from dlblas.own._register import register_again",
                "for row in _worker._rows_in(): register_again(row)",
                "op = next(o for o in dlblas.info()['operators'] if o['name'] == 'rms_norm')",
                "print(json.dumps([i for i in op['implementations'] if i['user']]))",
            )
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([PACKAGE, *sys.path]),
                **dict(v.split("=", 1) for v in variables),
            },
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == [there]  # the same source hash, knobs and flags
    finally:
        for name in ("text", "asked", "large"):
            dlblas.unregister("rms_norm", name)
    assert _source.rows() == []


GPU_SCRIPT = """
import json

import dlblas
import torch
import triton
import triton.language as tl


@triton.jit
def row_norm(x, weight, y, C, eps, weight_offset, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    f = tl.load(x + tl.program_id(0) * C + at, mask=at < C, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(f * f) / C + eps)
    w = tl.load(weight + at, mask=at < C, other=0.0).to(tl.float32) + weight_offset
    tl.store(y + tl.program_id(0) * C + at, f * scale * w, mask=at < C)


dlblas.register(
    "rms_norm", "script_triton", row_norm, space={"BLOCK": [1024, 2048]}, where="BLOCK >= C",
    grid=lambda meta: (meta["T"],),
)


def wild():  # a function: only its text goes to the worker
    head = "__global__ void k(own::y* y, const own::x* x, const own::weight* w, long T, long C, "
    body = "float eps, float offset, bool cast) { *(volatile float*)8 = 1; }"
    dlblas.register("rms_norm", "script_wild", head + body, grid="T")


if __name__ == "__main__":
    wild()
    x = torch.randn(256, 1000, device="cuda")
    w = torch.ones(1000, device="cuda")
    names = ["script_triton", "script_wild"]
    report = dlblas.tune("rms_norm", (x, w), seconds=60, implementations=names)
    failures = {e["implementation"]: e.get("failure", "") for e in report["evaluated"]}
    y = dlblas.rms_norm(x, w)
    right = dlblas.verify("rms_norm", (x, w), y).ok
    print(json.dumps([report["measured_in"], report["winner"]["implementation"], failures, right]))
"""


@pytest.mark.gpu
def test_a_scripts_kernels_are_measured_in_a_worker_on_a_gpu(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("triton")
    (tmp_path / "script.py").write_text(GPU_SCRIPT)
    place, winner, failures, right = json.loads(python(str(tmp_path / "script.py")))
    assert (place, winner, right) == ("worker", "script_triton", True), (place, winner, failures)
    assert failures["script_wild"] == "illegal_access", failures


IMPORTING = """
import sys, types, numpy as np, dlblas
sys.modules["dlblas.own"] = types.ModuleType("dlblas.own")  # as another thread has it meanwhile
report = dlblas.tune("rms_norm", (np.ones((4, 64), "f"), np.ones(64, "f")), seconds=0.1)
print(bool(report["winner"]["implementation"]))
"""


def test_a_search_while_another_thread_imports_the_registration(tmp_path: pathlib.Path) -> None:
    assert python("-c", IMPORTING, folder=tmp_path) == "True\n"
