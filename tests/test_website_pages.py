"""What the generated parts of the site promise: examples that run, well-formed formulas, pictures,
a search that ranks. Read next: tools/website/examples.py, formulas.py, pictures.py, search.py.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import xml.dom.minidom
from typing import Any

import dlblas
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = pathlib.Path(dlblas.__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from website import examples, formulas, look, pictures, search  # noqa: E402


def _operators() -> dict[str, Any]:
    code = "import json, dlblas; print(json.dumps(dlblas.info()['operators']))"
    env = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    told = subprocess.check_output([sys.executable, "-c", code], env=env)
    return {row["name"]: row for row in json.loads(told)}


ROWS = _operators()


def example(row: Any) -> examples.Example:
    room = ROOT / "ops" / row["family"] / row["name"]
    sizes = examples.first_sizes(room, row["name"])
    assert sizes is not None, "no case with sizes that an example could have"
    return examples.make(row, sizes)


@pytest.mark.parametrize("name", ROWS)
def test_the_example_runs(name: str) -> None:
    row = ROWS[name]
    made = example(row)
    codes = [examples.in_python(made, row), examples.in_torch(made, row)]
    if "ml_dtypes" in codes[0]:
        pytest.importorskip("ml_dtypes")
    pytest.importorskip("torch")
    assert any(codes)
    for code in filter(None, codes):
        assert f"dlblas.{name}(" in code and max(map(len, code.splitlines())) <= 100
        exec(compile(code, name, "exec"), {})


def test_the_examples_in_cpp_compile(tmp_path: pathlib.Path) -> None:
    include = PACKAGE / "dlblas" / "include"
    if not shutil.which("g++") or not (include / "dlblas" / "ops.hpp").is_file():
        pytest.skip("needs g++ and the headers")
    heads: dict[str, None] = {}
    bodies = ""
    for name, row in ROWS.items():
        code = examples.in_cpp(example(row), row).replace("int main()", f"int of_{name}()")
        for line in code.splitlines():
            if line.startswith("#include"):
                heads[line] = None
            else:
                bodies += line + "\n"
        assert code.rstrip().endswith("}") and f"dlblas::{name}(" in code
    text = "\n".join(heads) + "\n" + bodies.replace("}\n", "return 0; }\n")
    (tmp_path / "all.cpp").write_text(text, encoding="utf-8")
    command = ["g++", "-std=c++20", "-fsyntax-only", f"-I{include}", str(tmp_path / "all.cpp")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[:3000]


def test_formulas_are_well_formed_and_lose_nothing() -> None:
    for row in ROWS.values():
        made = formulas.mathml(row["formula"])
        tree = xml.dom.minidom.parseString(made.replace("&#160;", " "))
        title = tree.documentElement.getAttribute("title")
        assert title == row["formula"]
        said = "".join(re.findall(r">([^<]+)<", made))
        for word in set(re.findall(r"[a-z]{4,}", row["formula"])) - {"rsqrt", "sqrt"}:
            assert word in said, (row["name"], word)


def test_a_formula() -> None:
    made = formulas.mathml("y = x · rsqrt(mean_C(x²) + eps) · (w + 1); q = round(y / s) of a row")
    assert "<mfrac><mn>1</mn><msqrt>" in made and "<msup>" in made and "<msub>" in made
    assert "<mfrac><mi>y</mi><mi>s</mi></mfrac>" in made
    assert made.count("<div>") == 2 and "</math> of a row</div>" in made


def test_a_picture() -> None:
    row = {
        "op": "rms_norm", "problem": {"T": 2, "C": 64}, "dtype": "bf16",
        "ours": {"name": "cuda", "median_ms": 0.002},
        "peers": [{"name": "liger", "median_ms": 0.004}, {"name": "liger b", "median_ms": 0.003},
                  {"name": "quack", "missing": "no"}, {"name": "copy", "median_ms": 0.1}],
    }  # fmt: skip
    made = pictures.ratios([row], with_name=True, title="Norms")
    xml.dom.minidom.parseString(made)
    assert "liger: 3 µs, 1.50× ours" in made and "quack" not in made and "2 µs" in made
    assert "rms_norm 2×64 bf16" in made and "<strong>Norms</strong>" in made
    assert pictures.ratios([{**row, "peers": []}], with_name=True) == ""


def test_labels_stay_in_their_picture() -> None:
    row = {
        "op": "merge_attention_states", "problem": {"T": 32768, "H": 128, "D": 512, "K": 65536},
        "dtype": "float8_e4m3", "threads": 128,
        "ours": {"median_ms": 1.0}, "peers": [{"name": "liger", "median_ms": 2.0}],
    }  # fmt: skip
    made = pictures.ratios([row], with_name=True)
    labels = re.findall(r"</title>(merge[^<]*)</text>", made)
    assert len(labels) == len(pictures._FRAMES) == 2
    for label, frame in zip(labels, pictures._FRAMES, strict=True):
        assert len(label) == frame.letters and label.endswith("…")
        assert len(label) * pictures.LETTER <= frame.room(), frame


def test_the_index_of_a_page() -> None:
    page = (
        "<body><nav>menu</nav><article><section id='a'><h1>Norms<a>¶</a></h1><p>Rows of "
        "<code>DLBLAS_LOG</code>.</p><section id='b'><h2>How</h2><pre>x = 1</pre></section>"
        "<script>no</script></section></article></body>"
    )
    assert search.entry("n.html", page) == {
        "u": "n.html", "t": "Norms", "h": [["b", "How"]], "b": "Rows of DLBLAS_LOG. x = 1",
    }  # fmt: skip


def test_the_search_ranks(tmp_path: pathlib.Path) -> None:
    browser = next((name for name in look.BROWSERS if shutil.which(name)), None)
    if browser is None:
        pytest.skip("needs chromium")
    pages = [
        {"u": "a.html", "t": "In PyTorch", "h": [["g", "CUDA graphs"]], "b": "cuda graph " * 9},
        {"u": "b.html", "t": "Changes", "h": [], "b": "word " * 300 + "a cuda graph once"},
        {"u": "c.html", "t": "Environment", "h": [], "b": "DLBLAS_LOG is a level"},
    ]
    # Text on every operator's page, and names in its headings, do not make a page about them.
    names = [["r", "cuda_registers"], ["c", "cuda_cluster"], ["s", "cuda_shared"]]
    said = "may be captured in a CUDA graph; " * 7
    pages += [{"u": f"{i}.html", "t": f"op_{i}", "h": names, "b": said} for i in range(20)]
    script = (ROOT / "tools" / "website" / "static" / "search.js").read_text(encoding="utf-8")
    text = (
        f"<body><script>window.dlblasPages={json.dumps(pages)}</script><script>{script}</script>"
        "<p id=o></p><script>o.textContent=JSON.stringify(['cuda graph','dlblas_log','log','zzz']"
        ".map(q=>dlblasRank(q).found.map(s=>s.page.u).slice(0,3)))</script></body>"
    )
    (tmp_path / "p.html").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
         f"file://{tmp_path}/p.html"],
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    found = re.search(r'<p id="o">(.*?)</p>', done.stdout)
    if found is None:
        pytest.skip(f"chromium does not run here: {done.stderr[-200:]}")
    graph, *rest = json.loads(found[1])
    assert graph[0] == "a.html"
    assert rest == [["c.html"], ["c.html"], []]


def test_the_page_of_environment_variables_has_them_all() -> None:
    text = (ROOT / "docs" / "environment.md").read_text(encoding="utf-8")
    named = {row["name"] for row in dlblas.info()["environment"]}
    assert named <= set(re.findall(r"`(DLBLAS_\w+)`", text))
