"""The operators' pages: everything that the library says about an operator, as Markdown.

In: dlblas.info(), the docstring pieces and AUTOGRAD of dlblas.ops.<family>, the output of
dlblas_describe (tools/describe.cpp), the operator's cases.json, benchmarks/results. Out: one
document per operator, and a table of all. This file names no operator. Read next: stage.py,
../figures.py.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import figures
import figures_gpu

from . import examples, formulas, pictures, stage
from .markdown import code, fold, folded, plain, table, wide

Row = dict[str, Any]
BACKENDS = {"cpu": "CPUs", "cuda": "NVIDIA GPUs"}
FACTS = ("shapes", "dtypes", "aliasing", "numerics")
# What a letter counts; families and operators describe their own letters in LETTERS.
LETTERS = {"T": "tokens: all leading dimensions together"}


class Library(NamedTuple):
    """Data that is collected once for all pages."""

    info: Row
    described: Row  # operator → implementation → facts, of dlblas_describe
    results: list[Row]  # rows of benchmarks/results
    current: Callable[[Row], str]  # the hash of the sources behind a row, as they are now

    def words(self, row: Row, name: str) -> Row:
        """A table from ops/<family>/<family>.py and the operator's own file; either may lack it."""
        found: Row = {}
        for module in (row["family"], row["name"]):
            with contextlib.suppress(ModuleNotFoundError):
                found |= getattr(import_module(f"dlblas.ops.{module}"), name, {})
        return found


def _room(staged: stage.Stage, row: Row) -> str:
    """The operator's own folder, or its family's."""
    own = f"ops/{row['family']}/{row['name']}"
    return own if (staged.root / own).is_dir() else f"ops/{row['family']}"


def _shape(tensor: Row) -> str:
    inside = re.search(r"\[.*\]", tensor["type"])
    return inside[0] if inside else "[]"


def _dtypes(tensor: Row) -> str:
    """``f32, f16, bf16``, or ``as x`` if another argument determines the dtype."""
    kind = re.split(r"[\[|]", tensor["type"])[0]
    named = [f"as {code(kind)} says"] if "like" not in kind and not tensor["dtypes"] else []
    like = [f"as {code(tensor['like'])}"] if tensor["like"] else []
    return ", ".join([*named, *like, *tensor["dtypes"]])


def _default(param: Row) -> str:
    if param["kind"] == "tensor":
        return "absent" if param["optional"] else "required"
    value = param.get("default")
    if not param.get("has_default"):
        return "required"
    return code(json.dumps(value)) if param["kind"] == "enum" else code(str(value))


def _what(param: Row, tensors: dict[str, Row]) -> str:
    if param["kind"] == "tensor":
        tensor = tensors[param["name"]]
        return f"{code(_shape(tensor))} {_dtypes(tensor)}"
    if param.get("values"):
        values = (json.dumps(v) if param["kind"] == "enum" else v for v in param["values"])
        return "one of " + ", ".join(code(value) for value in values)
    return str(param["kind"])


def _call(library: Library, row: Row) -> str:
    import dlblas

    name = row["name"]
    results = [r["name"] for r in row["results"]]
    lines, in_torch = [], []
    for form in row["forms"]:
        signature = inspect.signature(getattr(dlblas, form["name"]))
        received = form.get("receives") or [""] * len(results)
        returned = [r for r, into in zip(results, received, strict=True) if not into]
        arrow = f" -> {', '.join(returned)}" if returned else ""
        lines.append(f"dlblas.{form['name']}{signature}{arrow}")
        in_torch += [form["name"]] + [f"{form['name']}_out"] * bool(returned)
    text = fold("\n".join(lines), "python")
    forms = ", ".join(code(f"torch.ops.dlblas.{form}") for form in in_torch)
    text += f"In torch {forms}; in C++ {code(f'dlblas::{name}')} of `<dlblas/ops.hpp>`. "
    return f"{text}All of them are made from the schema:\n\n{fold(row['schema'])}"


def _example(staged: stage.Stage, row: Row) -> str:
    """The call in Python, in torch and in C++, with the sizes of a case."""
    sizes = examples.first_sizes(staged.root / _room(staged, row), row["name"])
    if sizes is None:
        return ""
    return examples.tabs(examples.make(row, sizes), row)


