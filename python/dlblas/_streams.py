"""The output streams of the commands: every text is harmless, in any encoding, and a stream may be
closed.

``harmless_streams()`` replaces the process's standard output and error. Of what a terminal obeys,
the replacements write only line breaks and tabs, and ``RENEW``; a character that the encoding lacks
becomes a plain one or an escape. Line breaks inside a text are for its printer to escape
(_text.harmless). Read next: cli.py, _progress.py.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import TextIO

from ._text import escape

RENEW = "\r\x1b[K"  # to the line's beginning, and empty it: _progress.py alone
_PLAIN = {
    "·": "*", "×": "x", "µ": "u", "…": "...", "→": "->", "≤": "<=", "≥": ">=", "–": "-",
    "°": " deg ", "’": "'", "√": "sqrt", "²": "^2", "Σ": "sum", "ε": "eps",
}  # fmt: skip


def _replace(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end]
    plain = (_PLAIN.get(c) or c.encode("unicode_escape").decode() for c in text)
    return "".join(plain), error.end


codecs.register_error("dlblas.plain", _replace)


class _Harmless(io.TextIOWrapper):
    def write(self, text: str, /) -> int:
        head = RENEW if text.startswith(RENEW) else ""
        rest = text[len(head) :]
        if not rest.isprintable():
            rest = "".join(c if c in "\n\t" else escape(c) for c in rest)
        super().write(head + rest)
        return len(text)


def _wrap(stream: TextIO | None) -> TextIO:
    if stream is None:  # closed before this process began
        return open(os.devnull, "w", encoding="utf-8")
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    with contextlib.suppress(OSError, ValueError):
        stream.flush()
    return _Harmless(
        stream.buffer,
        encoding=stream.encoding,
        errors="dlblas.plain",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _open_descriptors() -> None:
    """Opens descriptors 0 to 2 if they are closed: else the next file, the store's, would get what
    is meant for people. Workers inherit them."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)


@contextlib.contextmanager
def harmless_streams() -> Iterator[None]:
    _open_descriptors()
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _wrap(before[0]), _wrap(before[1])
    try:
        yield
    finally:
        ours = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = before
        for stream in ours:
            if isinstance(stream, _Harmless):
                with contextlib.suppress(OSError, ValueError):
                    stream.detach()  # flushes; the process's own stream closes the file


def complain(text: str) -> None:
    """Prints a sentence on standard error; does nothing if that is closed."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
