"""The documentation site: it builds from this tree without a warning, every operator has its page,
every link resolves, nothing is loaded from another site, and the search knows every operator."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from typing import Any, cast

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = pathlib.Path(os.environ.get("DLBLAS_TEST_PYTHON", ROOT / "build" / "python"))
DESCRIBE = os.environ.get("DLBLAS_DESCRIBE", str(ROOT / "build" / "dlblas_describe"))

sys.path.insert(0, str(ROOT / "tools"))
from website import check, cpp_api, look, markdown, operators, python_api, stage  # noqa: E402

# Nothing on these pages is wider than its box, on a desktop and a phone; needs Chromium.
LOOKED_AT = (
    "index.html", "tutorial.html", "tuning.html", "python_reference.html",
    "operators/rms_norm.html",
)  # fmt: skip


def library_info() -> dict[str, Any]:
    """From a fresh process: other tests may have registered operators in this one."""
    code = "import json, dlblas; print(json.dumps(dlblas.info()))"
    env = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    return cast(
        dict[str, Any], json.loads(subprocess.check_output([sys.executable, "-c", code], env=env))
    )


@pytest.mark.starts_early
def test_the_site(tmp_path: pathlib.Path) -> None:
    import dlblas

    site = tmp_path / "site"
    command = [sys.executable, str(ROOT / "tools" / "make_docs.py"), "--out", str(site)]
    command += ["--package", str(PACKAGE), "--describe", DESCRIBE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr  # it checks the site itself

    index = check.search_index(site)
    titles = dict(zip(index["docnames"], index["titles"], strict=True))
    info = library_info()
    described = json.loads(subprocess.run([DESCRIBE], capture_output=True, text=True).stdout)
    for operator in info["operators"]:
        document = f"operators/{operator['name']}"
        assert titles[document] == operator["name"]
        text = (site / f"{document}.html").read_text(encoding="utf-8")
        for implementation in operator["implementations"]:
            assert f'{implementation["name"]}<a class="headerlink"' in text
            for knob in implementation["knobs"]:
                assert f">{knob['name']}<" in text
        for tensor in operator["tensors"]:
            assert f">{tensor['name']}<" in text
        facts = described[operator["name"]]["implementations"].values()
        refuses = any(one.get("refusals") for one in facts)  # some take every call
        assert ("Refuses, in its own words" in text) == refuses
        for place in ("arguments", "errors", "implementations", "figures", "cases", "sources"):
            assert f'id="{place}"' in text
    reference = (site / "python_reference.html").read_text(encoding="utf-8")
    forms = {form["name"] for row in info["operators"] for form in row["forms"]}
    for name in set(dlblas.__all__) - forms - {"cache", "errors", "spaces"}:
        assert f">{name}<" in reference, name
    assert (site / "cpp_operators.html").is_file()
    for document in stage.find_pages(ROOT).values():
        assert (site / f"{document}.html").is_file()
        assert document == "index" or f'"{document}.html"' in (site / "index.html").read_text()
    if any(map(shutil.which, look.BROWSERS)):
        cut = {(p, w): look.cut_at(site / p, w) for p in LOOKED_AT for w in look.widths()}
        assert not any(cut.values()), cut


def test_every_typed_function_of_cpp_is_on_its_page() -> None:
    header = (PACKAGE / "dlblas" / "include" / "dlblas" / "ops.hpp").read_text(encoding="utf-8")
    declared = re.findall(
        r"^(?:inline (?!namespace)\w+|struct|enum class) (\w+)", header, re.MULTILINE
    )
    page = cpp_api.page(header)
    forms = {form["name"] for row in library_info()["operators"] for form in row["forms"]}
    assert forms <= {f"{name}" for name in declared} and len(declared) > len(forms)
    assert [name for name in declared if not re.search(rf"\b{name}\b", page)] == []
    assert "static const" not in page and "// ---" not in page  # declarations alone


def test_no_operator_is_named_by_the_tools() -> None:
    names = [row["name"] for row in library_info()["operators"]]
    for path in [ROOT / "tools" / "make_docs.py", *(ROOT / "tools" / "website").glob("*.py")]:
        text = path.read_text(encoding="utf-8")
        assert not [name for name in names if re.search(rf"\b{name}\b", text)], path


def test_every_letter_has_a_meaning() -> None:
    """And no operator's files describe a letter that none of their schemas has."""
    info = library_info()
    library = operators.Library(info, {}, [], lambda row: "")
    unsaid, used = [], {}
    for row in info["operators"]:
        letters = {letter["name"] for letter in row["letters"]}
        said = library.words(row, "LETTERS")
        unsaid += [f"{row['name']}: {one}" for one in letters - {*operators.LETTERS} - {*said}]
        for one in said:
            used[row["family"], one] = used.get((row["family"], one), False) or one in letters
    assert not unsaid, "say in LETTERS of ops/<family>/<family>.py or <op>.py what these count"
    assert [key for key, is_used in used.items() if not is_used] == []