def _arguments(library: Library, row: Row) -> str:
    tensors = {t["name"]: t for t in row["tensors"]}
    notes = library.words(row, "ARGUMENTS")
    params = row["forms"][0]["params"]
    rows = []
    for param in params:
        name = code(param["name"]) + (" (keyword)" if param["keyword_only"] else "")
        note = notes.get(param["name"], "")
        rows.append([name, _what(param, tensors), _default(param), plain(note)])
    text = table(["argument", "what", "default", "meaning"], rows)
    results = [[code(r["name"]), f"{code(_shape(r))} {_dtypes(r)}"] for r in row["results"]]
    text += table(["result", "what"], results)
    letters = []
    counts = LETTERS | library.words(row, "LETTERS")
    for letter in row["letters"]:
        kind = "any; choices are kept by buckets" if letter["bucketed"] else "exact"
        kind = f"not; tuned as {letter['pool']}" if letter["pool"] else kind
        letters.append([code(letter["name"]), counts.get(letter["name"], ""), kind])
    return text + table(["letter", "counts", "in a choice's key"], letters)


def _inplace(library: Library, row: Row) -> str:
    forms = library.described.get(row["name"], {}).get("inplace", {})
    if not forms:
        return "None: results share no memory with inputs.\n\n"
    text = ""
    for name, schema in forms.items():
        pairs = re.findall(r"(\w+)!(\w+)", schema)
        over = ", ".join(f"{code(result)} over {code(into)}" for into, result in pairs)
        text += f"{code(name)} writes {over}, and returns nothing.\n\n"
    return text


def _errors(row: Row, docs: Row) -> str:
    """The actual error texts, from calls with one mistake each, which are never launched."""
    from dlblas import Spec, _specs, errors, explain

    sizes = {letter["name"]: 8 for letter in row["letters"]}
    right, given = _specs.tensor_specs(row, sizes, {}, {}), _specs.size_arguments(row, sizes)
    names = list(right)
    first, last = right[names[0]], right[names[-1]]
    wrong: list[dict[str, Spec]] = []
    for i in range(len(last.shape)):  # one of its sizes is bound by the tensors before it
        shape = (*last.shape[:i], 7, *last.shape[i + 1 :])
        wrong.append({**right, names[-1]: Spec(shape, last.dtype)})
    wrong.append({**right, names[0]: Spec(first.shape, "i64" if first.dtype != "i64" else "f32")})
    wrong.append({name: right[name] for name in names[:-1]})
    texts: dict[str, str] = {}
    for call in wrong:
        try:
            explain(row["name"], **call, **given)
        except errors.Error as error:
            texts.setdefault(type(error).__name__, str(error))
    rows = [[code(name), plain(text)] for name, text in texts.items()]
    return f"{plain(docs.get('errors', ''))}\n\n" + table(["class", "for example"], rows)


def _knobs(impl: Row, facts: Row) -> str:
    if not impl["knobs"]:
        return "No knobs.\n\n"
    preset = dict(word.split("=", 1) for word in facts.get("config", "").split() if "=" in word)
    rows = [
        [code(k["name"]), ", ".join(map(str, k["values"])), code(preset.get(k["name"], ""))]
        for k in impl["knobs"]
    ]
    text = table(["knob", "values", "default"], rows)
    return text + f"Defaults are those of {code(facts['problem'])}.\n\n" if preset else text


def _refusals(facts: Row) -> str:
    if not facts.get("refusals"):
        return ""
    rows = [[plain(r["reason"]), code(r["problem"])] for r in facts["refusals"]]
    return "Refuses, in its own words:\n\n" + table(["reason", "for example"], rows)


def _implementation(staged: stage.Stage, document: str, impl: Row, facts: Row, knobs: str) -> str:
    marks = ["the oracle: always there, chosen last"] if impl["oracle"] else []
    if facts.get("min_arch"):
        marks.append(f"from sm_{facts['min_arch']}")
    marks.append(
        "the same bits in any batch" if impl["deterministic"]
        else "the same bits in every run" if impl["repeatable"]
        else "bits may differ from run to run"
    )  # fmt: skip
    if impl["backend"] == "cuda":
        marks.append("may be captured in a CUDA graph" if impl["capturable"] else "not capturable")
    links = (
        f'<a class="source" href="{staged.source_link(kernel, document)}">`{kernel}`</a>'
        for kernel in facts.get("kernels", [])
    )
    if facts.get("kernels"):
        marks.append(f"kernels in {', '.join(links)}")
    said = "; ".join(marks)
    text = f"#### {impl['name']}\n\n{said[:1].upper()}{said[1:]}.\n\n"
    return text + knobs + _refusals(facts)


