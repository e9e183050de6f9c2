"""Set-up before the extension is loaded: Ctrl-C of the command, and ``TORCH_LOGS``.

Ctrl-C while the command ``dlblas`` is still importing gives exit code 130 and one line, as it does
later; any other program's signals are left alone. ``TORCH_LOGS`` is translated here, because the
library reads its own variable only once.

The package imports this module first. It imports nothing that Python has not loaded by then
(``_signal`` is in its core; ``signal`` and ``typing`` take milliseconds). Read next: cli.py, which
takes over.
"""

import _signal  # type: ignore[import-not-found]  # typeshed has none
import os
import sys


def _ask_as_torch_does() -> None:
    """``TORCH_LOGS=dlblas``, or ``+dlblas``, enables the topics ``call``, ``search`` and
    ``compile``."""
    words = {word.strip() for word in os.environ.get("TORCH_LOGS", "").split(",")}
    if "DLBLAS_LOG" not in os.environ and words & {"dlblas", "+dlblas"}:
        os.environ["DLBLAS_LOG"] = "call,search,compile"


def is_command() -> bool:
    """Whether this is ``python -m dlblas``, while -m is looking for it, or a script of that
    name."""
    argv: list[str] = getattr(sys, "argv", [])
    if argv[:1] == ["-m"]:
        words = sys.orig_argv
        before = words[words.index("dlblas") - 1] if "dlblas" in words else ""
        return "-mdlblas" in words or (before[:1] == "-" and before[-1:] == "m")
    return bool(argv) and os.path.basename(argv[0]) == "dlblas"


def _leave(*_: object) -> None:
    try:
        os.write(2, b"dlblas: interrupted\n")
    finally:
        os._exit(130)


def watch() -> None:
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        try:
            _signal.signal(_signal.SIGINT, _leave)
        except ValueError:  # a thread that imports us: not the command after all
            return


def done() -> None:
    """From here on Ctrl-C raises KeyboardInterrupt again."""
    if _signal.getsignal(_signal.SIGINT) is _leave:
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)


_ask_as_torch_does()
