"""The results of searches and explanations: ``ProgressEvent``, ``TuningReport``, ``Explanation``.

In: the library's JSON, whose fields the TypedDicts name. Each prints in readable form, in shells
and in notebooks. Read next: _progress.py, _search.py, src/tuner/report.cpp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from . import _native
from ._text import columns, harmless, microseconds

_FINAL_SAMPLES = 5  # as kFinalSamples of src/store/ranking.hpp

if TYPE_CHECKING:
    from typing_extensions import NotRequired  # checkers bring it along


class ProgressEvent(NamedTuple):
    """One step of a search, passed to ``progress=``. An exception raised there stops the search;
    what was measured is kept."""

    # "start", "measured", "failed", "final", "done"; "first_call": a function of yours is about to
    # be called for the first time, which may take seconds outside the budget; "worker": a process
    # to measure in is being started (with a note: it imports your modules, also outside the budget)
    kind: str
    done: int
    planned: int
    failed: int
    implementation: str
    config: str
    note: str
    milliseconds: float
    best_ms: float
    best: str
    elapsed_s: float
    budget_s: float


class Choice(TypedDict):
    implementation: str
    config: str


class SearchedCandidate(TypedDict):
    """An implementation, as a search saw it."""

    implementation: str
    takes_part: bool
    reason: str
    configs: int
    measured: int
    failed: int
    best_ms: float | None
    samples: int  # that it is made of; under 5: it was not in a final


class Evaluated(TypedDict):
    """A configuration that was measured (``ms`` …) or failed (``failure``, ``note``)."""

    implementation: str
    config: str
    ms: NotRequired[float]
    sigma_ms: NotRequired[float]
    samples_ms: NotRequired[list[float]]
    failure: NotRequired[str]
    note: NotRequired[str]
    error: float


class ExplainedCandidate(TypedDict):
    implementation: str
    supports: bool
    reason: str
    chosen: bool
    config: NotRequired[str]
    failure: NotRequired[str]
    note: NotRequired[str]
    measured_ms: NotRequired[float]
    samples: NotRequired[int]  # that it is made of; under 5: it was not in a final
    predicted_ms: NotRequired[float]


class Explained(TypedDict):
    """``Explanation.as_dict()``: with a choice, or with the ``error`` that a call raises."""

    op: str
    problem: str
    candidates: list[ExplainedCandidate]
    implementation: NotRequired[str]
    config: NotRequired[str]
    source: NotRequired[str]
    why: NotRequired[str]
    parts: NotRequired[list[dict[str, str]]]
    error: NotRequired[str]


def as_html(text: str) -> str:
    from html import escape

    return f"<pre>{escape(text)}</pre>"


class TuningReport(dict[str, Any]):
    """What a search did; the keys are those of the library's JSON, readable as attributes too.
    Prints as a summary."""

    op: str
    problem: str
    key: dict[str, str]
    source: str  # "store", "tuned", "empty", "default"
    winner: Choice | None
    why: str
    served: Choice | None
    candidates: list[SearchedCandidate]
    evaluated: list[Evaluated]
    failures: int
    strategy: str
    seed: int
    measured_in: str
    no_worker: str
    final_rounds: int
    stopped: bool
    mistrusted: bool
    waited_s: float
    budget_s: float
    elapsed_s: float
    counters: dict[str, int]

    if not TYPE_CHECKING:  # checkers know the attributes above, and no others

        def __getattr__(self, name: str) -> Any:
            try:
                return self[name]
            except KeyError:
                raise AttributeError(name) from None

    def __str__(self) -> str:
        return summary(self) if "candidates" in self else in_one_line(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return as_html(str(self))


def in_one_line(report: TuningReport) -> str:
    """A search in one line; for a function that is made of operators, one line for each of its
    searches."""
    if "why" not in report:
        return dict.__repr__(report)
    winner = report.get("winner") or {}
    chosen = f"{winner.get('implementation', '-')} {winner.get('config', '')}".rstrip()
    if "parts" in report:
        return "\n  ".join([f"{report['op']}:", *report["why"].split("\n")])
    return f"{report['op']} {report['problem']}: {chosen}; {report['source']}: {report['why']}"


def _for_gpus(report: TuningReport) -> set[str]:
    """GPU implementations that a search on the CPU leaves out, on a machine without a GPU."""
    info = _native.info()
    if any(row["device"].startswith("cuda") for row in info["devices"]):
        return set()
    out = {c["implementation"] for c in report["candidates"] if not c["takes_part"]}
    known = (row["implementations"] for row in info["operators"] if row["name"] == report["op"])
    return {i["name"] for i in next(known, ()) if i["backend"] == "cuda"} & out


def summary(report: TuningReport, verbose: bool = False) -> str:
    """A search in a few lines: what took part, what was tried, what won and why."""
    rows = []
    folded = set() if verbose else _for_gpus(report)
    for c in report["candidates"]:
        if c["implementation"] in folded:
            continue
        if c["takes_part"]:
            tried = f"{c['measured']} of {c['configs']} measured"
            tried += f", {c['failed']} failed" if c["failed"] else ""
            rows.append([c["implementation"], best_of(c), tried])
        else:
            rows.append([c["implementation"], "-", f"no: {harmless(c['reason'])}"])
    served, winner = report["served"], report["winner"]
    lines = [f"{report['op']} {report['problem']}", columns(rows)]
    if folded:
        lines.append(f"  {len(folded)} for GPUs; -v shows them")
    lines += _failures(report)
    if report["source"] == "store":
        waited = report["waited_s"]
        after = f", after {waited:.1f} s of waiting for another search" if waited else ""
        lines.append(f"  from the store: nothing measured{after}")
    elif report["source"] == "empty":
        lines.append("  empty results need no tuning: nothing measured")
    elif report["source"] == "default":
        lines.append(f"  waited {report['waited_s']:.1f} s for another search: nothing measured")
    else:
        lines.append(
            f"  {report['strategy']}, {report['elapsed_s']:.1f} s in all for a budget of"
            f" {report['budget_s']:.3g} s, {report['final_rounds']} final rounds,"
            f" {report['failures']} failed"
        )
    if winner:
        lines.append(f"  > {winner['implementation']} {winner['config']}".rstrip())
    if served and served != winner:
        lines.append(f"  served: {served['implementation']} {served['config']}".rstrip())
    return "\n".join([*lines, f"  {harmless(report['why'])}"])


def best_of(candidate: SearchedCandidate) -> str:
    """Its best time; ``~`` marks a time of the race, from few samples, as in the library's
    tables."""
    return _mark(candidate["samples"]) + microseconds(candidate["best_ms"])


def _mark(samples: int) -> str:
    return "~" if 0 < samples < _FINAL_SAMPLES else ""


def _failures(report: TuningReport) -> list[str]:
    """Each implementation's first failure, in its own words."""
    told: dict[str, str] = {}
    for e in report["evaluated"]:
        if e.get("failure") and e["implementation"] not in told:
            words = e["failure"] + (f": {harmless(e['note'])}" if e.get("note") else "")
            told[e["implementation"]] = f"  {e['implementation']} failed: {words}"
    return list(told.values())


