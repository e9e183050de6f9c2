"""``dlblas explain`` and ``dlblas tune``, for one problem or for the cases of an operator.

Each command takes its parsed options and returns an exit code. Read next: _specs.py, _progress.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from . import _autotune, _specs, tuning
from ._cli_show import OK, Row, print_json
from ._progress import Progress, is_wanted
from ._reports import TuningReport, summary

Search = Callable[..., TuningReport]


def _problems(args: argparse.Namespace) -> list[tuple[str, Row]]:
    """The problems of explain and tune as (form, named arguments): from --dims, else from the
    cases."""
    row, form, fixed = _specs.operator_row(args.op)
    scalars = {**_specs.parse_arguments(row, form, args.arg), **fixed}
    dtypes = _specs.parse_dtypes(row["name"], args.dtype)
    absent = args.command == "explain"
    device = _specs.choose_device(args.device, absent=absent) if args.device else "cpu"
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
        print(tuning.explain_all(form, **named) if args.verbose else explanation, end="")
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


def _searches(args: argparse.Namespace) -> Iterator[tuple[str, Search]]:
    """The searches that tune has to run: a title, and a function that takes the search options."""
    if args.missed is None:
        if args.op is None:
            raise _specs.refuse(
                "tune", "OP", "is missing", "an operator, or --missed FILE", "neither",
                "see dlblas list",
            )  # fmt: skip
        for form, named in _problems(args):
            letters = args.dims or " ".join(
                str(v.shape) for v in named.values() if hasattr(v, "shape")
            )
            yield f"{args.op} {letters}", partial(tuning.tune, form, (), kwargs=named)
        return
    if args.op is not None or args.dims or args.dtype or args.arg or args.device or args.cases:
        raise _specs.refuse(
            "tune", "--missed", "has a problem beside it", "the keys of the file alone",
            str(args.op or "its options"), "give either",
        )  # fmt: skip
    for key in _autotune.read_missed(args.missed):
        yield f"{key['op']} {key.get('dims', '')}", partial(_autotune.tune_key, key)


def tune(args: argparse.Namespace) -> int:
    reports: list[TuningReport] = []
    for title, search in _searches(args):
        progress = Progress(title) if is_wanted() else None
        try:
            reports.append(
                search(
                    seconds=args.seconds,
                    effort=args.effort,
                    strategy=args.strategy,
                    seed=args.seed,
                    max_evaluations=args.max_evaluations,
                    force=args.force,
                    implementations=args.implementations,
                    space=_parse_space(args.space),
                    where=args.where or None,
                    progress=progress or False,
                    worker=args.worker,
                    log=args.log,
                )
            )
        finally:
            if progress:
                progress.clear()
        if not args.json:
            print(summary(reports[-1], args.verbose), flush=True)
    if args.json:
        one = len(reports) == 1 and not args.cases and args.missed is None
        print_json(reports[0] if one else reports)
    return OK
