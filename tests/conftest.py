"""What all Python tests share, and the coverage table at the end of a run.

Every item of test_cases.py hands over its packed Coverage as a user property, which pytest-xdist
carries to the controller. The controller merges them, prints a summary, writes build/coverage.json
and checks the floor. Read next: tests/test_cases.py, python/dlblas/harness/report.py.
"""

from __future__ import annotations

import ctypes
import json
import os
import pathlib
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
FLOOR = ROOT / "tests" / "coverage_floor.json"

# DLBLAS_TEST_PYTHON: the package of another build, for example a sanitised one.
sys.path.insert(0, os.environ.get("DLBLAS_TEST_PYTHON", str(ROOT / "build" / "python")))
sys.path.append(str(ROOT / "tests"))  # modules that tests share
# The tests use a results store of their own, so a user's tuned results cannot change a test.
# Workers of pytest-xdist inherit the environment of the process that started them, yet each gets
# its own store: in a shared store, two searches for the same key become one, and the second
# evaluates nothing.
if "DLBLAS_CACHE" not in os.environ or "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["DLBLAS_CACHE"] = tempfile.mkdtemp(prefix="dlblas-test-cache-")

# test_progress.py tests what searches print to standard error.
os.environ["DLBLAS_PROGRESS"] = "0"


def _no_gpu() -> str:
    """Why tests marked gpu cannot run here; empty when they can. Asks the driver rather than the
    library, so tests fail where the library overlooks a GPU."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no CUDA driver here: run with -m gpu on a machine with a GPU"
    count = ctypes.c_int(0)
    if (
        driver.cuInit(0) != 0
        or driver.cuDeviceGetCount(ctypes.byref(count)) != 0
        or count.value == 0
    ):
        return "no CUDA device here: run with -m gpu on a machine with a GPU"
    return ""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("attacks"):
        _only_attacks(config, items)
    # pytest-xdist hands out groups by their size, and tests of no group in this order.
    items.sort(key=lambda item: not item.get_closest_marker("starts_early"))
    marked = [item for item in items if item.get_closest_marker("gpu")]
    why = _no_gpu() if marked else ""
    for item in marked:
        if why:
            item.add_marker(pytest.mark.skip(reason=why))


def _only_attacks(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With --attacks, run only the tests that report an attack."""
    kept, left = [], []
    for item in items:
        is_one = "attacked" in getattr(item, "fixturenames", ()) or item.get_closest_marker(
            "attack"
        )
        (kept if is_one else left).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left)


@pytest.hookimpl(trylast=True)
def pytest_runtest_logfinish(nodeid: str) -> None:
    """A kernel that corrupts the GPU's context breaks every later test of its process, so a
    pytest-xdist worker ends here and is replaced, at the cost of one more failed test."""
    torch = sys.modules.get("torch")
    if "PYTEST_XDIST_WORKER" not in os.environ or not torch or not torch.cuda.is_initialized():
        return
    try:
        torch.cuda.synchronize()
    except Exception:
        os._exit(70)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--every-gpu-case", action="store_true", help="test_cases.py: all cases on a GPU, no sample"
    )
    parser.addoption("--attacks", help="the tests that report by `attacked`, into this JSON file")
    parser.addoption("--keep-attacks", help="as --attacks, of all tests that run anyway")
    parser.addoption(
        "--tell-failures", action="store_true", help="print each failure's E lines as it happens"
    )


_ATTACK = "dlblas-attack"


@pytest.fixture
def attacked(record_property: Callable[[str, object], None]) -> Callable[..., None]:
    """``attacked(what, tried, broke)``: adds a count to the table of docs/reliability.md, which
    ``tools/reliability.py --attacks`` generates; ``broke`` above 0 fails the test."""

    def report(what: str, tried: int, broke: int = 0) -> None:
        record_property(_ATTACK, json.dumps({"attack": what, "tried": tried, "broke": broke}))
        assert tried > 0 and broke == 0, f"{what}: {broke} of {tried} broke it"

    return report


