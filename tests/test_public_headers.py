"""What a C or C++ program may rely on: headers that compile alone and strictly, an ABI that changes
only on request, exports that match the header, and a reference that is complete and current."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import abi  # noqa: E402
import cpp_declarations  # noqa: E402
import reference  # noqa: E402
import tree  # noqa: E402

HEADERS = sorted(
    p
    for folder in ("include/dlblas", "build/generated/include/dlblas")
    for p in (ROOT / folder).glob("*.h*")
)
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror", "-fsyntax-only"]
# Structures without a size member never grow: DLPack's, and those that are array elements.
FIXED = {
    "dlblas_device",
    "dlblas_dtype",
    "dlblas_tensor",
    "dlblas_value",
    "dlblas_problem_tensor",
    "dlblas_knob",
}
PRIVATE = {"dlblas_python_init"}  # the Python package's own way in: no header, no promise
COMPILERS = {"g++": ("g++", "gcc"), "clang++": ("clang++", "clang")}


def compile_alone(compiler: str, header: pathlib.Path) -> str:
    """The start of a compiler's complaint about a file that includes this header alone."""
    folders = [f"-I{ROOT / 'include'}", f"-I{ROOT / 'build/generated/include'}"]
    language = ["-x", "c", "-std=c11"] if header.suffix == ".h" else ["-x", "c++", "-std=c++20"]
    command = [compiler, *language, *STRICT, *folders, "-"]
    text = f"#include <dlblas/{header.name}>\n" * 2 + "typedef int nothing;\n"
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=480)
    return f"{header.name}: {done.stderr[:600]}" if done.returncode else ""


@pytest.mark.parametrize("compiler", COMPILERS)
def test_each_header_compiles_alone_and_strictly(compiler: str) -> None:
    cpp, c = COMPILERS[compiler]
    if not shutil.which(cpp) or not shutil.which(c):
        pytest.skip(f"no {compiler} here")
    flags = f"{compiler} {' '.join(STRICT)} "
    jobs = {p.name: tree.digest(ROOT, p, flags + str(p)) for p in HEADERS}
    paths = {p.name: p for p in HEADERS}

    def check(name: str) -> str:
        return compile_alone(c if name.endswith(".h") else cpp, paths[name])

    assert len(HEADERS) >= 11
    assert not tree.run_cached(ROOT, f"strict_{compiler}", jobs, check)


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("path", [p for p in HEADERS if p.suffix == ".hpp"], ids=lambda p: p.name)
def test_an_older_cpp_is_refused_in_words_first(compiler: str, path: pathlib.Path) -> None:
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler} here")
    folders = [f"-I{ROOT / 'include'}", f"-I{ROOT / 'build/generated/include'}"]
    command = [compiler, "-x", "c++", "-std=c++17", "-fsyntax-only", *folders, "-"]
    text = f"#include <dlblas/{path.name}>\n"
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=480)
    errors = [line for line in done.stderr.splitlines() if "error:" in line]
    assert errors and "dlblas needs C++20" in errors[0]


