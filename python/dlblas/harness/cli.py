"""``dlblas test``: replays cases by name, as given in the repro line of a failure.

Exit codes: 0 nothing failed, 1 something failed, 2 no case matches the filters. Read next: run.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from .cases import Case, Registry, expand, load_registry
from .report import Coverage, machine_line
from .run import Outcome, run_case


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dlblas test",
        description="Runs the harness's cases; every filter is optional and may be a comma list.",
    )
    for name, text in (
        ("op", "operators"),
        ("impl", "implementations"),
        ("case", "names of cases, as in the operator's cases.json"),
        ("dtype", "f32, f16, bf16, …"),
        ("layout", "layouts"),
        ("values", "kinds of values"),
    ):
        parser.add_argument(f"--{name}", help=text)
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), help="implementations of this backend alone"
    )
    parser.add_argument("--config", help="'knob=value knob=value' instead of the default")
    parser.add_argument("--seed", type=int, default=0, help="of all draws (default 0)")
    parser.add_argument("--list", action="store_true", help="print the cases, run nothing")
    parser.add_argument("--verbose", "-v", action="store_true", help="a line for every case")
    return parser


def _selected(registry: Registry, args: argparse.Namespace) -> list[Case]:
    def fits(value: str, wanted: str | None) -> bool:
        return wanted is None or value in wanted.split(",")

    return [
        case
        for case in expand(registry)
        if fits(case.op, args.op)
        and fits(case.name, args.case)
        and fits(case.dtype, args.dtype)
        and fits(case.layout, args.layout)
        and fits(case.values, args.values)
    ]


def _line(outcome: Outcome) -> str:
    case = outcome.case
    which = (case.op, outcome.implementation, case.name, case.dtype, case.layout, case.values)
    text = f"{outcome.status:10} {' '.join(which)}"
    return f"{text}: {outcome.reason}" if outcome.reason else text


def main(argv: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    registry = load_registry()
    coverage, names = Coverage(), None if args.impl is None else args.impl.split(",")
    found = 0
    for case in _selected(registry, args):
        found_here = registry.implementations(case.op)
        chosen = [
            impl
            for impl in found_here
            if (names is None or impl["name"] in names) and args.device in (None, impl["backend"])
        ]
        found += len(chosen)
        if args.list:
            for impl in chosen:
                print(case.repro(impl["name"], args.seed))
            continue
        for outcome in run_case(registry, case, chosen, args.seed, args.config):
            coverage.add([outcome])
            if args.verbose or outcome.status == "failed":
                print(_line(outcome))
            if outcome.status == "failed":
                print(f"           {outcome.repro}", flush=True)
    if not found:
        print("dlblas test: no case fits the filters; see dlblas test --list")
        return 2
    if not args.list:
        print(coverage.table())
        print(machine_line(registry))
        print(coverage.summary())
    return 1 if coverage.total("failed") else 0
