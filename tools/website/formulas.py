"""Renders operators' formulas as MathML, which browsers draw without a script.

In: a formula from the registry, such as `y = x · rsqrt(mean_C(x²) + eps)`; `; ` separates
statements. Out: HTML. The first word of `_WORDS` ends the mathematics of a statement, as in
`scale = max |x| / 448 of each group`; the rest is shown as written. Used by: operators.py.
"""

from __future__ import annotations

import html
import re
from typing import NamedTuple

_WORDS = {
    "the", "of", "in", "each", "rows", "alike", "is", "or", "and", "if", "where", "by",
    "kept", "there", "while", "for", "an", "below", "grouped", "over", "first", "items",
}  # fmt: skip
_SUMS = {"sum": "∑", "Σ": "∑"}
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789−")
# A name includes an underscore before three or more letters, and ends at a raised digit.
_TOKEN = re.compile(
    r"(?P<name>(?![½¼⁰¹²³⁴-⁹])[^\W\d_](?:(?![½¼⁰¹²³⁴-⁹])[^\W_]|_(?=[^\W_]{3}))*['′]*)"
    r"|(?P<number>\d+(?:\.\d+)?|[½¼])"
    r"|(?P<sub>_(?:\{[^}]*\}|\d*[^\W_]+(?:\+\d)?))"
    r"|(?P<raised>[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+)"
    r"|(?P<slice>\[[^\]\s·]*:[^\]\s·]*\])"
    r"|(?P<space>\s+)"
    r"|(?P<sign>.)"
)


class _Token(NamedTuple):
    kind: str
    text: str


def _row(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"<mrow>{''.join(parts)}</mrow>"


def _operator(text: str, attributes: str = "") -> str:
    return f"<mo{attributes}>{html.escape(text)}</mo>"


def _identifier(name: str) -> str:
    """A single letter is italic, a word upright."""
    name = html.escape(name)
    return f"<mi>{name}</mi>" if len(name.strip("'′")) == 1 else f"<mtext>{name}</mtext>"


class _Statement:
    """Reads one statement from left to right."""

    def __init__(self, text: str) -> None:
        found = (_Token(str(m.lastgroup), m[0]) for m in _TOKEN.finditer(text))
        self.tokens = list(found)
        self.at = 0

    def _peek(self) -> _Token:
        while self.at < len(self.tokens) and self.tokens[self.at].kind == "space":
            self.at += 1
        return self.tokens[self.at] if self.at < len(self.tokens) else _Token("end", "")

    def _next(self) -> _Token:
        token = self._peek()
        self.at += 1
        return token

    def _is_word(self, token: _Token) -> bool:
        return token.kind == "name" and token.text in _WORDS

    def rest(self) -> str:
        """The remaining tokens as text."""
        self._peek()
        return "".join(token.text for token in self.tokens[self.at :])

    def whole(self) -> str:
        """The mathematics, then the words, which may wrap."""
        made = f'<math displaystyle="true">{self.terms("")}</math>'
        left = self.rest()
        return f"{made} {html.escape(left)}" if left else made

    def terms(self, closing: str) -> str:
        """The terms up to a closing bracket, a word, or the end."""
        parts: list[str] = []
        while True:
            token = self._peek()
            if token.kind == "end" or self._is_word(token) or (closing and token.text in closing):
                return _row(parts) if parts else "<mrow></mrow>"
            if token.text == "/" and parts:
                self.at += 1
                over = _bare(parts.pop())
                parts.append(f"<mfrac>{over}{_bare(self.factor())}</mfrac>")
            elif token.kind == "sign" and token.text not in "([|√^" and token.text not in "−-":
                self.at += 1
                parts.append(_operator({"·": "·", "*": "·"}.get(token.text, token.text)))
            elif token.text in "−-" and parts:
                self.at += 1
                parts.append(_operator("−"))
            else:
                parts.append(self.factor())

    def factor(self) -> str:
        """A name, number, call or bracket, with its subscript and superscript."""
        token = self._next()
        if token.text in ("−", "-", "±") and token.kind == "sign":
            return _row([_operator(token.text.replace("-", "−")), self.factor()])
        if token.text == "√":
            return f"<msqrt>{_bare(self.factor())}</msqrt>"
        if token.text == "(":
            made = self._bracket("(", ")")
        elif token.text == "[":
            made = self._bracket("[", "]")
        elif token.text == "|":
            made = _row([_operator("|"), self.terms("|"), _operator("|")])
            self.at += 1
        elif token.kind == "name":
            made = self._named(token.text)
        elif token.kind == "number":
            made = f"<mn>{token.text}</mn>"
        else:
            made = _operator(token.text)
        return self._raised(made)

    def _bracket(self, opening: str, closing: str) -> str:
        made = [_operator(opening), self.terms(closing)]
        words = ""
        while self._peek().kind != "end" and self._peek().text != closing:
            words += f" {self._next().text}"
        self._next()
        made += [f"<mtext>&#160;{html.escape(words.strip())}</mtext>"] * bool(words)
        made.append(_operator(closing))
        return f"<mrow>{''.join(made)}</mrow>"

    def _named(self, name: str) -> str:
        made = _operator(_SUMS[name]) if name in _SUMS else _identifier(name)
        if self._here("sub"):
            below = self._next().text[1:].strip("{}")
            made = f"<msub>{made}{_Statement(below).terms('')}</msub>"
        elif self._here("slice"):
            made = _row([made, f"<mtext>{html.escape(self._next().text)}</mtext>"])
        if name in ("max", "min") and self._peek().text == "|":
            return _row([made, self.factor()])
        if name in _SUMS and not self._here("sign", "("):
            return _row([made, self.factor()])
        if not self._here("sign", "("):
            return made
        if name == "rsqrt":
            self.at += 1
            inside = self.terms(")")
            self._next()
            return f"<mfrac><mn>1</mn><msqrt>{inside}</msqrt></mfrac>"
        if name == "sqrt":
            self.at += 1
            inside = self.terms(")")
            self._next()
            return f"<msqrt>{inside}</msqrt>"
        made = self._raised(made)
        self.at += 1
        return _row([made, self._bracket("(", ")")])

    def _here(self, kind: str, text: str = "") -> bool:
        """Is the next token of this kind, without a space before it?"""
        if self.at >= len(self.tokens):
            return False
        token = self.tokens[self.at]
        return token.kind == kind and (not text or token.text == text)

    def _raised(self, made: str) -> str:
        if self._here("slice"):
            made = _row([made, f"<mtext>{html.escape(self._next().text)}</mtext>"])
        if self._here("raised"):
            above = self._next().text.translate(_RAISED)
            return f"<msup>{made}<mn>{above}</mn></msup>"
        if self._here("sign", "^"):
            self.at += 1
            return f"<msup>{made}{_bare(self.factor())}</msup>"
        return made


_BRACKETS = re.compile(r"<mrow><mo>\(</mo>(.*)<mo>\)</mo></mrow>", re.DOTALL)


def _bare(made: str) -> str:
    """Drops round brackets that a fraction, a root or an exponent makes unnecessary."""
    found = _BRACKETS.fullmatch(made)
    if not found or "<mo>)</mo>" in found[1].split("<mo>(</mo>")[0]:
        return made
    return f"<mrow>{found[1]}</mrow>"


def mathml(formula: str) -> str:
    """Each statement on its own line; the formula as written is the title."""
    lines = "".join(f"<div>{_Statement(part).whole()}</div>" for part in formula.split("; "))
    return f'<div class="formula" title="{html.escape(formula)}">{lines}</div>\n\n'
