"""The package over the life of a process: imported twice, reloaded, in a subinterpreter, in a
deleted folder, under any umask, with threads that Python ends.

Each test runs in its own process with a deadline: the failure looked for is often a crash or a
hang. Read next: bindings/python/init.cpp, bindings/python/cpython.hpp (``Entry``).
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys

import dlblas
import pytest

pytestmark = pytest.mark.attack("imports, exits, folders and umasks of a process")

PACKAGE = pathlib.Path(dlblas.__file__).parent.parent
HEAD = """
import sys, threading, time
import numpy as np
x, w = np.ones((4, 8), "f"), np.ones(8, "f")
"""


def run(
    program: str, tmp_path: pathlib.Path, cwd: pathlib.Path | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", HEAD + program],
        env={
            **os.environ, "PYTHONPATH": str(PACKAGE), "DLBLAS_CACHE": str(tmp_path / "store"), **env
        },
        cwd=cwd, capture_output=True, text=True, timeout=480,
    )  # fmt: skip


def lines(
    program: str, tmp_path: pathlib.Path, cwd: pathlib.Path | None = None, **env: str
) -> list[str]:
    """What a program prints; it must exit with status 0 and an empty standard error."""
    done = run(program, tmp_path, cwd, **env)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout.splitlines()


# ---- imports ------------------------------------------------------------------------------------

PURGED = """
from unittest import mock
with mock.patch.dict(sys.modules):
    import dlblas as first
    import dlblas.own
    @first.register("rms_norm", "mine")
    def mine(x, weight, eps, weight_offset, y): y[...] = 7
    first.register_operator("twice(x: f[T]) -> y: like(x)[T]", lambda x: 2 * x)
assert "dlblas" not in sys.modules
import dlblas
assert dlblas is first and sys.modules["dlblas.errors"] is first.errors
from dlblas.own import modules  # of the first time: what was registered is known
assert dlblas.own is first.own and dlblas.own._source._local
with dlblas.pinned("rms_norm", "mine"):
    assert (dlblas.rms_norm(x, w) == 7).all()
try:
    dlblas.rms_norm(3, w)
except first.Error as error:
    print(type(error) is dlblas.errors.ArgumentError)
del sys.modules["dlblas"]
import dlblas.tuning
print(sys.modules["dlblas"] is first, dlblas is first, hasattr(first, "twice"))
"""


def test_a_second_import_is_the_first_package(tmp_path: pathlib.Path) -> None:
    assert lines(PURGED, tmp_path) == ["True", "True True True"]


RELOADED = """
import importlib
import dlblas
dlblas.register_operator("twice(x: f[T]) -> y: like(x)[T]", lambda x: 2 * x)
watchers = len(sys.meta_path)
inner = (dlblas._native, dlblas._hooks, dlblas._array, dlblas._functions, dlblas._torch_bridge)
for module in (dlblas, *inner, dlblas, dlblas.errors, dlblas):
    assert importlib.reload(module) is module
    assert abs(float(dlblas.rms_norm(x, w)[0, 0]) - 1) < 1e-5
    assert set(dlblas.__all__) >= {"rms_norm", "matmul", "twice"}
    assert len(set(dlblas.__all__)) == len(dlblas.__all__)
print(len(sys.meta_path) - watchers, dlblas._functions.FUNCTIONS["twice"].name)
"""


def test_a_reload_changes_nothing(tmp_path: pathlib.Path) -> None:
    assert lines(RELOADED, tmp_path) == ["0 twice"]


SUBINTERPRETER = """
def inside(text):
    try:
        import _interpreters as interpreters  # 3.13
        id = interpreters.create("legacy")
    except ImportError:
        import _xxsubinterpreters as interpreters
        id = interpreters.create(isolated=False)
    failed = interpreters.run_string(id, text)  # raises until 3.12
    interpreters.destroy(id)
    if failed is not None:
        raise RuntimeError(failed.formatted)

ATTEMPT = '''
try:
    import dlblas
except ImportError as error:
    words = str(error)
else:
    words = "imported"
with open(PATH, "w") as file:
    file.write(words)
'''

