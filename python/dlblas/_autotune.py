"""``autotune`` and ``missed``: find the keys that a program's own calls ran untuned, and search
them.

In: calls of any kind: functions, modules, ``torch.ops`` and compiled graphs. The library chooses
what they run, and notes each key that neither a measurement nor a pin decided. Out: a search of
each such key, or a file of them for ``dlblas tune --missed``. Read next: tuning.py,
src/dispatch/missed.hpp.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

from . import _native, _options
from ._arguments import hinted
from ._functions import native, resolve
from ._reports import ProgressEvent, TuningReport, as_html, in_one_line
from ._search import DEFAULTS, checked, report_of
from .errors import ArgumentError, Error, TuningFailedError, UnsupportedError


class MissedKey(NamedTuple):
    """A key that a call ran untuned: ``str()`` is for people, ``key`` is what files hold."""

    op: str
    problem: str
    why: str  # "model" or "heuristic"
    key: dict[str, str]

    def __str__(self) -> str:
        return f"{self.op} {self.problem} ({self.why})"


class ModelReport(list[TuningReport]):
    """The searches of a program's keys: one report per key, in order."""

    unsearched: int | None = 0  # keys that were missed and not searched; None: not known yet

    def __str__(self) -> str:
        if self.unsearched != 0:
            return f"not searched, {self.unsearched} missed" if self.unsearched else "not over yet"
        lines = "\n".join(map(in_one_line, self))
        return lines.replace("more: get_op(…, ", "more: autotune(") or "nothing was missed"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return as_html(str(self))


@hinted
def missed(file: str | os.PathLike[str] | None = None) -> list[MissedKey]:
    """The keys that this process's calls have run untuned so far, each once, the last 4,096.

    The model or the operator's order chose for them; they are neither measured nor pinned. With
    ``file`` they are also appended to it, one JSON object per line, for
    ``dlblas tune --missed FILE`` or ``tune_missed``.
    """
    found = _since(0)
    if file is not None:
        _append(file, found)
    return found


def _since(mark: int, with_known: bool = False) -> list[MissedKey]:
    return [
        MissedKey(row["key"]["op"], row["text"], row["why"], row["key"])
        for row in _native.missed(mark, with_known)
    ]


def _append(file: str | os.PathLike[str], keys: Iterable[MissedKey]) -> None:
    import json

    lines = "".join(json.dumps(one.key) + "\n" for one in keys)
    with open(file, "a", encoding="utf-8") as opened:
        opened.write(lines)


def read_missed(file: str | os.PathLike[str]) -> list[dict[str, str]]:
    """The keys of a file, each once; raises ArgumentError for a line that is not a key."""
    keys: dict[str, dict[str, str]] = {}
    with open(file, encoding="utf-8", errors="replace") as opened:
        for number, line in enumerate(opened, 1):
            if not line.strip():
                continue
            key = _fields(line)
            if key is None:
                raise _options.refuse(
                    "tune", f"line {number} of --missed", "is no key",
                    "a JSON object of names and texts with an op", repr(line.strip()[:80]),
                    "have it written by dlblas.missed()",
                )  # fmt: skip
            keys.setdefault(_text(key), key)
    return list(keys.values())


def _fields(line: str) -> dict[str, str] | None:
    import json

    try:
        read = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(read, dict) or not isinstance(read.get("op"), str):
        return None
    fields = {name: str(value) for name, value in read.items()}
    parts = [*fields, *fields.values()]
    return None if any("\n" in part or "\0" in part for part in parts) else fields


def _text(key: Mapping[str, str]) -> str:
    return "\n".join(f"{name}={value}" for name, value in key.items())


def tune_key(key: Mapping[str, str], **options: Any) -> TuningReport:
    """Searches one key of ``missed`` as ``get_op`` would, unless it is known by now."""
    function = resolve(key["op"])[0]

    def run(packed: tuple[Any, ...]) -> str:
        return str(native["tune_key"](_native.plain(_text(key)), packed))

    label = f"{key['op']} {key.get('dims', '')}".rstrip()
    return report_of("autotune", function, label, checked("autotune", options), run)


