"""What cmake/source_hashes.cmake counts as a change: code in a file or its includes, no comment and
no line broken elsewhere.

Read next: cmake/source_hashes.cmake.
"""

import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILES = {
    "ops/norm/a.cpp": '#include "ops/norm/a.hpp"\nint a() { return b; }\nauto k = "device/k.cuh";',
    "ops/norm/a.hpp": "// Of a.\nconstexpr int b = 1;  // one\n  // and no more\n",
    "ops/norm/c.cpp": "int c() { return 2; }\n",
    "device/k.cuh": "// A kernel.\nint k;\n",
    "ops/norm/d_program.hpp": '#include "device/d.hpp"\n',
    "device/d.hpp": '#include "device/d.cuh"\nint d;\n',
    "device/d.cuh": "int kernel;\n",
    "cpu/row/walk_rows.hpp": "int loops;\n",
    "ops/gemm/e_avx2.cpp": '#include "cpu/gemm/code.hpp"\n',
    "ops/gemm/e_amx.cpp": '#include "cpu/gemm/code.hpp"\n',
    "cpu/gemm/code.hpp": "int table;\n",
    "cpu/gemm/run.cpp": "int run;\n",
    "cpu/gemm/blocks_avx2.cpp": '#include "cpu/gemm/tiles.hpp"\n',
    "cpu/gemm/few_rows_avx2.cpp": "int rows;\n",
    "cpu/gemm/blocks_amx.cpp": "int amx;\n",
    "cpu/gemm/tiles.hpp": "int tiles;\n",
}


def _cmake() -> str:
    beside = pathlib.Path(sys.executable).parent / "cmake"
    found = str(beside) if beside.exists() else shutil.which("cmake")
    assert found, "cmake is not installed"
    return found


def _digits(tree: pathlib.Path) -> dict[str, str]:
    for name, text in FILES.items():
        if not (tree / name).exists():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_text(text, encoding="utf-8")
    out, script = tree / "out.cpp", ROOT / "cmake" / "source_hashes.cmake"
    subprocess.run([_cmake(), f"-DTREE={tree}", f"-DOUTPUT={out}", "-P", script], check=True)
    found = re.findall(r'SourceHash<"([^"]+)">::kDigits\[17\] = "([0-9a-f]{16})"', out.read_text())
    programs = {"ops/norm/d_program.hpp", "ops/norm/d_program.hpp:cuda"}
    sources = {name for name in FILES if name.endswith(".cpp")}
    assert {name for name, _ in found} == sources | programs
    return dict(found)


def test_comments_and_spaces_are_no_change_and_code_is(tmp_path: pathlib.Path) -> None:
    before = _digits(tmp_path)
    changes = {  # file: what replaces what, and whether that is a change
        "ops/norm/a.hpp": [("// Of a.", "// Of a [once]; more", False), ("b = 1", "b = 3", True)],
        "device/k.cuh": [("// A kernel.\n", "", False), ("int k", "long k", True)],
        "ops/norm/a.cpp": [
            ("int a", "// First.\nint a", False),
            ("return b", "return -b", True),
            ("return -", "\n  return  -", False),
        ],
    }
    for name, edits in changes.items():
        for old, new, counts in edits:
            path = tmp_path / name
            text = path.read_text(encoding="utf-8")
            assert old in text
            path.write_text(text.replace(old, new, 1), encoding="utf-8")
            after = _digits(tmp_path)
            assert (after["ops/norm/a.cpp"] != before["ops/norm/a.cpp"]) == counts, (name, new)
            assert after["ops/norm/c.cpp"] == before["ops/norm/c.cpp"]
            before = after


def test_the_loops_of_cpus_are_nothing_to_a_gpus_kernels(tmp_path: pathlib.Path) -> None:
    before = _digits(tmp_path)
    for name, on_cpus, on_gpus in (
        ("cpu/row/walk_rows.hpp", True, False),
        ("device/d.cuh", False, True),
        ("device/d.hpp", True, True),
        ("ops/norm/d_program.hpp", True, True),
    ):
        path = tmp_path / name
        path.write_text(path.read_text(encoding="utf-8") + "int more;\n", encoding="utf-8")
        after = _digits(tmp_path)
        changed = {name for name, digits in after.items() if digits != before[name]}
        both = (("ops/norm/d_program.hpp", on_cpus), ("ops/norm/d_program.hpp:cuda", on_gpus))
        assert changed == {name for name, changes in both if changes}, name
        before = after


def test_the_loops_that_operators_share_count_for_their_level(tmp_path: pathlib.Path) -> None:
    before = _digits(tmp_path)
    every = {"ops/gemm/e_avx2.cpp", "ops/gemm/e_amx.cpp"}
    for name, operators in (
        ("cpu/gemm/run.cpp", every),
        ("cpu/gemm/tiles.hpp", {"ops/gemm/e_avx2.cpp"}),
        ("cpu/gemm/few_rows_avx2.cpp", {"ops/gemm/e_avx2.cpp"}),
        ("cpu/gemm/blocks_amx.cpp", {"ops/gemm/e_amx.cpp"}),
    ):
        path = tmp_path / name
        path.write_text(path.read_text(encoding="utf-8") + "int more;\n", encoding="utf-8")
        after = _digits(tmp_path)
        changed = {name for name, digits in after.items() if digits != before[name]}
        assert {name for name in changed if name.startswith("ops/")} == operators, name
        before = after