if ORDER == "main first":
    import dlblas
    dlblas.rms_norm(x, w)
inside(f"PATH = {PATH!r}" + ATTEMPT)
import dlblas
assert abs(float(dlblas.rms_norm(x, w)[0, 0]) - 1) < 1e-5
assert dlblas.verify("rms_norm", (x, w), dlblas.rms_norm(x, w)).ok
print(open(PATH).read())
"""


@pytest.mark.parametrize("order", ["main first", "subinterpreter first"])
def test_a_subinterpreter_is_refused_and_the_main_one_stays_whole(
    order: str, tmp_path: pathlib.Path
) -> None:
    if sys.version_info < (3, 11):
        pytest.skip("its _xxsubinterpreters takes no text that imports extension modules")
    head = f"ORDER, PATH = {order!r}, {str(tmp_path / 'words')!r}\n"
    (said,) = lines(head + SUBINTERPRETER, tmp_path)
    assert "subinterpreter" in said
    if sys.version_info < (3, 12):  # later ones are refused by ctypes, in its own words
        assert said.startswith("dlblas: this is a subinterpreter; expected the main interpreter")


# ---- folders ------------------------------------------------------------------------------------

GONE = """
import os
import dlblas
os.makedirs("gone"); os.chdir("gone"); os.rmdir("../gone")
sys.path.insert(0, "")
assert abs(float(dlblas.rms_norm(x, w)[0, 0]) - 1) < 1e-5
print(dlblas.get_op("rms_norm", (x, w))(x, w).shape)
report = dlblas.tune("rms_norm", (x, w), seconds=30, max_evaluations=2, worker=True)
print(report["measured_in"], bool(report["winner"]))
for call in (lambda: dlblas.own.load("mine.so"), lambda: dlblas.cache.export("all")):
    try:
        call()
    except dlblas.Error as error:
        print(type(error).__name__, "path" in str(error))