def tune_missed(keys: Iterable[MissedKey | Mapping[str, str]], **options: Any) -> ModelReport:
    """Searches each key once. A key that cannot be measured is in the report with its error; a key
    that the store decided is there only if its search had more to do."""
    report = ModelReport()
    for one in keys:
        key = one.key if isinstance(one, MissedKey) else one
        known = isinstance(one, MissedKey) and one.why == "store"
        try:
            done = tune_key(key, **options)
            if not known or done["source"] not in ("store", "default"):
                report.append(done)
        except (TuningFailedError, UnsupportedError) as error:
            report.append(_failed(key, error))
    return report


def _failed(key: Mapping[str, str], error: Error) -> TuningReport:
    words = str(error).partition("\n")[0]
    problem = f"[{key.get('dims', '')}]"
    return TuningReport(
        op=key["op"], problem=problem, source="failed", winner=None, served=None, why=words
    )


@hinted
class autotune:  # noqa: N801 - used like a function
    """``with dlblas.autotune(seconds=5) as session: model(x)``: tunes what the calls inside miss.

    Inside, every choice is made anew, and keys that neither a measurement nor a pin decides are
    noted. This holds for calls of all threads and of any kind: functions, modules, ``torch.ops``,
    graphs of ``torch.compile`` (but no replay of a CUDA graph, which chooses nothing). At the exit
    each key is searched once and kept, as ``get_op`` would; ``session.missed`` and
    ``session.report`` list the keys and their searches, and later calls serve the winners. If
    several processes of one host miss a key, one searches it and the others wait for it.

    A key that was measured before is searched only where ``get_op`` would search it: further, if
    its search was cut short and ``seconds`` is at least twice as much; for a new implementation;
    and from the start with ``force``.

    ``seconds`` is the budget per key (default ``DLBLAS_TUNE_SECONDS``, 10); 0 searches nothing.
    ``missed`` names a file to append the keys to, for ``dlblas tune --missed FILE``. ``progress``,
    ``worker``, ``seed`` and the other options are those of ``tune``. The library generates the
    inputs, index-valued ones according to its schema. An exception inside ends the session without
    a search; the keys are in ``session.missed`` and in the file.
    """

    @_options.knows_its_options
    def __init__(
        self,
        seconds: float | None = None,
        *,
        missed: str | os.PathLike[str] | None = None,
        progress: bool | Callable[[ProgressEvent], Any] | None = None,
        effort: Literal["quick", "normal", "thorough"] | None = None,
        strategy: str | None = None,
        seed: int = 0,
        max_evaluations: int | None = None,
        force: bool = False,
        implementations: str | Iterable[str] | None = None,
        space: Mapping[str, Any] | None = None,
        where: Any = None,
        worker: bool | None = None,
        log: str | os.PathLike[str] | None = None,
    ) -> None:
        given = locals()
        self._searches = seconds != 0
        self._file = missed
        names = DEFAULTS if self._searches else DEFAULTS.keys() - {"seconds"}
        self._options: dict[str, Any] = {name: given[name] for name in names}
        checked("autotune", self._options)
        self._mark: int | None = None
        self._missed: list[MissedKey] | None = None
        self.report = ModelReport()

    def __repr__(self) -> str:
        if self._mark is None:
            return "<dlblas.autotune, not entered yet>"
        if self._missed is None:
            return f"<dlblas.autotune, open, {len(self.missed)} missed so far>"
        done = [one for one in self.report if one["source"] != "failed"]
        return f"<dlblas.autotune, {len(self.missed)} missed, {len(done)} searched>"

    @property
    def missed(self) -> list[MissedKey]:
        """The missed keys; inside the ``with`` block, those so far."""
        if self._missed is not None:
            return self._missed
        return [] if self._mark is None else _since(self._mark)

    def __enter__(self) -> autotune:
        if self._mark is not None and self._missed is None:
            raise ArgumentError.from_library(
                "autotune: session is open; expected one that is not entered yet, got the same "
                "again; make another",
                "autotune", "session", "one that is not entered yet", "the same again",
            )  # fmt: skip
        self._missed, self.report = None, ModelReport()
        self.report.unsearched = None
        self._mark = _native.missed_mark()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        assert self._mark is not None
        met = _since(self._mark, with_known=True)
        self._missed = [one for one in met if one.why != "store"]
        self.report.unsearched = len(self._missed)
        if self._file is not None:
            with contextlib.suppress(*([] if kind is None else [OSError])):  # the one inside counts
                _append(self._file, self._missed)
        if self._searches and kind is None:
            self.report = tune_missed(met, **self._options)