class Explanation:
    """Every candidate with yes or why not, its configuration, and why the winner won."""

    __slots__ = ("_table", "_text")

    def __init__(self, table: str, text: str) -> None:
        self._table, self._text = table, text

    def __str__(self) -> str:
        return self._table

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return as_html(self._table)

    def as_dict(self) -> Explained:
        import json

        value: Explained = json.loads(self._text)
        return value

    def one_line(self) -> str:
        """``[T=16 C=4096] f32 → cpu_avx512 store=cached, 8.1 µs, store``."""
        told = self.as_dict()
        sizes, _, rest = told["problem"].partition("] ")
        words = rest.split(";")[0].split(",")[0].split()  # of the first tensor: name, dtype, layout
        problem = f"{sizes}] {words[1]}" if len(words) > 1 else told["problem"]
        if "implementation" not in told:
            return f"{problem} → none"
        chosen = next((c for c in told["candidates"] if c["chosen"]), None)
        time = None if chosen is None else chosen.get("measured_ms", chosen.get("predicted_ms"))
        choice = f"{told['implementation']} {told['config']}".strip()
        mark = "" if chosen is None else _mark(chosen.get("samples", 0))
        took = "" if time is None else f", {mark}{microseconds(time)}"
        return f"{problem} → {harmless(choice)}{took}, {told['source']}"