def _implementations(library: Library, staged: stage.Stage, row: Row, document: str) -> str:
    text = (
        "In the order in which they are considered. Which one a call gets, and why, is what "
        f"`dlblas explain {row['name']} --dims …` prints.\n\n"
    )
    described = library.described.get(row["name"], {}).get("implementations", {})
    seen: dict[str, str] = {}  # knobs → the implementation that has them already
    for backend, title in BACKENDS.items():
        there = [i for i in row["implementations"] if i["backend"] == backend]
        if there:
            text += f"### On {title}\n\n"
        for impl in there:
            facts = described.get(impl["name"], {})
            knobs = _knobs(impl, facts)
            first = seen.setdefault(knobs, impl["name"])
            if impl["knobs"] and first != impl["name"]:
                knobs = f"Knobs and defaults are those of {code(first)}.\n\n"
            text += _implementation(staged, document, impl, facts, knobs)
    return text


def _gradients(library: Library, row: Row) -> str:
    name = row["name"]
    autograd = library.words(row, "AUTOGRAD")
    text = ""
    if name in autograd:
        gradient = autograd[name]
        if "formula" in gradient:
            return "Differentiable in torch, by a formula of torch's own operators in f32.\n\n"
        text = f"Differentiable in torch, by [{code(gradient['backward'])}]"
        text += f"({gradient['backward']}.md).\n\n"
        text += table(
            ["input", "its gradient"],
            [[code(into), code(result)] for into, result in gradient["gives"].items()],
        )
    serves = [code(op) for op, entry in autograd.items() if entry.get("backward") == name]
    if serves:
        text += f"Itself the gradient of {', '.join(serves)}. "
    if name not in autograd:
        text += "A tensor that requires grad is refused with a message.\n\n"
    return text


def _cases(staged: stage.Stage, row: Row, document: str) -> str:
    path = f"{_room(staged, row)}/cases.json"
    if not (staged.root / path).is_file():
        return "None.\n\n"
    every = json.loads((staged.root / path).read_text(encoding="utf-8"))
    cases = [case for case in every if case["op"] == row["name"]]
    uses = sorted({use for case in cases for use in case["use"]})
    counts = (f"{sum(use in case['use'] for case in cases)} for {use}" for use in uses)
    link = staged.source_link(path, document)
    text = f'{len(cases)} shapes: {", ".join(counts)}; from <a class="source" href="{link}">'
    text += f"`{path}`</a>.\n\n<details><summary>All of them</summary>\n\n"
    rows = []
    for case in cases:
        dims = " ".join(f"{k}={v}" for k, v in case["dims"].items())
        args = " ".join(f"{k}={v}" for k, v in case.get("args", {}).items())
        lists = [", ".join(case.get(column, [])) for column in ("dtypes", "layouts", "values")]
        rows.append([case["name"], dims, *lists, args, ", ".join(case["use"])])
    head = ["case", "sizes", "dtypes", "layouts", "values", "arguments", "use"]
    every = wide(table(head, [[plain(cell) for cell in row] for row in rows]))
    return f"{text}{every}</details>\n\n"


def _narrow(made: str) -> str:
    """A table of one operator's figures, without its name and without peers that never ran."""
    cells = [line[2:-2].split(" | ") for line in made.split("\n") if line.startswith("|")]
    head, rows = cells[0], cells[2:]
    said = [any(row[i] not in ("–", "") for row in rows) for i in range(len(head))]
    kept = [i for i, name in enumerate(head) if said[i] and name != "operator"]
    rest = made[made.index("\n\n") + 1 :].replace(
        "**Stale**", '<strong class="stale">Stale</strong>'
    )
    narrow = [[row[i] for i in kept] for row in cells]
    return figures_gpu.markdown(narrow[0], narrow[2:]) + rest


