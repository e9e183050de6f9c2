"""The command ``dlblas``: what the library knows, chooses and remembers, from a shell.

Exit codes: 0 done; 1 a check or verification failed; 2 wrong usage or a typed error, whose text is
on stderr; 130 Ctrl-C. It never prints a traceback, and its output is harmless (_streams.py).
Problems are given by letters (``--dims T=512,C=4096``), and nothing is allocated for them. Only
``demo``, ``bench`` and ``test`` need NumPy. Read next: docs/cli.md.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from . import (
    _cli_cache,
    _cli_compile,
    _cli_search,
    _cli_show,
    _early,
    _native,
    _paths,
    _specs,
)
from ._options import DEMO_SECONDS, EFFORTS, check_seconds
from ._streams import complain, harmless_streams
from ._text import cut, harmless, nearest
from .errors import Error

OK, USAGE, INTERRUPTED = 0, 2, 130
_MAX_MESSAGE = 20_000  # characters of an error, the table of an operator's candidates included


class _Parser(argparse.ArgumentParser):
    """argparse with errors of one line, which name the help of the command that they concern."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        near = self._near(message)
        complain(f"{self.prog}: {harmless(message)}{near}; see {self.prog} --help")
        sys.exit(USAGE)

    def _near(self, message: str) -> str:
        """A suggestion for an unknown option or choice."""
        options = [option for action in self._actions for option in action.option_strings]
        if wrong := re.match(r"unrecognized arguments: (--\S+)", message):
            return nearest(wrong[1].partition("=")[0], options)
        if (
            wrong := re.match(r"unrecognized arguments: (\w+=\S+)", message)
        ) and "--dims" in options:
            return f"; did you mean --dims {harmless(wrong[1])}?"
        if wrong := re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message):
            return nearest(wrong[1], re.findall(r"[\w-]+", wrong[2]))
        return ""


def _needs_numpy(command: str) -> None:
    try:
        import numpy  # noqa: F401
    except ImportError:
        remedy = "pip install numpy"
        raise _specs.refuse(
            command, "NumPy", "is missing", "an installed numpy", "none", remedy
        ) from None


def _demo(args: argparse.Namespace) -> int:
    _needs_numpy("demo")
    from . import demo

    return demo.run(args.out, args.root, args.seconds, args.quick, args.device)


def _bench(args: argparse.Namespace) -> int:
    _needs_numpy("bench")
    from . import bench

    threads = None if args.threads is None else [int(n) for n in args.threads.split(",")]
    return bench.run(
        args.section,
        args.out,
        threads,
        args.seconds,
        args.quick,
        args.commit,
        args.prepare,
        args.within,
        args.only.split(",") if args.only else [],
        args.share,
    )


def _test(argv: Sequence[str]) -> int:
    _needs_numpy("test")
    from .harness import main as test

    return test(argv)


def _share(text: str) -> tuple[int, int]:
    """ "2/4"; argparse says what is wrong with other texts."""
    which, _, of = text.partition("/")
    if not (which.isdecimal() and of.isdecimal() and 1 <= int(which) <= int(of)):
        raise argparse.ArgumentTypeError(f"{text!r}; expected K/N with K from 1 to N, as 1/4")
    return int(which), int(of)


