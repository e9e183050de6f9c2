"""A search, from keyword options to the library's report: what ``tune`` and ``get_op`` share.

In: an operator's name, its arguments, options by name. Out: the requested form, its named
arguments, a ``TuningReport``. Read next: tuning.py, _progress.py, bindings/python/control.cpp.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import _native, _options, _probe, _progress, _search_log, _worker_command
from ._functions import Function, native, resolve
from ._reports import ProgressEvent, TuningReport
from .errors import ArgumentTypeError

_EVENT_KINDS = ("start", "measured", "failed", "final", "done", "waiting", "first_call", "worker")


def check_tuple(what: str, name: str, args: Any) -> tuple[Any, ...]:
    """Returns ``args``; raises ArgumentTypeError, which is also a TypeError, if it is not a
    tuple."""
    if isinstance(args, tuple):
        return args
    got = type(args).__name__
    raise ArgumentTypeError.from_library(
        f"{what}: args is not a tuple; expected a tuple of {name}'s arguments, got {got}; "
        "write (x,) for one",
        what, "args", "tuple", got,
    )  # fmt: skip


def _domains(operator: str) -> dict[str, dict[str, list[Any]]]:
    return {
        i["name"]: {knob["name"]: knob["values"] for knob in i["knobs"]}
        for i in _native.operator_row(operator)["implementations"]
        if not i["oracle"]
    }


def _packed(
    function: Function,
    listeners: list[Callable[[ProgressEvent], Any]],
    *,
    seconds: float | None,
    effort: str | None,
    strategy: str | None,
    seed: int,
    max_evaluations: int | None,
    force: bool,
    implementations: str | Iterable[str] | None,
    space: Mapping[str, Any] | None,
    where: Any,
    worker: bool | None,
) -> tuple[Any, ...]:
    """The options of a search as the extension takes them, in its order."""
    names = implementations.split(",") if isinstance(implementations, str) else implementations
    chosen = None if names is None else [name.strip() for name in names]
    rows: list[tuple[str, str, str]] = []
    keep = None
    if space is not None or where is not None:
        from . import spaces

        domains = _domains(function.operator)
        rows, empty = spaces.narrow(space or {}, domains)
        if empty:
            chosen = [name for name in (chosen or domains) if name not in empty]
            _options.check_options("tune", {"implementations": chosen})
        keep = spaces.compile_where(where, domains)

    def report(kind: int, *fields: Any) -> None:
        event = ProgressEvent(_EVENT_KINDS[kind], *fields)
        for listener in listeners:
            listener(event)

    return (
        float(seconds or (effort and _options.EFFORTS[effort]) or 0.0),
        None if strategy is None else _native.plain(strategy),
        seed,
        max_evaluations or 0,
        force,
        None if chosen is None else _native.plain(",".join(chosen)),
        tuple(rows),
        keep,
        report if listeners else None,
        _measure_in(worker, function.operator),
    )


def _measure_in(worker: bool | None, op: str) -> int:
    """Where to measure, as the C ABI's number: 0 the library's choice, 1 a worker, 2 this
    process."""
    if _worker_command.serving:
        return 2
    _worker_command.searched = op
    _worker_command.announce()
    return 0 if worker is None else 1 if worker else 2


def label_of(name: str, values: tuple[Any, ...], named: Mapping[str, Any]) -> str:
    """``rms_norm 16x4096 4096``: the label at the start of a line about a search."""
    shapes = [getattr(value, "shape", None) for value in (*values, *named.values())]
    sizes = ["x".join(map(str, s)) or "[]" for s in shapes if isinstance(s, tuple)]
    return " ".join([name, *sizes[:4]])


DEFAULTS: dict[str, Any] = {
    "seconds": None, "effort": None, "strategy": None, "seed": 0, "max_evaluations": None,
    "force": False, "implementations": None, "space": None, "where": None, "progress": None,
    "worker": None, "log": None,
}  # fmt: skip


def checked(what: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """All options: the given ones, after a check, and the defaults of the others."""
    for name in options:
        if name not in DEFAULTS:
            raise _options.refuse(
                what, name, "is not an option", ", ".join(DEFAULTS), name,
                f"see help(dlblas.{what})", ArgumentTypeError,
            )  # fmt: skip
    _options.check_options(what, options)
    return {**DEFAULTS, **options}


def report_of(
    what: str,
    function: Function,
    label: str,
    options: dict[str, Any],
    run: Callable[[tuple[Any, ...]], str],
) -> TuningReport:
    """Runs a search. ``run`` takes the options as the extension does, and returns the report's
    JSON."""
    import json

    with contextlib.ExitStack() as stack:
        stack.enter_context(_probe.searching())
        shown, log = options.pop("progress"), options.pop("log")
        wanted = (
            _progress.listener(shown, label, stack),
            None if log is None else _search_log.listener(what, log, label, stack),
        )
        packed = _packed(function, [one for one in wanted if one is not None], **options)
        return TuningReport(json.loads(run(packed)))


def search(
    what: str,
    name: str,
    args: Any,
    kwargs: Mapping[str, Any] | None,
    options: dict[str, Any],
) -> tuple[Function, dict[str, Any], TuningReport]:
    """``what``: "tune" measures known problems again, "get_op" does not."""
    function, fixed = resolve(name)
    values = check_tuple(what, name, args)
    _options.check_options(what, options)
    named = {**fixed, **(kwargs or {})}

    def run(packed: tuple[Any, ...]) -> str:
        return str(native["tune"](function.name, values, named, packed, what == "tune"))

    label = label_of(function.name, values, named)
    return function, named, report_of(what, function, label, options, run)
