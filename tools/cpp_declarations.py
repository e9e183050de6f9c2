"""Reads the declarations of a public header, C or C++, with the comments above them.

Used by tools/reference.py (the page) and tools/abi.py (the layout). It has no preprocessor and no
types: it relies on the clang-format layout of this tree's headers, not on the full grammar. Private
members and namespaces `detail` are left out.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, field

_SPACE = re.compile(r"\s+")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_STRING = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'')
_DIRECTIVE = re.compile(r"#(?:[^\n\\]|\\\n|\\.)*")
_MACRO = re.compile(r"#\s*define\s+(DLBLAS_(?!API\b)\w+)\s+\S")
_SCOPE = re.compile(r'(?:inline\s+)?namespace\s+([\w:]*)\s*\{|extern\s+"C"\s*\{')
_ACCESS = re.compile(r"(public|private|protected)\s*:(?!:)")
_TEMPLATE = re.compile(r"template\s*<")
_TYPE = re.compile(r"(?:typedef\s+)?(enum\s+class|enum|class|struct|union)\b[^{;(=]*\{")
_OPERATOR = re.compile(r"operator\s*(\(\)|[^\s\w(]+)")
_FORWARD = re.compile(r"using \w+::\w+$|(struct|class) \w+$")
_SPECIFIERS = re.compile(r"^(template <.*>\n?\s*)?(?:DLBLAS_API|inline) ")
_NAME = re.compile(r"(operator\s*(?:\(\)|[^\s\w(]+|\w[\w:<>]*)|~?\w+)\s*\(")


@dataclass
class Declaration:
    kind: str  # "type", "specialization", "function", "alias", "variable", "macro"
    name: str
    text: str  # as it is printed: no body, nothing private, no semicolon
    line: int
    comment: str = ""  # as it stands above
    after: str = ""  # a comment on the last line
    grouped: bool = False  # directly below the one before it
    members: list[Declaration] = field(default_factory=list)


def closing(text: str, start: int) -> int:
    """The index after the bracket that closes the one at `start`."""
    depth, i = 0, start
    while i < len(text):
        if skipped := _COMMENT.match(text, i) or _STRING.match(text, i):
            i = skipped.end()
            continue
        depth += (text[i] in "([{") - (text[i] in ")]}")
        i += 1
        if depth == 0:
            return i
    raise ValueError(f"no end of {text[start : start + 60]!r}")


def flat(text: str) -> str:
    """One line, no comments."""
    return " ".join(_COMMENT.sub(" ", text).split())


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text

    def scope(self, start: int, end: int, public: bool) -> list[Declaration]:
        """The declarations between two indices. `last` is where the previous one ended."""
        found: list[Declaration] = []
        i = last = start
        joined = False  # is `last` the end of a declaration that is shown?
        while i < end:
            if skipped := _SPACE.match(self.text, i, end) or _COMMENT.match(self.text, i, end):
                i = skipped.end()
            elif access := _ACCESS.match(self.text, i, end):
                public, joined = access[1] == "public", False
                i = last = access.end()
            elif opened := _SCOPE.match(self.text, i, end):
                i = last = closing(self.text, opened.end() - 1)
                joined = False
                if opened[1] != "detail":
                    found += self.scope(opened.end(), i - 1, public=True)
            elif self.text[i] in ";":
                i += 1
            else:
                made, behind = self.declaration(i)
                if made and public:
                    self.attach(made, found[-1] if joined else None, last, i)
                    found.append(made)
                joined = bool(made and public)
                i = last = behind
        if joined:
            self.attach(None, found[-1], last, end)
        return found

    def attach(
        self, made: Declaration | None, before: Declaration | None, last: int, start: int
    ) -> None:
        """Attaches comments between two declarations to the one they describe."""
        rest_of_line, _, lead = self.text[last:start].partition("\n")
        if before:
            before.after = rest_of_line.strip()
        if made:
            blocks = re.split(r"\n[ \t]*\n", "\n" + lead)
            lines = [line.strip() for line in blocks[-1].split("\n")]
            made.comment = "\n".join(line for line in lines if line)
            made.grouped = len(blocks) == 1

    def make(self, kind: str, name: str, start: int, end: int) -> Declaration:
        line_start = self.text.rfind("\n", 0, start) + 1
        margin = " " * (start - line_start)
        text = self.text[start:end].rstrip().rstrip(";")
        text = text.replace("\n" + margin, "\n") if margin else text
        return Declaration(kind, name, text, self.text.count("\n", 0, start) + 1)

    def declaration(self, start: int) -> tuple[Declaration | None, int]:
        if directive := _DIRECTIVE.match(self.text, start):
            macro = _MACRO.match(directive[0])
            end = directive.end()
            # A trailing comment is not part of the macro's value; it becomes its `after`.
            if macro and (words := _COMMENT.search(self.text, start, end)):
                end = words.start()
            return (self.make("macro", macro[1], start, end) if macro else None), end
        i = start
        while opened := _TEMPLATE.match(self.text, i):
            depth, i = 1, opened.end()
            while depth:
                depth += (self.text[i] == "<") - (self.text[i] == ">")
                i += 1
            if space := _SPACE.match(self.text, i):
                i = space.end()
        if head := _TYPE.match(self.text, i):
            return self.type(start, head)
        end, cut = self.extent(i)
        return self.plain(start, cut or end), end

    def extent(self, start: int) -> tuple[int, int]:
        """Where a declaration ends, and where its body or initialiser list begins, or 0."""
        i, cut, assigned = start, 0, False
        while i < len(self.text):
            ch = self.text[i]
            if operator := _OPERATOR.match(self.text, i):
                i = operator.end()
            elif skipped := _COMMENT.match(self.text, i) or _STRING.match(self.text, i):
                i = skipped.end()
            elif ch == "{" and cut and re.match(r"[\w>]", self.text[i - 1]):
                i = closing(self.text, i)  # a member of an initialiser list
            elif ch == "{" and not assigned:
                return closing(self.text, i), cut or i
            elif ch in "([{":
                i = closing(self.text, i)
            elif ch == ";":
                return i + 1, cut
            elif self.text.startswith("::", i):
                i += 2
            else:
                cut = cut or (i if ch == ":" else 0)
                assigned = assigned or ch == "="
                i += 1
        raise ValueError(f"no end of {self.text[start : start + 60]!r}")

    def plain(self, start: int, end: int) -> Declaration | None:
        words = flat(self.text[start:end]).rstrip(";")
        if _FORWARD.match(words):
            return None
        if words.startswith("template") and re.search(r"> (struct|class) \w+$", words):
            kind, name = "type", words.split()[-1]
        elif words.startswith(("using ", "typedef ")):
            pointer = re.search(r"\(\*(\w+)\)", words)
            name = words.split()[1] if words.startswith("using ") else words.split()[-1]
            kind, name = "alias", pointer[1] if pointer else name
        else:
            words = re.sub(r"\brequires\s*\((?:[^()]|\([^()]*\))*\)", "", words)
            while "<" in words and words != (shorter := re.sub(r"<[^<>]*>", "", words)):
                words = shorter
            pointer = re.match(r"[^(]*\(\*(\w+)\)\s*[(\[]", words)
            called = None if pointer else _NAME.search(words)
            value = re.search(r"(?<!operator)(?<![=!<>])=(?!=)", words)
            if called and not (value and value.start() < called.start()):
                kind, name = "function", called[1]
            else:
                plain_name = re.sub(r"\s*([={\[].*)$", "", words).split()[-1].lstrip("*&")
                kind, name = "variable", pointer[1] if pointer else plain_name
        made = self.make(kind, name, start, end)
        if specified := _SPECIFIERS.match(made.text):
            kept = specified[1] or ""
            shift = " " * (specified.end() - len(kept))
            made.text = kept + made.text[specified.end() :].replace("\n" + shift, "\n")
        return made

    def type(self, start: int, head: re.Match[str]) -> tuple[Declaration, int]:
        brace = head.end() - 1
        behind = closing(self.text, brace)
        end = self.text.index(";", behind) + 1
        words = flat(self.text[start:brace])
        alias = self.text[behind : end - 1].strip()
        name = alias or re.sub(r"\s*(?<!:):(?!:).*$", "", words).split()[-1]
        kind = "specialization" if words.startswith("template <>") else "type"
        made = self.make(kind, name, start, end)
        if "enum" in head[1]:
            return made, end
        made.members = self.scope(brace + 1, behind - 1, public=head[1] != "class")
        plain_data = all(m.kind in ("variable", "alias") for m in made.members)
        if not plain_data or _ACCESS.search(self.text, brace, behind) or not made.members:
            made.text = self.make("", "", start, brace).text + " " + shown(made.members)
        return made, end


def shown(members: list[Declaration]) -> str:
    """The public part of a class, with its comments."""
    lines = []
    for n, m in enumerate(members):
        lines += [""] if n and (m.comment or not m.grouped) else []
        lines += [m.comment] if m.comment else []
        lines.append(f"{m.text};" + (f"  {m.after}" if m.after else ""))
    return "{\n" + textwrap.indent("\n".join(lines), "  ") + "\n}" if lines else "{}"


def read(text: str) -> list[Declaration]:
    return _Reader(text).scope(0, len(text), public=True)
