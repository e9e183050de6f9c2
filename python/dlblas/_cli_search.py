"""``dlblas explain`` and ``dlblas tune``: one problem, or the cases of an operator, from words.

Each command takes its parsed options and returns an exit code. Read next: _specs.py, _progress.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from . import _specs, tuning
from ._cli_show import OK, Row, print_json
from ._progress import Progress
from ._text import columns, harmless, milliseconds


def _problems(args: argparse.Namespace) -> list[tuple[str, Row]]:
    """What explain and tune are about: (form, named arguments); from --dims, else from cases."""
    row, form, fixed = _specs.operator_row(args.op)
    scalars = {**_specs.parse_arguments(row, form, args.arg), **fixed}
    dtypes = _specs.parse_dtypes(row["name"], args.dtype)
    device = _specs.choose_device(args.device) if args.device else "cpu"
    use = getattr(args, "cases", None)
    if args.dims is not None or not use:
        sizes = _specs.parse_dims(row, args.dims or "")
        return [(form, _specs.named_arguments(row, sizes, dtypes or {"": "f32"}, scalars, device))]
    problems: list[tuple[str, Row]] = []
    for case in _specs.cases(row, use):
        for dtype in case["dtypes"]:
            if not dtypes or dtypes.get("") == dtype:
                given = {**case.get("args", {}), **scalars}
                named = _specs.named_arguments(
                    row, case["dims"], {**dtypes, "": dtype}, given, device
                )
                if (form, repr(named)) not in [(f, repr(n)) for f, n in problems]:
                    problems.append((form, named))
    if not problems:
        raise _specs.refuse(
            row["name"], "--cases", "has none", f"cases for {use}", args.dtype or use, "give --dims"
        )
    return problems


def explain(args: argparse.Namespace) -> int:
    form, named = _problems(args)[0]
    explanation = tuning.explain(form, **named)
    if args.json:
        print_json(explanation.as_dict())
    else:
        print(explanation, end="")
    return OK


def _parse_space(texts: Sequence[str]) -> Row | None:
    """``--space block_m=64,128`` (repeatable; ``cpu_avx512.block_m=64`` for one implementation)."""
    space: Row = {}
    for text in texts:
        knob, equals, values = text.partition("=")
        if not (knob and equals and values):
            raise _specs.refuse(
                "tune",
                "--space",
                "is malformed",
                "knob=value,value",
                repr(text),
                "write block_m=64,128",
            )
        read = [int(v) if v.removeprefix("-").isdecimal() else v for v in values.split(",")]
        implementation, dot, name = knob.rpartition(".")
        (space.setdefault(implementation, {}) if dot else space)[name] = read
    return space or None


def report_text(report: tuning.TuningReport) -> str:
    """A search in a few lines: what took part, what was tried, what won and why."""
    rows = []
    for c in report["candidates"]:
        if c["takes_part"]:
            tried = f"{c['measured']} of {c['configs']} measured"
            tried += f", {c['failed']} failed" if c["failed"] else ""
            rows.append([c["implementation"], milliseconds(c["best_ms"]), tried])
        else:
            rows.append([c["implementation"], "-", f"no: {harmless(c['reason'])}"])
    served, winner = report["served"], report["winner"]
    lines = [f"{report['op']} {report['problem']}", columns(rows)]
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
            f"  {report['strategy']}, {report['elapsed_s']:.1f} of {report['budget_s']:.3g} s,"
            f" {report['final_rounds']} final rounds, {report['failures']} failed"
        )
    if winner:
        lines.append(f"  > {winner['implementation']} {winner['config']}".rstrip())
    if served and served != winner:
        lines.append(f"  served: {served['implementation']} {served['config']}".rstrip())
    return "\n".join([*lines, f"  {harmless(report['why'])}"])


def tune(args: argparse.Namespace) -> int:
    reports: list[tuning.TuningReport] = []
    problems = _problems(args)
    for form, named in problems:
        letters = args.dims or " ".join(str(v.shape) for v in named.values() if hasattr(v, "shape"))
        progress = Progress(f"{args.op} {letters}")
        try:
            reports.append(
                tuning.tune(
                    form,
                    (),
                    kwargs=named,
                    seconds=args.seconds,
                    strategy=args.strategy,
                    seed=args.seed,
                    max_evaluations=args.max_evaluations,
                    force=args.force,
                    implementations=args.implementations,
                    space=_parse_space(args.space),
                    where=args.where or None,
                    progress=progress,
                    worker=args.worker,
                )
            )
        finally:
            progress.clear()
        if not args.json:
            print(report_text(reports[-1]), flush=True)
    if args.json:
        print_json(reports[0] if len(reports) == 1 and not args.cases else reports)
    return OK