"""


def test_a_current_folder_that_is_gone(tmp_path: pathlib.Path) -> None:
    assert lines(GONE, tmp_path, tmp_path) == [
        "(4, 8)", "worker True", "ArgumentError True", "ArgumentError True"
    ]  # fmt: skip


@pytest.mark.parametrize("words", ["info", "--import json list"])
def test_the_command_in_a_folder_that_is_gone(words: str, tmp_path: pathlib.Path) -> None:
    program = (
        "import os\n"
        "os.makedirs('gone'); os.chdir('gone'); os.rmdir('../gone')\n"
        "from dlblas import cli\n"
        f"sys.exit(cli.main({words.split()!r}))\n"
    )
    assert len(lines(program, tmp_path, tmp_path)) > 3


COLON = """
import own_beside
import dlblas
limits = {"seconds": 30, "max_evaluations": 1, "implementations": ["beside"]}
report = dlblas.tune("rms_norm", (x, w), worker=True, **limits)
print(report["measured_in"], report["winner"]["implementation"])
"""


def test_a_worker_finds_modules_in_a_folder_with_a_colon(tmp_path: pathlib.Path) -> None:
    there = tmp_path / "a:b\nc"
    there.mkdir()
    (there / "own_beside.py").write_text(
        "import dlblas\n"
        "@dlblas.register('rms_norm', 'beside')\n"
        "def beside(x, weight, eps, weight_offset, y):\n"
        "    mean = (x * x).mean(-1, keepdims=True)\n"
        "    y[...] = x / (mean + eps) ** 0.5 * (weight + weight_offset)\n"
    )
    head = f"sys.path.insert(0, {str(there)!r})\n"
    assert lines(head + COLON, tmp_path) == ["worker beside"]


@pytest.mark.parametrize("mask", [0o777, 0o277, 0o700, 0])
def test_folders_and_files_are_the_owners_under_any_umask(
    mask: int, tmp_path: pathlib.Path
) -> None:
    program = (
        "import os, dlblas\n"
        f"os.umask({mask})\n"
        "dlblas.tune('rms_norm', (x, w), seconds=0.5, max_evaluations=1)\n"
        "dlblas.cache.pin('rms_norm', 'cpu_baseline')\n"
        "print(dlblas.info()['cache']['memory_only_because'] == '', len(dlblas.cache.ls()))\n"
        "os.umask(0o22)\n"
    )
    root = tmp_path / "parent" / "store"
    assert lines(program, tmp_path, DLBLAS_CACHE=str(root)) == ["True 1"]
    made = [root.parent, root, *(root / "v1").rglob("*"), root / "v1"]
    assert any(path.is_file() for path in made)
    for path in made:
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path


def test_a_relative_cache_is_the_current_folder_of_the_import(tmp_path: pathlib.Path) -> None:
    program = (
        "import os, dlblas\n"
        "os.mkdir('elsewhere'); os.chdir('elsewhere')\n"
        "report = dlblas.tune('rms_norm', (x, w), seconds=30, max_evaluations=1, worker=True)\n"
        "print(report['measured_in'], dlblas.info()['cache']['path'])\n"
    )
    said = lines(program, tmp_path, tmp_path, DLBLAS_CACHE="mine/cache")
    assert said == [f"worker {tmp_path.resolve()}/mine/cache/v1"]
    assert (tmp_path / "mine" / "cache" / "v1" / "results").is_dir()
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize(
    "value, home, path, why",
    [
        ("~", "{}", "{}/v1", ""),
        ("~/a/b", "{}", "{}/a/b/v1", ""),
        ("~nobody/a", "{}", "~nobody/a/v1", "is not absolute; expected a path from the root"),
        ("~/a", "", "~/a/v1", "is not absolute"),
        ("~/a", "relative", "~/a/v1", "is not absolute"),
    ],
)
def test_a_tilde_is_the_home_folder_or_refused(
    value: str, home: str, path: str, why: str, tmp_path: pathlib.Path
) -> None:
    program = (
        "import dlblas\n"
        "dlblas.rms_norm(x, w)\n"
        "cache = dlblas.info()['cache']\n"
        "print(cache['path']); print(cache['memory_only_because'])\n"
    )
    said = lines(program, tmp_path, tmp_path, DLBLAS_CACHE=value, HOME=home.format(tmp_path))
    assert said[0] == path.format(tmp_path)
    assert why in said[1] and bool(why) == bool(said[1])
    assert not list(tmp_path.glob("~*"))


# ---- threads that Python ends -------------------------------------------------------------------

# When the process exits, Python ends a daemon thread that reacquires the interpreter's lock: here,
# in code that the library called. Each of these runs for seconds; the main thread leaves at once.
ENDED = {
    "function": """
@dlblas.register("rms_norm", "mine")
def mine(x, weight, eps, weight_offset, y): slow(); y[...] = x
dlblas.pin("rms_norm", "mine")
def work(): dlblas.rms_norm(x, w)
""",
    "supports": """
@dlblas.register("rms_norm", "mine", supports=lambda problem: slow())
def mine(x, weight, eps, weight_offset, y): y[...] = x
dlblas.pin("rms_norm", "mine")
def work(): dlblas.rms_norm(x, w)
""",
    "where": """
@dlblas.register("rms_norm", "mine", space={"k": [1, 2]}, where=lambda k, C: slow())
def mine(x, weight, eps, weight_offset, y, k): y[...] = x
dlblas.pin("rms_norm", "mine")
def work(): dlblas.rms_norm(x, w)
""",
    "reference": """
def twice(x): slow(); return 2 * x
dlblas.register_operator("twice(x: f[T]) -> y: like(x)[T]", twice)
def work(): dlblas.verify("twice", (w,), 2 * w)
""",
    "progress": """
def work(): dlblas.tune("rms_norm", (x, w), seconds=5, worker=False, progress=lambda e: slow())
""",
    "dlpack": """
class Slow:
    def __dlpack__(self, **options): slow(); return x.__dlpack__()
    def __dlpack_device__(self): return 1, 0