@pytest.fixture(autouse=True)
def _counts_attack(
    request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> None:
    """A test marked ``pytest.mark.attack(what)`` counts as one attack unless it reports its own
    count."""
    marked = request.node.get_closest_marker("attack")
    if marked and "attacked" not in request.fixturenames:
        (what,) = marked.args
        record_property(_ATTACK, json.dumps({"attack": what, "tried": 1, "broke": 0}))


def _noted() -> set[str]:
    """Users' implementations as ``op.name``, and files that register some, as recorded by
    dlblas.own."""
    source = sys.modules.get("dlblas.own._source")
    return source.registered() if source else set()


def _registered(noted: set[str]) -> set[str]:
    """The subset that the library still holds, under the plain name or with a device suffix."""
    rows = sys.modules["dlblas"].info()["operators"]
    there = {f"{op['name']}.{i['name']}" for op in rows for i in op["implementations"] if i["user"]}
    return {what for what in noted if {what, f"{what}_cpu", f"{what}_cuda"} & there}


@pytest.fixture(autouse=True)
def _leaves_nothing_registered(request: pytest.FixtureRequest) -> Iterator[None]:
    """An operator stays for the life of the process, so every later test would see it; an
    implementation left behind would become a candidate there. Files not named test_*.py run in a
    process of their own."""
    alone = not request.path.name.startswith("test_")
    if alone or "dlblas" not in sys.modules:
        yield
        return
    import dlblas

    operators, noted = set(dlblas.list_operators()), _noted()
    yield
    left = set(dlblas.list_operators()) - operators
    if new := _noted() - noted:
        left |= _registered(new)
    assert not left, (
        f"the test leaves {', '.join(sorted(left))} registered; register operators in a process "
        "of their own, and unregister implementations"
    )


class _Collector:
    def __init__(self) -> None:
        self.packed: list[dict[str, Any]] = []
        self.attacks: list[dict[str, Any]] = []
        self.problems: list[str] = []
        self.text = ""
        self.terminal: Any = None  # set: failures are told at once

    def finish(self, every_gpu_case: bool) -> None:
        from depth import depth_of, words_of
        from dlblas.harness import Coverage, load_registry
        from dlblas.harness.groups import absent, groups
        from dlblas.harness.report import machine_line

        registry, coverage, depth = load_registry(), Coverage(), depth_of()
        for packed in self.packed:
            coverage.merge(packed)
        floor = json.loads(FLOOR.read_text())["cases"][registry.device["isa"]]
        planned = groups(registry, depth, every_gpu_case)
        not_here = absent(registry, planned)
        complete = len(self.packed) == len(planned) - len(not_here)
        if complete:
            for group in not_here:
                coverage.skip(group.key, len(group.cases), f"no GPU: {registry.why_no_cuda}")
            for name in coverage.silent(registry):
                self.problems.append(f"{name} could run here and ran no case")
        if complete and depth.full:
            for knob in coverage.idle_knobs(registry):
                self.problems.append(f"no configuration ran with {knob}")
            if coverage.run < floor:
                self.problems.append(f"{coverage.run} cases run, {FLOOR.name} asks for {floor}")
        held = f"floor {floor}" if depth.full else f"floor {floor} at full depth"
        held = held if complete else "a part of the cases: nothing is held against a floor"
        summary = f"{coverage.summary()} ({held})"
        lines = [coverage.brief(), "", machine_line(registry), summary, words_of(depth)]
        self.text = "\n".join([*lines, "every row: build/coverage.json"])
        if (ROOT / "build").is_dir():
            facts = {
                "complete": complete, "floor": floor, "problems": self.problems,
                "depth": "full" if depth.full else "sample", "seed": depth.seed,
            }  # fmt: skip
            text = json.dumps({**facts, **coverage.as_dict()}, indent=1)
            (ROOT / "build" / "coverage.json").write_text(text + "\n")


_collector = _Collector()


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def _tell(terminal: Any, report: pytest.TestReport) -> None:
    """Prints a failure at once, for runs that may be ended before the summary."""
    lines = [line for line in report.longreprtext.splitlines() if line.startswith("E ")]
    shown = [line[:400] for line in lines[:12]] or [report.longreprtext[-1500:]]
    terminal.write_line("")
    for line in [f"!! {report.nodeid} ({report.when})", *shown]:
        terminal.write_line(line)
    terminal.flush()


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    os.environ.setdefault("DLBLAS_TEST_SEED", str(random.randrange(1, 1 << 30)))  # workers inherit
    if config.getoption("tell_failures") and not _is_worker(config):
        _collector.terminal = config.pluginmanager.get_plugin("terminalreporter")


def pytest_report_header() -> str:
    from depth import depth_of, words_of

    return f"dlblas: {words_of(depth_of())}"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed and _collector.terminal:
        _tell(_collector.terminal, report)
    if report.when == "call" and report.user_properties:
        from dlblas.harness.groups import PROPERTY

        packed = [value for name, value in report.user_properties if name == PROPERTY]
        _collector.packed += [json.loads(str(text)) for text in packed]
        for name, text in report.user_properties:
            if name == _ATTACK and not report.skipped:
                row = {**json.loads(str(text)), "test": report.nodeid}
                row["broke"] = max(row["broke"], int(report.failed))
                _collector.attacks.append(row)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if _is_worker(session.config):
        return
    for option in ("attacks", "keep_attacks"):
        if kept := session.config.getoption(option):
            pathlib.Path(kept).write_text(json.dumps(_collector.attacks, indent=1) + "\n")
    if not _collector.packed:
        return
    _collector.finish(session.config.getoption("every_gpu_case"))
    if _collector.problems:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(trylast=True)
def _times(reports: dict[str, list[Any]]) -> str:
    """The slowest files of a long run, in minutes summed over all workers."""
    seconds: dict[str, float] = {}
    for kept in reports.values():
        for report in kept:
            if isinstance(report, pytest.TestReport):
                file = report.nodeid.partition("::")[0]
                seconds[file] = seconds.get(file, 0) + report.duration
    longest = sorted(seconds.items(), key=lambda row: -row[1])[:15]
    total = sum(seconds.values())
    rows = [f"{pathlib.Path(file).name} {s / 60:.1f}" for file, s in longest if s >= 20]
    return f"{total / 60:.0f} min of tests; {', '.join(rows)}" if total > 600 else ""


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if times := _times(terminalreporter.stats):
        terminalreporter.section("time: minutes by file")
        terminalreporter.write_line(times)
    if not _collector.text:
        return
    terminalreporter.section("coverage: operator (implementations × dtypes)")
    terminalreporter.write_line(_collector.text)
    for problem in _collector.problems:
        terminalreporter.write_line(f"coverage: {problem}", red=True)