def test_the_c_header_takes_any_cpp() -> None:
    command = ["g++", "-x", "c++", "-std=c++11", *STRICT, f"-I{ROOT / 'include'}", "-"]
    text = "#include <dlblas/dlblas.h>\n"
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_loose_header_is_seen(tmp_path: pathlib.Path) -> None:
    text = "inline int narrow(long value) { return value; }\n"
    command = ["g++", "-x", "c++", "-std=c++20", *STRICT, "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    assert done.returncode != 0 and "conversion" in done.stderr


@pytest.mark.parametrize("path", HEADERS, ids=lambda p: p.name)
def test_a_header_includes_only_its_own_and_the_standard_library(path: pathlib.Path) -> None:
    included = re.findall(r"^\s*#\s*include\s*(\S+)", path.read_text(), re.MULTILINE)
    assert [i for i in included if not re.fullmatch(r"<(dlblas/\w+\.hp?p?|\w+(\.h)?)>", i)] == []
    if path.suffix == ".h":
        assert set(included) <= {"<stddef.h>", "<stdint.h>"}


def test_the_abi_is_the_one_that_is_kept() -> None:
    problems = abi.problems_of(ROOT)
    assert not problems, "\n".join(problems)


def test_the_library_exports_what_the_header_declares() -> None:
    library = ROOT / "build" / "libdlblas.so"
    told = subprocess.run(
        ["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True
    )
    exported = {line.split()[-1] for line in told.stdout.splitlines()}
    assert exported == abi.functions(ROOT) | PRIVATE


def test_structures_that_may_grow_begin_with_their_size() -> None:
    found = [d for d in abi.declarations(ROOT) if d.kind == "type" and d.members]
    assert len(found) >= 10
    for d in found:
        begins = d.members[0].name == "size" and "size_t size" in d.members[0].text
        assert begins == (d.name not in FIXED), f"{d.name} (line {d.line})"


def test_the_reference_is_complete_and_current() -> None:
    problems = reference.problems_of(ROOT)
    assert not problems, "\n".join(problems)


@pytest.fixture
def copy(tmp_path: pathlib.Path) -> pathlib.Path:
    shutil.copytree(ROOT / "include", tmp_path / "include")
    for name in (reference.PAGE, abi.GOLDEN):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def change(root: pathlib.Path, header: str, old: str, new: str) -> None:
    path = root / "include" / "dlblas" / header
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("DLBLAS_DTYPE = 2", "DLBLAS_DTYPE = 12", "+  DLBLAS_DTYPE 12"),
        ("int64_t checked; ", "int32_t checked; ", "+  checked at 32, 4"),
        ("void dlblas_free(void* memory)", "void dlblas_free(char* memory)", "char* memory"),
        ("#define DLBLAS_ALLOW_TF32 2u", "#define DLBLAS_ALLOW_TF32 16u", "DLBLAS_ALLOW_TF32 16u"),
    ],
)
def test_a_change_of_the_abi_is_seen(old: str, new: str, said: str, copy: pathlib.Path) -> None:
    change(copy, "dlblas.h", old, new)
    problems = abi.problems_of(copy)
    assert any(said in problem for problem in problems)
    assert abi.COMMAND in problems[-1]


def test_what_has_no_comment_or_another_one_is_seen(copy: pathlib.Path) -> None:
    assert reference.problems_of(copy) == []
    counters = "inline Counters counters() {"
    change(copy, "info.hpp", counters, f"\n\ninline int bare() {{ return 1; }}\n\n{counters}")
    assert any("bare has no comment above it" in p for p in reference.problems_of(copy))
    shutil.copy(ROOT / "include" / "dlblas" / "info.hpp", copy / "include" / "dlblas")
    change(copy, "tensor.hpp", "/// Bytes of one element.", "/// Bytes of an element.")
    problems = reference.problems_of(copy)
    assert len(problems) == 1 and reference.COMMAND in problems[0]


SAMPLE = """
namespace n {
namespace detail { int hidden(); }
/// A type.
template <typename T>
class C : public B<T> {
 public:
  explicit C(int a = f({1, 2})) : B<T>(a), a_{a} {}
  bool operator==(const C&) const = default;  // all of it
  void (*plain)(int) = nullptr;

  /// Answers.
  template <typename U>
  requires(sizeof(U) > 2) U get(U u) const { return u; }

 private:
  int a_ = 0;
};
/// One function.
inline int f(const char* s = ";{",
             int more = 0);
}
"""


def test_the_parser_reads_what_a_header_may_hold() -> None:
    c, f = cpp_declarations.read(SAMPLE)
    assert (c.kind, c.name, c.comment) == ("type", "C", "/// A type.")
    assert [(m.kind, m.name) for m in c.members] == [
        ("function", "C"),
        ("function", "operator=="),
        ("variable", "plain"),
        ("function", "get"),
    ]
    assert c.members[0].text == "explicit C(int a = f({1, 2}))"
    assert c.members[1].after == "// all of it"
    assert "a_" not in c.text and "hidden" not in c.text
    assert f.text == 'int f(const char* s = ";{",\n      int more = 0)'