def work(): dlblas.rms_norm(Slow(), w)
""",
    "interface": """
class Slow:
    @property
    def __array_interface__(self): slow(); return x.__array_interface__
def work(): dlblas.rms_norm(Slow(), w)
""",
    "number": """
class Slow:
    def __float__(self): slow(); return 1e-6
def work(): dlblas.rms_norm(x, w, eps=Slow())
""",
    "result": """
class Slow:
    __dlpack__ = lambda self, **options: x.__dlpack__()
    __dlpack_device__ = lambda self: (1, 0)
    def __array_namespace__(self): slow()
def work(): dlblas.rms_norm(Slow(), w)
""",
    "ctypes": """
import ctypes
class Implementation(ctypes.Structure):  # dlblas_implementation
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("hash", ctypes.c_char_p),
                ("source", ctypes.c_void_p), ("device", ctypes.c_int32), ("flags", ctypes.c_uint32),
                ("arch", ctypes.c_int32 * 2), ("knobs", ctypes.c_void_p),
                ("configs", ctypes.c_void_p), ("counts", ctypes.c_int32 * 2),
                ("preset", ctypes.c_void_p), ("supports", ctypes.c_void_p),
                ("allowed", ctypes.c_void_p), ("workspace", ctypes.c_void_p),
                ("step", ctypes.c_void_p), ("cuda", ctypes.c_void_p), ("user", ctypes.c_void_p)]
Step = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
step = Step(lambda *_: slow())
own = Implementation(ctypes.sizeof(Implementation), b"mine", b"1", device=1,
                     step=ctypes.cast(step, ctypes.c_void_p).value)
library = ctypes.CDLL(dlblas._native.library_path())
assert library.dlblas_register(dlblas._native._handle("rms_norm"), ctypes.byref(own)) == 0
dlblas.pin("rms_norm", "mine")
def work(): dlblas.rms_norm(x, w)
""",
}
LEAVE = """
inside = threading.Event()
def slow():
    inside.set()
    while True: time.sleep(0.01)
import dlblas
{body}
threading.Thread(target=work, daemon=True).start()
assert inside.wait(60)
time.sleep(0.05)
print("left", flush=True)
"""


@pytest.mark.parametrize("where", ENDED)
def test_a_daemon_thread_inside_a_callback_at_exit(where: str, tmp_path: pathlib.Path) -> None:
    for _ in range(2):
        assert lines(LEAVE.format(body=ENDED[where]), tmp_path) == ["left"]


COMMA = """
import locale, os
import dlblas
locale.setlocale(locale.LC_ALL, "de_DE.UTF-8")
assert locale.str(1.5) == "1,5"
dlblas.get_op("rms_norm", (x, w), seconds=2.5, worker=False)
(row,) = dlblas.cache.ls()
print(dlblas.explain("rms_norm", x, w).as_dict()["source"])
x = np.ones((9, 8), "f")
dlblas.rms_norm(x, w)
"""


def test_a_locale_with_a_decimal_comma(tmp_path: pathlib.Path) -> None:
    """Numbers in records and in the log have a decimal point."""
    if shutil.which("localedef") is None:
        pytest.skip("localedef makes the locale")
    made = tmp_path / "locales" / "de_DE.UTF-8"
    made.parent.mkdir()
    done = subprocess.run(
        ["localedef", "-i", "de_DE", "-f", "UTF-8", str(made)], capture_output=True, text=True
    )
    if done.returncode != 0:
        pytest.skip(f"no source of the locale: {done.stderr.splitlines()[-1]}")
    log = tmp_path / "log"
    lines(
        COMMA,
        tmp_path,
        LOCPATH=str(made.parent),
        DLBLAS_LOG="search,call",
        DLBLAS_LOG_FILE=str(log),
    )
    assert not re.search(r"\d,\d+(us|s)\b", log.read_text()), log.read_text()
    records = [f.read_text() for f in (tmp_path / "store" / "v1").rglob("*") if f.is_file()]
    assert any("budget_s 2.5" in text or "budget_s=2.5" in text for text in records), records