def _seconds(text: str) -> float:
    try:
        check_seconds("--seconds", seconds := float(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no budget; write 0.5 or the like") from None
    return seconds


def _threads(text: str) -> str:
    if not all(n.isdecimal() and int(n) > 0 for n in text.split(",")):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of counts; write 1,2")
    return text


def _problem_options(
    parser: argparse.ArgumentParser,
    op: str | None = None,
    device: str = "cpu, cuda or cuda:1 (default cpu)",
) -> None:
    words = "an operator, an in-place form, or matmul_relu and the like"
    parser.add_argument("op", nargs=op, help=words)
    parser.add_argument(
        "--dims", help="sizes of the schema's letters: T=512,C=4096 (T=2x256 for *T)"
    )
    parser.add_argument("--dtype", default="", help="bf16, or bf16,weight=f32 (default f32)")
    parser.add_argument(
        "--arg",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a scalar, or bias=true for an optional tensor; repeatable",
    )
    parser.add_argument("--device", help=device)


def _takes_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def _tune_options(tune: argparse.ArgumentParser) -> None:
    _problem_options(tune, "?")
    tune.add_argument(
        "--missed",
        metavar="FILE",
        help="every key of a file that dlblas.missed() or dlblas.autotune() wrote, in place of OP",
    )
    tune.add_argument(
        "--cases", choices=("bench", "tune"), help="every such case, in place of --dims"
    )
    tune.add_argument(
        "--seconds", type=_seconds, help="budget per key (default DLBLAS_TUNE_SECONDS, 10)"
    )
    tune.add_argument("--effort", choices=tuple(EFFORTS), help="a budget by name: 2 s, 10 s, 60 s")
    tune.add_argument("--log", metavar="FILE", help="a CSV file that gets one row per measurement")
    tune.add_argument("--strategy", help="exhaustive or random (default: by the size of the space)")
    tune.add_argument("--seed", type=int, default=0)
    tune.add_argument("--max-evaluations", type=int, metavar="N")
    tune.add_argument("--force", action="store_true", help="measure again what is known")
    tune.add_argument(
        "--worker",
        action=argparse.BooleanOptionalAction,
        help="measure in a process that may hang or crash, or in this one (default: as it pays)",
    )
    tune.add_argument("--implementations", metavar="NAME,…", help="consider these alone")
    tune.add_argument(
        "--space",
        action="append",
        default=[],
        metavar="KNOB=VALUE,…",
        help="narrow a knob; repeatable; cpu_avx512.block_m=… for one implementation",
    )
    tune.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="EXPR",
        help="keep what fits, as in 'block_m * block_k <= 65536'; repeatable",
    )
    _verbose(tune)
    _takes_json(tune)


def _bench_options(bench: argparse.ArgumentParser) -> None:
    bench.add_argument(
        "section",
        nargs="?",
        default="all",
        help="host, machine, import, rms_norm, add_rms_norm, rows, matmul, python, or all of these "
        "(default); with a GPU and torch gpu_norm, gpu_norm_long, gpu_norm_backward, gpu_rows, "
        "gpu_chain, gpu_model, gpu_llama, gpu_matmul, gpu_products, gpu_attention, gpu_host, "
        "gpu_compile, or gpu for all",
    )
    bench.add_argument(
        "--out", help="file or folder (default benchmarks/results/<section>-<cpu or card>.jsonl)"
    )
    bench.add_argument(
        "--commit", metavar="SHA[+dirty]", help="what is measured, where the tree has no git"
    )
    bench.add_argument("--threads", type=_threads, metavar="1,2", help="thread counts to run with")
    bench.add_argument("--seconds", type=_seconds, help="search budget per key")
    bench.add_argument(
        "--only",
        metavar="OP,…",
        help="rows, gpu_rows: these operators; gpu_products, gpu_attention: these functions; "
        "gpu_llama: these steps (decode_16)",
    )
    bench.add_argument(
        "--share",
        type=_share,
        metavar="K/N",
        help="gpu_rows, gpu_products, gpu_attention, gpu_llama: every N-th problem from the K-th; "
        "N processes, each on a GPU of its own, measure them all",
    )
    bench.add_argument(
        "--within",
        type=_seconds,
        help="a GPU section ends by these seconds, with the rows that it has; gpu_rows takes the "
        "largest problem of each operator first",
    )
    bench.add_argument(
        "--quick", action="store_true", help="tiny shapes: tries the tool, says nothing"
    )
    bench.add_argument(
        "--prepare",
        action="store_true",
        help="measure nothing: have the kernels that a GPU section is measured against compiled, "
        "which the section then finds in Triton's and QuACK's caches",
    )


def _cache_options(kept: argparse.ArgumentParser) -> None:
    actions = kept.add_subparsers(
        dest="action", metavar="ACTION", required=True, parser_class=_Parser
    )
    for name, action in _cli_cache.ACTIONS.items():
        made = actions.add_parser(name, help=action.text, description=action.text)
        _cli_cache.options(made, name)
        _takes_json(made)


def _demo_options(demo: argparse.ArgumentParser) -> None:
    demo.add_argument("--out", metavar="FILE", help="writes what was found as JSON")
    demo.add_argument(
        "--root", metavar="FOLDER", help="of its own store (default: one that is then removed)"
    )
    default = f"(default {DEMO_SECONDS:g}, four times that for the longest)"
    demo.add_argument("--seconds", type=_seconds, help=f"search budget per key {default}")
    demo.add_argument("--quick", action="store_true", help="tiny shapes and budgets")
    demo.add_argument("--device", help="cpu, cuda or cuda:1 (default: a GPU where one can be used)")


def _info_options(info: argparse.ArgumentParser) -> None:
    info.add_argument("--why", metavar="OP", help="which implementations of OP serve its cases")
    info.add_argument("--device", help="of --why: cpu, cuda or cuda:1 (default cpu)")
    _takes_json(info)


def _list_options(listed: argparse.ArgumentParser) -> None:
    listed.add_argument("op", nargs="*", help="these alone (default all)")
    _takes_json(listed)


def _verbose(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="also what is for another kind of device"
    )


def _explain_options(explain: argparse.ArgumentParser) -> None:
    which = "cpu, cuda, cuda:1, or sm_90a, which need not be here (default cpu)"
    _problem_options(explain, device=which)
    _verbose(explain)
    _takes_json(explain)


class _Command(NamedTuple):
    run: Callable[[argparse.Namespace], int]
    options: Callable[[argparse.ArgumentParser], None]
    text: str


def _nothing(_: argparse.ArgumentParser) -> None:
    """The harness parses the options of ``test``."""


COMMANDS = {
    "info": _Command(
        _cli_show.info,
        _info_options,
        "version, devices, libraries found or why not, environment, operators",
    ),
    "list": _Command(
        _cli_show.list_operators,
        _list_options,
        "operators, implementations and knobs by family, and functions made of operators",
    ),
    "explain": _Command(
        _cli_search.explain, _explain_options, "what a call would run and why, without running it"
    ),
    "tune": _Command(
        _cli_search.tune,
        _tune_options,
        "search implementations and configurations, and keep the winner",
    ),
    "compile": _Command(
        _cli_compile.command,
        _cli_compile.options,
        "compile kernels for a GPU that need not be here, into the cache",
    ),
    "bench": _Command(_bench, _bench_options, "measure the figures of benchmarks/README.md"),
    "test": _Command(
        lambda _: _test([]), _nothing, "replay cases of the harness by name (dlblas test --help)"
    ),
    "cache": _Command(_cli_cache.command, _cache_options, "the store of tuned results"),
    "demo": _Command(
        _demo, _demo_options, "tune a Llama-3-8B layer here, then serve it again from the store"
    ),
}


# Build flags for C++, each printed on a line: g++ -I"$(dlblas --include)" x.cpp $(dlblas --libs).
_PATHS = {
    "--include": (_paths.get_include, "print the folder of the C and C++ headers"),
    "--cmake-dir": (_paths.cmake_dir, "print the folder of dlblasConfig.cmake, for -Ddlblas_DIR="),
    "--libs": (_paths.link_flags, "print what links a program with the library"),
}


def build_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="dlblas", description="Fused operators: chosen, tuned, remembered, explained."
    )
    parser.add_argument(
        "--import", metavar="MODULE",
        help="import it first: what it registers (dlblas.register) takes part; repeatable, with "
        "any command",
    )  # fmt: skip
    for option, (_, text) in _PATHS.items():
        parser.add_argument(option, action="store_true", help=text)
    parser.add_argument("--version", action="version", version=f"dlblas {_native.version()}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    for name, command in COMMANDS.items():
        made = commands.add_parser(name, help=command.text, description=command.text)
        made.set_defaults(run=command.run)
        command.options(made)
    return parser


def _place_of(error: BaseException) -> str:
    """Where it was raised: ``cli.py:212``."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{os.path.basename(last.filename)}:{last.lineno}"


def _import_modules(argv: Sequence[str]) -> list[str]:
    """Imports each module that ``--import MODULE`` names, anywhere in argv; returns the other
    words."""
    from importlib import import_module

    rest, words = [], iter(argv)
    for word in words:
        if word != "--import" and not word.startswith("--import="):
            rest.append(word)
            continue
        name = word.partition("=")[2] or next(words, "")
        with contextlib.suppress(OSError):  # a current folder that is gone has no modules
            if "" not in sys.path and os.getcwd() not in sys.path:
                sys.path.insert(0, os.getcwd())  # where `python -m` would look as well
        try:
            import_module(name)
        except Exception as reason:  # whatever the module raises
            remedy = "run where `python -c 'import …'` finds it"
            why = harmless(str(reason))
            if not isinstance(reason, (ImportError, ValueError)):
                why = f"{type(reason).__name__}: {why}, {_place_of(reason)}"
            raise _specs.refuse(
                "dlblas", "--import", "cannot be imported", "a module",
                f"{harmless(repr(name))} ({why})", remedy,
            ) from None  # fmt: skip
    return rest


def _unknown_before_command(argv: Sequence[str], parser: argparse.ArgumentParser) -> str:
    """An unknown option; argparse would take the word after it for the command."""
    known = {option for action in parser._actions for option in action.option_strings}
    known.discard("--import")  # gone already; a part of its name does nothing
    for word in itertools.takewhile(lambda word: word.startswith("-"), argv):
        name = word.partition("=")[0]
        if not any(option.startswith(name) for option in known):
            return word
    return ""


def _dispatch(argv: Sequence[str]) -> int:
    argv = _import_modules(argv)
    if argv and argv[0] == "help":
        argv = [*argv[1:2], "--help"]
    if argv and argv[0] == "test":  # its options are the harness's own
        return _test(argv[1:])
    if argv and not argv[0].startswith("-") and argv[0] not in COMMANDS:
        near = _specs.nearest(argv[0], [*COMMANDS, "--version"])
        known = ", ".join(COMMANDS)
        complain(f"dlblas: {harmless(argv[0])} is no command{near}; expected one of {known}")
        return USAGE
    parser = build_parser()
    if wrong := _unknown_before_command(argv, parser):
        parser.error(f"unrecognized arguments: {wrong}")
    args = parser.parse_args(argv)
    asked = [say for name, (say, _) in _PATHS.items() if getattr(args, name[2:].replace("-", "_"))]
    if args.command is None and asked:
        print("\n".join(say() for say in asked))
        return OK
    if args.command is None:
        parser.print_help(sys.stderr)
        return USAGE
    return int(args.run(args))


def _is_no_text(word: str) -> bool:
    """Whether the word is not UTF-8: Python holds the shell's bytes as lone surrogates then."""
    return any("\ud800" <= character <= "\udfff" for character in word)


def _run(argv: Sequence[str]) -> int:
    try:
        _early.done()
        code = _dispatch(argv)
        sys.stdout.flush()
        return code
    except Error as error:
        complain(cut(str(error), _MAX_MESSAGE))
    except BrokenPipeError:  # as in `dlblas list | head`
        _drop_output()
        return OK
    except OSError as error:  # a folder or file of the user's that cannot be used
        if error.filename is None:  # mostly standard output, on a full disk
            _drop_output()
        name = harmless(str(error.filename or "file"))
        complain(f"dlblas: {name}: {error.strerror or harmless(str(error))}")
    except KeyboardInterrupt:
        complain("dlblas: interrupted")
        return INTERRUPTED
    except Exception as error:
        bad = next(filter(_is_no_text, argv), None)
        if isinstance(error, UnicodeError) and bad is not None:
            got = cut(ascii(bad))
            complain(f"dlblas: argument is no text; expected UTF-8, got {got}; retype it")
        else:
            what = f"{type(error).__name__}: {harmless(str(error))}"
            complain(f"dlblas: {what} ({_place_of(error)}); expected no such failure: report it")
    return USAGE


def _drop_output() -> None:
    """Discards what is still in standard output's buffer: writing it would fail again at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(argv: Sequence[str] | None = None) -> int:
    with harmless_streams():
        return _run(sys.argv[1:] if argv is None else argv)