def _figures(library: Library, row: Row) -> str:
    mine = [r for r in library.results if r.get("op") == row["name"]]
    text = ""
    for name, (kinds, _) in figures.TABLES.items():
        if any(r["what"] in kinds for r in mine):
            made = _narrow(figures.make_table(name, mine, library.current))
            text += f"### {name.replace('gpu_', '').replace('_', ' ').capitalize()}"
            text += f"{', on a GPU' if name.startswith('gpu_') else ''}\n\n"
            picture = pictures.ratios([r for r in mine if r["what"] in kinds], with_name=False)
            text += f"{picture}{folded(made) if picture else wide(made)}"
    if not text:
        return "None yet.\n\n"
    return (
        "Out of `benchmarks/results/`; a table says **Stale** where the sources behind it have "
        f"changed since it was measured.\n\n{text}"
    )


def _sources(staged: stage.Stage, row: Row, document: str) -> str:
    folder = _room(staged, row)
    rows = []
    for path in sorted((staged.root / folder).rglob("*")):
        if path.suffix not in (".cpp", ".hpp", ".cuh", ".py"):
            continue
        lines = path.read_text(encoding="utf-8").split("\n")[:8]
        said = []
        for line in lines:
            if not line.startswith(("//", '"""', "#")):
                break
            said.append(line.strip('/"# '))
        first = re.split(r"(?<=[.]) (?=[A-Z])", " ".join(said))[0].rstrip(".")
        name = path.relative_to(staged.root / folder)
        link = staged.source_link(f"{folder}/{name}", document)
        rows.append([f'<a class="source" href="{link}">`{name}`</a>', plain(first)])
    if f"{folder}/README.md" not in staged.pages:
        return table(["file", "is"], rows)
    family = os.path.relpath(f"{staged.pages[f'{folder}/README.md']}.md", "operators")
    return f"The family: [{row['family']}]({family}).\n\n" + table(["file", "is"], rows)


def page(library: Library, staged: stage.Stage, row: Row) -> str:
    """The whole document of one operator."""
    document = f"operators/{row['name']}"
    docs = library.words(row, "DOCS").get(row["name"], {})
    facts = [f"**{name.capitalize()}.** {plain(docs[name])}" for name in FACTS if name in docs]
    text = f"# {row['name']}\n\n{plain(docs.get('summary', ''))}\n\n"
    text += formulas.mathml(str(row["formula"]))
    text += _example(staged, row)
    text += _call(library, row) + "\n\n".join(facts) + "\n\n"
    for title, body in (
        ("Arguments", _arguments(library, row)),
        ("In place", _inplace(library, row)),
        ("Gradients", _gradients(library, row)),
        ("Errors", _errors(row, docs)),
        ("Implementations", _implementations(library, staged, row, document)),
        ("Figures", _figures(library, row)),
        ("Cases", _cases(staged, row, document)),
        ("Sources", _sources(staged, row, document)),
    ):
        text += f"## {title}\n\n{body}"
    if docs.get("source"):
        text += f"\nAfter: {plain(docs['source'])}\n"
    return text


def overview(library: Library, document: str) -> str:
    """The table of all operators, with links relative to a document."""
    rows = []
    for row in library.info["operators"]:
        link = os.path.relpath(f"operators/{row['name']}.md", os.path.dirname(document) or ".")
        counts = []
        for backend, title in BACKENDS.items():
            there = [i for i in row["implementations"] if i["backend"] == backend]
            counts += [f"{len(there)} on {title}"] if there else []
        rows.append([f"[{code(row['name'])}]({link})", plain(row["formula"]), ", ".join(counts)])
    return table(["operator", "computes", "implementations"], rows)


def write_pages(library: Library, staged: stage.Stage) -> list[str]:
    """Writes all operators' documents; returns the operators' names."""
    names = []
    for row in library.info["operators"]:
        names.append(row["name"])
        staged.write(f"operators/{row['name']}", page(library, staged, row))
    # A zero-width space lets a name break after its underscores where the column is too narrow.
    listed = "\n".join(f"{name.replace('_', '_' + chr(0x200B))} <{name}>" for name in names)
    text = "# Every operator\n\nMade from the registry: what the library says of itself.\n\n"
    text += overview(library, "operators/index")
    staged.write("operators/index", f"{text}\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n")
    return names
