"""Figures as pictures: the ratio of each rival's time to ours, problem by problem, in SVG.

In: rows of benchmarks/results/. Out: SVG that takes its colours from the page, so that it suits
light and dark themes; each colour also has its own shape, for readers who cannot tell the colours
apart. Each picture is drawn twice, for desktops and (with labels above the rows) for phones;
site.css shows one of them. Used by: operators.py, ../make_docs.py.
"""

from __future__ import annotations

import html
import math
from typing import Any, NamedTuple

Row = dict[str, Any]

# Peer → shape and class of site.css, in the order of the legend.
MARKS = {
    "copy": "bar", "torch": "circle", "eager": "circle", "inductor": "square", "quack": "triangle",
    "liger": "diamond", "flashinfer": "cross", "cublas": "square", "onednn": "diamond",
    "numpy": "circle",
}  # fmt: skip


class _Frame(NamedTuple):
    """The layout of a picture, in the SVG's units."""

    name: str
    width: int
    row: int
    left: int
    right: int
    above: bool  # labels stand above their row
    letters: int  # of a label

    def room(self) -> int:
        """The width available to a label."""
        return self.width - self.left if self.above else self.left - 12

    def x(self, ratio: float) -> float:
        part = math.log(max(_MIN, min(_MAX, ratio)) / _MIN) / math.log(_MAX / _MIN)
        return self.left + part * (self.width - self.left - self.right)


_FRAMES = (
    _Frame("desktop", 800, 19, 320, 86, False, 38),
    _Frame("phone", 350, 36, 14, 66, True, 48),
)
_TOP = 46
LETTER = 7.0  # at most, a letter of a label takes on average, of the sans-serif of site.css
_MIN, _MAX = 0.5, 4.0  # ratios that the axis shows; a mark beyond stands at its end


def _time(ms: float) -> str:
    return f"{ms * 1e3:.3g} µs" if ms < 1 else f"{ms:.3g} ms"


def _of(entry: Row) -> float | None:
    value = entry.get("median_ms", entry.get("min_ms"))
    return float(value) if isinstance(value, (int, float)) else None


def _peers(row: Row) -> dict[str, float]:
    """Each peer's best time, by the first word of its name."""
    best: dict[str, float] = {}
    for peer in row.get("peers", []):
        name, ms = str(peer.get("name", "")).split()[0:1], _of(peer)
        if name and ms is not None and name[0] in MARKS:
            best[name[0]] = min(ms, best.get(name[0], ms))
    return best


def _mark(shape: str, x: float, y: float, name: str, said: str) -> str:
    r = 4.5
    drawn = {
        "circle": f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}"/>',
        "square": f'<rect x="{x - r:.1f}" y="{y - r:.1f}" width="{2 * r}" height="{2 * r}"/>',
        "triangle": f'<path d="M{x:.1f} {y - r - 1:.1f}l{r + 1} {2 * r}h-{2 * r + 2}z"/>',
        "diamond": f'<path d="M{x:.1f} {y - r - 1:.1f}l{r + 1} {r + 1}l-{r + 1} {r + 1}'
        f'l-{r + 1} -{r + 1}z"/>',
        "cross": f'<path class="line" d="M{x - r:.1f} {y - r:.1f}l{2 * r} {2 * r}m0 -{2 * r}'
        f'l-{2 * r} {2 * r}"/>',
        "bar": f'<path class="line" d="M{x:.1f} {y - 7:.1f}v14"/>',
    }[shape]
    return f'<g class="peer {name}"><title>{html.escape(said)}</title>{drawn}</g>'


def _sizes(row: Row) -> str:
    return "×".join(str(value) for value in row["problem"].values())


def _label(row: Row, with_name: bool) -> str:
    dtype = str(row.get("dtype") or "")
    threads = f", {row['threads']} threads" if "threads" in row else ""
    return (
        f"{row['op']} {_sizes(row)} {dtype}{threads}"
        if with_name
        else (f"{_sizes(row)} {dtype}{threads}")
    )


def _legend(names: list[str], frame: _Frame) -> tuple[list[str], int]:
    """The legend, and how far down it reaches."""
    out, at, y = [], 4.0, 10
    for name in names:
        word = "copy of as many bytes" if name == "copy" else name
        width = 34 + 6.6 * len(word)
        if at > 4 and at + width - 18 > frame.width:
            at, y = 4.0, y + 20
        out.append(_mark(MARKS[name], at + 6, y, name, word))
        out.append(f'<text x="{at + 16:.0f}" y="{y + 4}">{word}</text>')
        at += width
    return out, y - 10


def _drawn(shown: list[tuple[Row, dict[str, float]]], labels: list[str], frame: _Frame) -> str:
    names = [name for name in MARKS if any(name in peers for _, peers in shown)]
    legend, more = _legend(names, frame)
    top = _TOP + more
    height = top + frame.row * len(shown) + 14
    out = [
        f'<svg class="ratios {frame.name}" viewBox="0 0 {frame.width} {height}" role="img" '
        f'aria-label="times of rivals over ours">',
        *legend,
    ]
    for ratio in (0.5, 1.0, 1.5, 2.0, 3.0, 4.0):
        kind = "ours" if ratio == 1 else "grid"
        x = frame.x(ratio)
        out.append(f'<path class="{kind}" d="M{x:.1f} {top - 8}V{height - 10}"/>')
        word = "ours" if ratio == 1 else f"{ratio:g}×"
        out.append(f'<text x="{x:.1f}" y="{top - 13}" class="middle">{word}</text>')
    for i, ((row, peers), label) in enumerate(zip(shown, labels, strict=True)):
        y = top + frame.row * i + (frame.row - 10 if frame.above else frame.row / 2)
        ours = _of(row["ours"]) or 0.0
        cut = label if len(label) <= frame.letters else f"{label[: frame.letters - 1]}…"
        place = (
            f'x="{frame.left}" y="{y - 10:.1f}" class="over"'
            if frame.above
            else f'x="{frame.left - 12}" y="{y + 4:.1f}" class="end"'
        )
        out.append(f"<text {place}><title>{html.escape(label)}</title>{html.escape(cut)}</text>")
        right = frame.width - frame.right + 14
        out.append(f'<text x="{right}" y="{y + 4:.1f}">{_time(ours)}</text>')
        for name, ms in peers.items():
            said = f"{name}: {_time(ms)}, {ms / ours:.2f}× ours"
            out.append(_mark(MARKS[name], frame.x(ms / ours), y, name, said))
    out.append("</svg>")
    return "".join(out)


def ratios(rows: list[Row], with_name: bool, title: str = "") -> str:
    """The figure as HTML; "" if no row has a peer that ran."""
    shown = [(row, _peers(row)) for row in rows if _of(row["ours"]) is not None]
    shown = [(row, peers) for row, peers in shown if peers]
    if not shown:
        return ""
    labels = [_label(row, with_name) for row, _ in shown]
    note = (
        "Right of the line a rival takes longer than ours; the axis ends at 4×. At the right, ours."
    )
    head = f"<strong>{html.escape(title)}</strong>" if title else ""
    drawn = "".join(_drawn(shown, labels, frame) for frame in _FRAMES)
    caption = f"<figcaption>{note}</figcaption>"
    return f'<figure class="ratios">{head}{drawn}{caption}</figure>\n\n'
