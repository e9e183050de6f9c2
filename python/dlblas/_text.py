"""Small pieces of terminal output that the commands share. Read next: cli.py, _progress.py."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

MAX_TEXT = 400  # characters of one text inside a line


def cut(text: str, most: int = MAX_TEXT) -> str:
    """A long text's beginning, and how much more there was."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} more characters)"


def nearest(word: str, known: Iterable[str]) -> str:
    """``; did you mean rms_norm?``, or nothing when no known word is near. ``Linear`` is
    ``nn.Linear`` rather than ``linear``; ``Rmsnorm`` is ``RMSNorm`` where nothing is nearer."""
    from difflib import get_close_matches

    listed = list(known)
    inside = [one for one in listed if one.rpartition(".")[2] == word]
    close = inside or get_close_matches(word, listed, n=1)
    found = next(iter(close or alike(word, listed)), "")
    return f"; did you mean {found}?" if found else ""


def alike(word: str, known: Iterable[str]) -> list[str]:
    """The known words that differ from ``word`` only in capitals and underscores."""

    def plain(text: str) -> str:
        return text.replace("_", "").lower()

    return [one for one in known if plain(one) == plain(word)]


def counted(number: int, what: str) -> str:
    """``1 record``, ``2 records``."""
    return f"{number} {what}" + ("" if number == 1 else "s")


def harmless(text: str, most: int = MAX_TEXT) -> str:
    """Text of users, candidates and imported records, made safe for a part of one line: characters
    that control a terminal, reverse its text or are invisible become escapes (``\\x1b``, ``\\n``,
    ``\\u202e``); a long text is cut."""
    text = cut(text, most)
    return text if text.isprintable() else "".join(map(escape, text))


def escape(character: str) -> str:
    """A character, or its escape where it does not print."""
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode()


def microseconds(ms: float | None) -> str:
    """One unit, so that times compare: ``0.31 µs``, ``12.41 µs``, ``48213 µs``; as ``microseconds``
    of src/core/digits.hpp."""
    if ms is None or ms < 0:
        return "-"
    return f"{ms * 1e3:.4g} µs" if ms < 1 else f"{ms * 1e3:.0f} µs"


def size(num_bytes: float) -> str:
    """``64 KiB``, ``1.5 MiB``."""
    for unit in ("B", "KiB", "MiB"):
        if num_bytes < 1024:
            return f"{num_bytes:.3g} {unit}"
        num_bytes /= 1024
    return f"{num_bytes:.3g} GiB"


def columns(
    rows: Sequence[Sequence[str]],
    indent: str = "  ",
    right: Sequence[int] = (),
    most: int = 4 * MAX_TEXT,
) -> str:
    """Aligned columns of harmless cells, two spaces apart; ``right``: the columns that hold
    figures, aligned right; ``most``: the length at which a cell is cut."""
    rows = [[harmless(cell, most) for cell in row] for row in rows]
    widths = [max((len(row[c]) for row in rows), default=0) for c in range(max(map(len, rows)))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(widths[c]) if c in right else cell.ljust(widths[c])
            for c, cell in enumerate(row)
        ]
        lines.append((indent + "  ".join(cells)).rstrip())
    return "\n".join(lines)
