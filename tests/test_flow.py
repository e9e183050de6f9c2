"""docs/flow.md says what one call passes through: real calls are traced and compared with its
tables.

Read next: tools/trace_call.py, docs/flow.md.
"""

from __future__ import annotations

import pathlib
import re
import sys
from typing import NamedTuple

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import trace_call  # noqa: E402
from trace_call import Entry  # noqa: E402

TABLE = re.compile(r"^<!-- call: (\w+) -->\n((?:\|.*\n)+)", re.MULTILINE)
ROW = re.compile(r"^\| \d+ \| `([^`]+)` \| `([^`]+)` \| .+ \|$", re.MULTILINE)
BESIDE = re.compile(r"^Entered as well: (.+)$", re.MULTILINE)
# The tables that a call through each entry point passes.
PATHS = {"c": ("stages",), "numpy": ("numpy", "stages"), "torch": ("torch", "stages")}


class Page(NamedTuple):
    tables: dict[str, list[Entry]]
    beside: set[str]  # files that a warm call enters between the functions of the tables

    def files(self, entry: str) -> set[str]:
        return {row.file for table in PATHS[entry] for row in self.tables[table]} | self.beside


def read(text: str) -> Page:
    tables = {
        name: [Entry(function, file) for file, function in ROW.findall(rows)]
        for name, rows in TABLE.findall(text)
    }
    found = BESIDE.search(text)
    return Page(tables, set(re.findall(r"`([^`]+)`", found[1])) if found else set())


def is_it(entered: Entry, named: Entry) -> bool:
    """``norm::run`` also matches the name run."""
    return entered.file == named.file and f"::{entered.function}".endswith(f"::{named.function}")


def out_of_order(trace: list[Entry], table: list[Entry]) -> list[str]:
    problems, after = [], -1
    for named in table:
        at = next((i for i, entered in enumerate(trace) if is_it(entered, named)), None)
        if at is None:
            problems.append(f"{named.function} of {named.file} is not entered")
        elif at < after:
            problems.append(f"{named.function} of {named.file} is entered before the row above it")
        after = after if at is None else max(after, at)
    return problems


def detours(trace: list[Entry], files: set[str]) -> list[str]:
    return [
        f"{entered.function} is entered in {entered.file}, which docs/flow.md does not name"
        for entered in trace
        if entered.file and entered.file not in files
    ]


@pytest.fixture(scope="module")
def page() -> Page:
    return read((ROOT / "docs" / "flow.md").read_text(encoding="utf-8"))


def traced(entry: str, cold: bool = False) -> list[Entry]:
    try:
        return trace_call.trace(ROOT / "build", entry, cold)
    except trace_call.CannotTraceError as why:
        pytest.skip(str(why))


@pytest.mark.parametrize("entry", PATHS)
def test_a_warm_call_takes_the_path_of_the_page(entry: str, page: Page) -> None:
    if entry == "torch":
        pytest.importorskip("torch")
    trace = traced(entry)
    problems = detours(trace, page.files(entry))
    for table in PATHS[entry]:
        problems += out_of_order(trace, page.tables[table])
    assert not problems, "\n".join(problems)


def test_the_first_call_takes_the_path_of_the_page(page: Page) -> None:
    trace = traced("c", cold=True)
    problems = out_of_order(trace, page.tables["first"])
    assert not problems, "\n".join([*problems, *(f"{e.file} {e.function}" for e in trace)])


def test_the_path_on_a_gpu_exists(page: Page) -> None:
    functions = trace_call.defined(ROOT / "build")
    rows = page.tables["cuda"]
    assert len(rows) > 3
    assert [row for row in rows if not any(is_it(there, row) for there in functions)] == []


def test_files_named_beside_the_tables_exist(page: Page) -> None:
    assert page.beside
    assert [name for name in sorted(page.beside) if not (ROOT / name).is_file()] == []


# A trace that the first page below describes rightly and the next three describe wrongly.
TRACE = [Entry("dlblas_call", "c.cpp"), Entry("bind", "b.cpp"), Entry("x::run", "r.cpp"),
         Entry("helper", "h.cpp"), Entry("in_a_header", "")]  # fmt: skip
ROWS = [("c.cpp", "dlblas_call"), ("b.cpp", "bind"), ("r.cpp", "run")]


def page_of(rows: list[tuple[str, str]], beside: str = "h.cpp") -> Page:
    table = "".join(f"| {i} | `{file}` | `{name}` | … |\n" for i, (file, name) in enumerate(rows))
    return read(f"<!-- call: stages -->\n{table}\nEntered as well: `{beside}`.\n")


def problems_of(made: Page) -> list[str]:
    return out_of_order(TRACE, made.tables["stages"]) + detours(TRACE, made.files("c"))


def test_a_wrong_page_is_seen() -> None:
    assert problems_of(page_of(ROWS)) == []
    (problem,) = problems_of(page_of([*ROWS, ("r.cpp", "gone")]))
    assert problem == "gone of r.cpp is not entered"
    (problem,) = problems_of(page_of([ROWS[1], ROWS[0], ROWS[2]]))
    assert problem == "dlblas_call of c.cpp is entered before the row above it"
    (problem,) = problems_of(page_of(ROWS, "other.cpp"))
    assert problem == "helper is entered in h.cpp, which docs/flow.md does not name"


def test_names_are_short() -> None:
    kept = {
        "dlblas::norm::(anonymous namespace)::run(dlblas::Args const&, void*)": "norm::run",
        "void dlblas::x::f<(dlblas::Element)0, false>(float)": "x::f",
        "dlblas::cache_root[abi:cxx11]()": "cache_root",
        "dlblas::CallSide::~CallSide()": "CallSide::~CallSide",
        "dlblas_call": "dlblas_call",
    }
    assert {name: trace_call.short(name) for name in kept} == kept
