"""The examples in README.md and docs/ are run as written: Python blocks, C++ programs and `dlblas`
lines."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "ops").glob("*/README.md")),
]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")
# Lines that would do more than show something: whole runs that have their own tests.
ELSEWHERE = {"bench", "demo", "test"}
COMMANDS = (["dlblas"], [".venv/bin/dlblas"])


def blocks(*languages: str) -> list[pytest.param]:
    found = []
    for page in PAGES:
        for number, (language, body) in enumerate(BLOCK.findall(page.read_text(encoding="utf-8"))):
            if language in languages:
                found.append(pytest.param(body, id=f"{page.relative_to(ROOT)}:{number}"))
    return found


def dlblas_lines() -> list[pytest.param]:
    lines = []
    for case in blocks("console"):
        for line in case.values[0].splitlines():
            for command in line.removeprefix("$ ").split("#")[0].split(";"):
                words = shlex.split(command)
                if not line.startswith("$ ") or words[:1] not in COMMANDS:
                    continue
                if words[1] not in ELSEWHERE and not {"gated_scale", "softcap"} & {*words}:
                    lines.append(pytest.param(words[1:], id=f"{case.id} {' '.join(words)}"))
    return lines


def run(command: list[str], tmp_path: pathlib.Path, **env: str) -> str:
    environment = {
        **os.environ,
        "DLBLAS_CACHE": str(tmp_path / "cache"),
        "DLBLAS_TUNE_SECONDS": "1",
        **env,
    }
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("body", blocks("python"))
def test_python_block(body: str, tmp_path: pathlib.Path) -> None:
    run([sys.executable, "-c", body], tmp_path)


@pytest.mark.parametrize("body", [b for b in blocks("cpp") if "int main" in b.values[0]])
def test_cpp_program(body: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "main.cpp").write_text(body, encoding="utf-8")
    command = f"g++ -std=c++20 -Wall -Werror main.cpp -I{ROOT}/include -I{BUILD}/generated/include"
    run([*command.split(), f"-L{BUILD}", "-ldlblas", f"-Wl,-rpath,{BUILD}", "-o", "main"], tmp_path)
    run([str(tmp_path / "main")], tmp_path)


@pytest.mark.parametrize("words", dlblas_lines())
def test_command_line(words: list[str], tmp_path: pathlib.Path) -> None:
    run([sys.executable, "-m", "dlblas", *words], tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: pathlib.Path) -> None:
    prose = FENCED.sub("", page.read_text(encoding="utf-8"))
    links = LINK.findall(prose)
    broken = [link for link in links if not (page.parent / link).exists()]
    assert not broken


OPERATORS = """
import json, pathlib, sys
sys.path.insert(0, sys.argv[1] + "/tools")
import dlblas, operator_table
info = dlblas.info()
names = operator_table.Names(info)
table = (pathlib.Path(sys.argv[1]) / "docs" / "all_operators.md").read_text(encoding="utf-8")
table = table.partition("<!-- figures:begin operators -->\\n")[2].partition("<!--")[0]
first = [line.split("|")[1] for line in table.splitlines()[2:]]
left_out = {row["name"] for row in info["operators"]} - names.served(first)
new = {"name": "brand_new", "family": "norm", "formula": "y = |x|",
       "forms": [{"name": "brand_new"}], "implementations": [{"name": "cpu_one", "backend": "cpu"}]}
more = operator_table.make({"operators": [*info["operators"], new]})
try:
    names.served(["`rms_norm`, `rms_nrom`"])
except SystemExit as refused:
    print(json.dumps([sorted(left_out), more, operator_table.families(info), str(refused),
                      sorted(names.served(["`quantize`", "`softmax`", "`partial_rotary_emb`"]))]))
"""


def test_the_tables_have_every_operator(tmp_path: pathlib.Path) -> None:
    """Each operator appears by its name, by its public function's name, or as a gradient
    (tools/operator_table.py). README.md has one row per family, with the functions to call."""
    told = run([sys.executable, "-c", OPERATORS, str(ROOT)], tmp_path)
    left_out, more, families, refused, served = json.loads(told)
    assert not left_out, "run tools/figures.py"
    assert "| `brand_new` | `y = \\|x\\|` | `cpu_one` | – |\n" in more
    assert "`brand_new` | `" in more and more.count("\n") > 10
    assert "`batched_matmul` | `out" not in more  # bmm's, which calls it by a loop over names
    rows = {line.split("|")[1].split()[0]: line for line in families.splitlines()[2:]}
    assert "`linear`" in rows["gemm"] and "`batched_matmul`" in rows["gemm"]
    assert "`quantize`" in rows["quant"] and "`quantize_token`" not in rows["quant"]
    assert "_backward`" not in rows["norm"] and re.search(r"^\| w4 \(\d+\) \|", rows["w4"])
    assert families in (ROOT / "README.md").read_text(encoding="utf-8"), "run tools/figures.py"
    assert "rms_nrom" in refused
    rotary = {f"partial_rotary_heads{end}" for end in ("", "_backward", "_sum")}
    assert {"quantize_token", "quantize_static", "softmax_backward", *rotary} <= {*served}
    assert not {"rope", "log_softmax", "dequantize_group"} & {*served}


def test_every_page_is_read() -> None:
    assert len(blocks("python")) >= 2 and len(dlblas_lines()) >= 5