PAGES = {
    "good.html": '<h1 id="top">x</h1><a href="sub/other.html#here">y</a><a href="#top">z</a>',
    "sub/other.html": '<p id="here"><a href="../good.html">back</a><a href="https://a.org/b">o</a>',
    "style.css": "a { background: url(data:image/png;base64,AA) }",
}
WRONG = {
    "a page that is not there": ("a.html", '<a href="gone.html">x</a>', "leads nowhere"),
    "a place that is not there": ("a.html", '<a href="good.html#gone">x</a>', "names no place"),
    "a script from elsewhere": ("a.html", '<script src="https://cdn.x/a.js"></script>', "fetches"),
    "a style from elsewhere": ("a.html", '<link rel="stylesheet" href="//x/a.css">', "fetches"),
    "a picture that is not there": ("a.html", '<img src="gone.png">', "fetches gone.png"),
    "a font from elsewhere": ("b.css", "@font-face { src: url('https://x/f.woff2') }", "fetches"),
    "a malformed address": ("a.html", '<a href="http://a.org">x</a>', "is no https address"),
}


def plant(folder: pathlib.Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def test_a_clean_site_has_no_problems(tmp_path: pathlib.Path) -> None:
    plant(tmp_path, PAGES)
    assert check.problems(tmp_path) == []


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_found(wrong: str, tmp_path: pathlib.Path) -> None:
    name, text, expected = WRONG[wrong]
    plant(tmp_path, {**PAGES, name: text})
    found = check.problems(tmp_path)
    assert len(found) == 1 and name in found[0] and expected in found[0], found


TREE = {
    "README.md": "# lib\n\nSee [docs](docs/use.md#how), `ops/f/f.cpp`, [x](gone.md).\n",
    "docs/index.md": "# lib\n\n## Use\n\n- [All of it](../README.md): more\n\n<!-- operators -->\n",
    "docs/use.md": "# Use\n\n```cpp\nauto f = [](int) {};  // `ops/f/f.cpp`\n```\n\n## How\n",
    "ops/f/README.md": "# f\n\n`f.cpp` and [back](../../docs/use.md)\n",
    "ops/f/f.cpp": "int f();\n",
}


def test_links_of_a_page_lead_to_the_site(tmp_path: pathlib.Path) -> None:
    plant(tmp_path / "tree", TREE)
    staged = stage.Stage(tmp_path / "tree", tmp_path / "out")
    staged.copy_pages({"operators/index": lambda document: f"table for {document}"})
    texts = {p.stem: p.read_text() for p in (tmp_path / "out").rglob("*.md")}
    assert texts["overview"].startswith("# All of it\n")  # not the site's own title again
    assert "[docs](use.md#how)" in texts["overview"]
    assert '<a class="source" href="source/ops/f/f.cpp.html">`ops/f/f.cpp`</a>' in texts["overview"]
    assert 'href="../source/ops/f/f.cpp.html"' in texts["f"] and "(../use.md)" in texts["f"]
    assert "auto f = [](int) {};  // `ops/f/f.cpp`" in texts["use"]
    assert "table for index" in texts["index"] and "operators/index" in texts["index"]
    assert staged.broken == [stage.Broken("README.md", "gone.md")]
    assert staged.sources == {"ops/f/f.cpp"}
    assert ":caption: More" in texts["index"] and "families/f" in texts["index"]


def test_docstrings_become_markdown() -> None:
    doc = """Finds ``a_b`` or `c`, *not* d::

        find("a")
          again

    Returns [T, C].
    """
    assert python_api.prose(doc) == (
        'Finds `a_b` or `c`, \\*not\\* d:\n\n```python\nfind("a")\n  again\n```\n\n'
        "Returns \\[T, C\\].\n\n"
    )
    assert python_api.prose("One ``a\n b``.") == "One `a b`.\n\n"


def test_figures_of_one_operator() -> None:
    made = "| operator | ours | by | peer |\n| --- | --- | --- | --- |\n| a | 1 µs |  | – |\n"
    made += "| a | 2 µs | x | – |\n\nA card, a day.\n\n**Stale**: so.\n"
    narrow, _, rest = operators._narrow(made).partition("\n\n")
    assert narrow == "| ours | by |\n| --- | --- |\n| 1 µs |  |\n| 2 µs | x |"
    assert rest == 'A card, a day.\n\n<strong class="stale">Stale</strong>: so.\n'


def test_text_is_no_markdown() -> None:
    assert markdown.plain("x [*T, C] a_b <c>|d`") == r"x \[\*T, C\] a\_b \<c\>\|d\`"
    made = markdown.table(["a", "b", "c"], [["`x|y`", "", "1"], ["z", "", "2"]])
    assert made == "| a | c |\n| --- | --- |\n| `x\\|y` | 1 |\n| z | 2 |\n\n"
