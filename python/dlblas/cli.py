"""The command ``dlblas``: what the library knows, chooses and remembers, from a shell.

Exit codes: 0 done; 1 a check or verification failed; 2 wrong usage or a typed error, whose text is
on stderr; 130 Ctrl-C. Problems are given by letters (``--dims T=512,C=4096``), and nothing is
allocated for them. Only ``demo``, ``bench`` and ``test`` need NumPy. Read next: docs/cli.md.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from . import _native, _specs, cache, tuning
from ._text import columns, milliseconds, size
from .errors import Error, UnknownOperatorError

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
Row = dict[str, Any]


class _Parser(argparse.ArgumentParser):
    """argparse whose complaint is one line and names the help."""

    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"{self.prog}: {message}; see {self.prog} --help\n")
        sys.exit(USAGE)


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=1, ensure_ascii=False))


def _here(path: str) -> str:
    """A path as seen from the current folder, where that is shorter."""
    return path.removeprefix(os.getcwd() + os.sep)


# --- info, list --------------------------------------------------------------------------------


def describe_machine(info: Row) -> str:
    lines = [f"dlblas {info['version']} (ABI {info['abi']})"]
    for d in info["devices"]:
        caches = ", ".join(f"L{i} {size(d[f'l{i}_bytes'])}" for i in (1, 2, 3) if d[f"l{i}_bytes"])
        capped = "" if d["isa"] == d["isa_hardware"] else f" (the hardware has {d['isa_hardware']})"
        lines.append(
            f"{d['device']:10} {d['model']}, {d['isa']}{capped}, {d['threads']} threads, {caches}"
        )
    for library in info["libraries"]:
        found = f"{library['version']}  {_here(library['path'])}".strip()
        lines.append(f"{library['name']:10} {found if library['found'] else library['why_not']}")
    where = info["cache"]["path"] or f"in memory only: {info['cache']['memory_only_because']}"
    return "\n".join([*lines, f"{'cache':10} {where}"])


def _info(args: argparse.Namespace) -> int:
    if args.why:
        return _why(args)
    info = _native.info()
    if args.json:
        _print_json(info)
        return OK
    print(describe_machine(info))
    print("operators")
    print(columns([[op["name"], op["formula"]] for op in info["operators"]]))
    print("environment")
    rows = [[v["name"], v["value"] or f"({v['default'] or 'not set'})", v["meaning"]]
            for v in info["environment"]]  # fmt: skip
    print(columns(rows))
    return OK


def _why(args: argparse.Namespace) -> int:
    """Which implementations of one operator serve it here: each of its tuning cases explained."""
    row, form, fixed = _specs.operator_row(args.why)
    found = []
    for case in _specs.cases(row, "tune") or _specs.cases(row, "test"):
        named = _specs.named_arguments(row, case["dims"], {"": case["dtypes"][0]},
                                       {**case.get("args", {}), **fixed})  # fmt: skip
        found.append(tuning.explain(form, **named))
    if args.json:
        _print_json([explanation.as_dict() for explanation in found])
    else:
        print(f"{row['schema']}\n" + "\n".join(str(explanation) for explanation in found), end="")
    return OK


def _list(args: argparse.Namespace) -> int:
    operators = _native.info()["operators"]
    if args.json:
        _print_json(operators)
        return OK
    for op in operators:
        print(f"{op['name']} ({op['family']}): {op['formula']}")
        rows = [["schema", op["schema"]]]
        rows += [["in place", f["name"]] for f in op["forms"] if f["inplace"]]
        for impl in op["implementations"]:
            marks = ["oracle"] if impl["oracle"] else []
            marks += [] if impl["deterministic"] else ["bits may vary"]
            knobs = " ".join(f"{k['name']}={','.join(map(str, k['values']))}" for k in impl["knobs"])
            rows.append([impl["name"], ", ".join(filter(None, [knobs or "no knobs", *marks]))])
        print(columns(rows))
    return OK


# --- explain, tune -----------------------------------------------------------------------------


def _problems(args: argparse.Namespace) -> list[tuple[str, Row]]:
    """What explain and tune are about: (form, named arguments); from --dims, else from cases."""
    row, form, fixed = _specs.operator_row(args.op)
    scalars = {**_specs.parse_arguments(row, form, args.arg), **fixed}
    dtypes = _specs.parse_dtypes(row["name"], args.dtype)
    use = getattr(args, "cases", None)
    if args.dims is not None or not use:
        sizes = _specs.parse_dims(row, args.dims or "")
        return [(form, _specs.named_arguments(row, sizes, dtypes or {"": "f32"}, scalars))]
    problems = []
    for case in _specs.cases(row, use):
        for dtype in case["dtypes"]:
            if not dtypes or dtypes.get("") == dtype:
                given = {**case.get("args", {}), **scalars}
                named = _specs.named_arguments(row, case["dims"], {**dtypes, "": dtype}, given)
                if (form, repr(named)) not in [(f, repr(n)) for f, n in problems]:
                    problems.append((form, named))
    if not problems:
        raise _specs.refuse(row["name"], "--cases", "has none", f"cases for {use}", args.dtype or use,
                            "give --dims")  # fmt: skip
    return problems


def _explain(args: argparse.Namespace) -> int:
    form, named = _problems(args)[0]
    explanation = tuning.explain(form, **named)
    if args.json:
        _print_json(explanation.as_dict())
    else:
        print(explanation, end="")
    return OK


def _parse_space(texts: Sequence[str]) -> Row | None:
    """``--space block_m=64,128`` (repeatable; ``cpu_avx512.block_m=64`` for one implementation)."""
    space: Row = {}
    for text in texts:
        knob, equals, values = text.partition("=")
        if not (knob and equals and values):
            raise _specs.refuse("tune", "--space", "is malformed", "knob=value,value", repr(text),
                                "write block_m=64,128")  # fmt: skip
        read = [int(v) if v.lstrip("-").isdecimal() else v for v in values.split(",")]
        implementation, dot, name = knob.rpartition(".")
        (space.setdefault(implementation, {}) if dot else space)[name] = read
    return space or None


def report_text(report: tuning.TuningReport) -> str:
    """A search in a few lines: who took part, what was tried, what won and why."""
    rows = []
    for c in report["candidates"]:
        if c["takes_part"]:
            tried = f"{c['measured']} of {c['configs']} measured"
            tried += f", {c['failed']} failed" if c["failed"] else ""
            rows.append([c["implementation"], milliseconds(c["best_ms"]), tried])
        else:
            rows.append([c["implementation"], "-", f"no: {c['reason']}"])
    served, winner = report["served"], report["winner"]
    lines = [f"{report['op']} {report['problem']}", columns(rows)]
    if report["source"] == "store":
        lines.append("  from the store: nothing measured")
    else:
        lines.append(f"  {report['strategy']}, {report['elapsed_s']:.1f} of {report['budget_s']:.3g} s,"
                     f" {report['final_rounds']} final rounds, {report['failures']} failed")  # fmt: skip
    if winner:
        lines.append(f"  > {winner['implementation']} {winner['config']}".rstrip())
    if served and served != winner:
        lines.append(f"  served: {served['implementation']} {served['config']}".rstrip())
    return "\n".join([*lines, f"  {report['why']}"])


def _tune(args: argparse.Namespace) -> int:
    from ._progress import Progress

    problems, reports = _problems(args), []
    for form, named in problems:
        letters = args.dims or " ".join(str(v.shape) for v in named.values() if hasattr(v, "shape"))
        progress = Progress(f"{args.op} {letters}")
        try:
            reports.append(
                tuning.tune(form, (), kwargs=named, seconds=args.seconds, strategy=args.strategy,
                            seed=args.seed, max_evaluations=args.max_evaluations, force=args.force,
                            implementations=args.implementations, space=_parse_space(args.space),
                            where=args.where or None, progress=progress)  # fmt: skip
            )
        finally:
            progress.clear()
        if not args.json:
            print(report_text(reports[-1]), flush=True)
    if args.json:
        _print_json(reports[0] if len(reports) == 1 and not args.cases else reports)
    return OK


# --- cache -------------------------------------------------------------------------------------


def _cache_ls(args: argparse.Namespace) -> tuple[Any, str]:
    keys = cache.ls()
    rows = [[k["hash"][:12], k["key"].get("op", ""), k["key"].get("dims", ""),
             k["key"].get("tensors", ""), f"{k['rows']} candidates", f"{k['records']} records"]
            for k in keys]  # fmt: skip
    return keys, columns(rows, indent="") if rows else "the store is empty"


def _cache_show(args: argparse.Namespace) -> tuple[Any, str]:
    result = cache.show(args.key)
    rows = []
    known = [c for c in result["candidates"] if c["samples_ms"]]
    failed = [c for c in result["candidates"] if not c["samples_ms"]]
    for c in sorted(known, key=lambda c: min(c["samples_ms"])):
        rows.append([milliseconds(min(c["samples_ms"])), f"{len(c['samples_ms'])} samples",
                     c["implementation"], c["config"]])  # fmt: skip
    rows += [["-", f"failed: {c['failure']}", c["implementation"], c["config"]] for c in failed]
    fields = [[name, value] for name, value in result["key"].items()]
    return result, columns(fields) + ("\n" + columns(rows) if rows else "")


def _cache(args: argparse.Namespace) -> int:
    code = OK
    if args.action == "ls":
        value, text = _cache_ls(args)
    elif args.action == "show":
        value, text = _cache_show(args)
    elif args.action == "verify":
        value = cache.verify()
        text = f"{value['good']} good, {value['bad']} bad (set aside)"
        code = FAILED if value["bad"] else OK
    elif args.action == "clear":
        removed = cache.clear()
        value, text = {"removed": removed}, f"{removed} removed"
    else:
        where = cache.path()
        reason = _native.info()["cache"]["memory_only_because"]
        value, text = {"path": where, "memory_only_because": reason}, where
        if not where:
            sys.stderr.write(f"dlblas cache: no folder is in use: {reason}\n")
            code = FAILED
    if args.json:
        _print_json(value)
    elif text:
        print(text)
    return code


# --- the rest, which live in files of their own ------------------------------------------------


def _needs_numpy(command: str) -> None:
    try:
        import numpy  # noqa: F401
    except ImportError:
        remedy = "pip install numpy"
        raise _specs.refuse(command, "NumPy", "is missing", "an installed numpy", "none", remedy) from None


def _demo(args: argparse.Namespace) -> int:
    _needs_numpy("demo")
    from . import demo

    return demo.run(args.out, args.root, args.seconds, args.quick)


def _bench(args: argparse.Namespace) -> int:
    _needs_numpy("bench")
    from . import bench

    threads = None if args.threads is None else [int(n) for n in args.threads.split(",")]
    return bench.run(args.section, args.out, threads, args.seconds, args.quick)


def _threads(text: str) -> str:
    if not all(n.isdecimal() and int(n) > 0 for n in text.split(",")):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of counts; write 1,2")
    return text


def _problem_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("op", help="an operator, an in-place form, or matmul_relu and the like")
    parser.add_argument("--dims", help="sizes of the schema's letters: T=512,C=4096 (T=2x256 for *T)")
    parser.add_argument("--dtype", default="", help="bf16, or bf16,weight=f32 (default f32)")
    parser.add_argument("--arg", action="append", default=[], metavar="NAME=VALUE",
                        help="a scalar, or bias=true for an optional tensor; repeatable")  # fmt: skip


def build_parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="dlblas", description="Fused operators: chosen, tuned, remembered, explained.")
    parser.add_argument("--version", action="version", version=f"dlblas {_native.version()}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)

    def add(name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text)
        made.set_defaults(run=run)
        return made

    as_json = {"action": "store_true", "help": "print JSON"}
    info = add("info", _info, "version, devices, libraries found or why not, environment, operators")
    info.add_argument("--why", metavar="OP", help="which implementations of OP serve its cases here")
    info.add_argument("--json", **as_json)  # type: ignore[arg-type]
    add("list", _list, "operators, implementations and knobs").add_argument("--json", **as_json)  # type: ignore[arg-type]
    explain = add("explain", _explain, "what a call would run and why, without running it")
    _problem_options(explain)
    explain.add_argument("--json", **as_json)  # type: ignore[arg-type]
    tune = add("tune", _tune, "search implementations and configurations, and keep the winner")
    _problem_options(tune)
    tune.add_argument("--cases", choices=("bench", "tune"), help="every such case, in place of --dims")
    tune.add_argument("--seconds", type=float, help="budget a key (default DLBLAS_TUNE_SECONDS, 10)")
    tune.add_argument("--strategy", help="exhaustive or random (default: by the size of the space)")
    tune.add_argument("--seed", type=int, default=0)
    tune.add_argument("--max-evaluations", type=int, metavar="N")
    tune.add_argument("--force", action="store_true", help="measure again what is known")
    tune.add_argument("--implementations", metavar="NAME,…", help="consider these alone")
    tune.add_argument("--space", action="append", default=[], metavar="KNOB=VALUE,…",
                      help="narrow a knob; repeatable; cpu_avx512.block_m=… for one implementation")  # fmt: skip
    tune.add_argument("--where", action="append", default=[], metavar="EXPR",
                      help="keep what fits, as in 'block_m * block_k <= 65536'; repeatable")  # fmt: skip
    tune.add_argument("--json", **as_json)  # type: ignore[arg-type]
    bench = add("bench", _bench, "measure the figures of benchmarks/README.md")
    bench.add_argument("section", nargs="?", default="all", help="host, machine, import, rms_norm, "
                       "add_rms_norm, matmul, python, or all (default)")  # fmt: skip
    bench.add_argument("--out", help="file (default benchmarks/results/<section>-<cpu>.jsonl)")
    bench.add_argument("--threads", type=_threads, metavar="1,2", help="thread counts to run with")
    bench.add_argument("--seconds", type=float, help="search budget a key")
    bench.add_argument("--quick", action="store_true", help="tiny shapes: tries the tool, says nothing")
    add("test", lambda _: OK, "replay cases of the harness by name (see dlblas test --help)")
    kept = add("cache", _cache, "the store of tuned results")
    actions = kept.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=_Parser)
    for name, text in (("ls", "keys"), ("show", "every candidate of a key"),
                       ("verify", "read every file strictly; 1 when one is bad"),
                       ("clear", "remove all"), ("path", "the folder in use")):  # fmt: skip
        action = actions.add_parser(name, help=text, description=text)
        if name == "show":
            action.add_argument("key", help="its hash, or a prefix that only one key has")
        action.add_argument("--json", **as_json)  # type: ignore[arg-type]
    demo = add("demo", _demo, "tune a Llama-3-8B layer here, then serve it again from the store")
    demo.add_argument("--out", default="build/demo.json", help="(default %(default)s)")
    demo.add_argument("--root", default="build/demo", help="folder of its own store (default %(default)s)")
    demo.add_argument("--seconds", type=float, help="search budget a key (default 8)")
    demo.add_argument("--quick", action="store_true", help="tiny shapes and budgets")
    return parser


COMMANDS = ("info", "list", "explain", "tune", "bench", "test", "cache", "demo")


def _dispatch(argv: Sequence[str]) -> int:
    if argv and argv[0] == "test":  # its options are the harness's own
        _needs_numpy("test")
        from .harness import main as test

        return test(argv[1:])
    if argv and not argv[0].startswith("-") and argv[0] not in COMMANDS:
        near = _specs.nearest(argv[0], COMMANDS)
        known = ", ".join(COMMANDS)
        sys.stderr.write(f"dlblas: {argv[0]} is no command{near}; expected one of {known}\n")
        return USAGE
    parser = build_parser()
    args = parser.parse_args(argv)
    if args.command is None:
        parser.print_help(sys.stderr)
        return USAGE
    return int(args.run(args))


def main(argv: Sequence[str] | None = None) -> int:
    try:
        code = _dispatch(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
        return code
    except UnknownOperatorError as error:
        names = [function.name for function in tuning.iterate_functions()]
        sys.stderr.write(f"{error}{_specs.nearest(str(error.got or error.op), names)}\n")
    except Error as error:
        sys.stderr.write(f"{error}\n")
    except BrokenPipeError:  # as in `dlblas list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        sys.stderr.write("dlblas: interrupted\n")
        return INTERRUPTED
    return USAGE
