"""What the command line prints, and where: closed and full outputs, encodings that lack our
letters, Ctrl-C while importing, text from users, candidates and imported records. It never prints a
traceback or a terminal escape, and never blames the user for an internal error.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest
from dlblas._streams import RENEW
from dlblas._text import columns, harmless

pytestmark = pytest.mark.attack("outputs, texts and encodings of the command")

ROOT = pathlib.Path(__file__).resolve().parent.parent
SMALL = "--dims T=4,C=64"
NASTY = "no \x1b[2J\x1b]0;pwn\x07 \u202eevil\u2028 \u200b\r\nforged: line"


def shell(
    line: str, folder: pathlib.Path, stdin: str = "", **env: str
) -> subprocess.CompletedProcess[bytes]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("DLBLAS_", "LC_", "PYTHONIO"))}
    given = {
        **kept, "PYTHONPATH": str(ROOT / "build" / "python"), "DLBLAS_CACHE": str(folder / "store"),
        **env,
    }  # fmt: skip
    line = line.replace("dlblas", f"'{sys.executable}' -m dlblas", 1)
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, timeout=480, cwd=folder, env=given
    )


def words(done: subprocess.CompletedProcess[bytes]) -> str:
    """All output, checked to hold no traceback and no terminal control sequence."""
    text = (done.stdout + done.stderr).decode()
    assert "Traceback" not in text, text
    assert text.replace("\n", "").replace("\t", "").isprintable(), ascii(text)
    return text


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("dlblas list >&-", 0),
        ("dlblas list 2>&-", 0),
        ("dlblas list <&- >&- 2>&-", 0),
        ("dlblas explain nothing 2>&-", 2),
        ("dlblas explain nothing >&- 2>&-", 2),
        (f"dlblas tune rms_norm {SMALL} --seconds 0.1 --max-evaluations 1 >&- 2>&-", 0),
        ("dlblas list > /dev/full", 2),
        ("dlblas list --json > /dev/full", 2),
        ("dlblas explain nothing 2> /dev/full", 2),
    ],
)
def test_closed_and_full_outputs(line: str, code: int, tmp_path: pathlib.Path) -> None:
    done = shell(line, tmp_path)
    words(done)
    assert done.returncode == code, done.stderr


def test_what_is_meant_for_people_never_lands_in_a_file_of_the_store(
    tmp_path: pathlib.Path,
) -> None:
    """With descriptors 1 and 2 closed, the first files opened would get these numbers."""
    line = f"dlblas tune rms_norm {SMALL} --seconds 0.2 --max-evaluations 2 <&- >&- 2>&-"
    assert shell(line, tmp_path).returncode == 0
    done = shell("dlblas cache verify", tmp_path)
    assert words(done).startswith("1 good, 0 bad"), words(done)


@pytest.mark.parametrize(
    "env",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
)
@pytest.mark.parametrize(
    "line",
    [
        "dlblas list",
        "dlblas info",
        "dlblas list --json",
        "dlblas --help",
        f"dlblas tune rms_norm {SMALL} --seconds 0.1 --max-evaluations 2",
        "dlblas cache --help",
    ],
)
def test_encodings_without_our_letters(
    line: str, env: dict[str, str], tmp_path: pathlib.Path
) -> None:
    done = shell(line, tmp_path, **env)
    assert done.returncode == 0, done.stderr
    assert (done.stdout + done.stderr).isascii()
    words(done)


def test_an_argument_that_is_no_text_is_the_one_blamed(tmp_path: pathlib.Path) -> None:
    for line in (
        "dlblas explain $'rms\\xffnorm' --dims T=4,C=64",
        "dlblas cache show $'a\\xff'",
        "dlblas cache pin rms_norm $'a\\xff'",
        "dlblas explain matmul --dims M=1,K=1,N=1 --arg $'activation=a\\xff'",
        "dlblas tune rms_norm --dims T=4,C=64 --implementations $'a\\xff'",
    ):
        done = shell(line, tmp_path)
        assert done.returncode == 2, line
        assert "udcff" in words(done) or "\\xff" in words(done), words(done)
        assert words(done).count("\n") == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("raise RuntimeError('no \\x1b[2J way')", "RuntimeError: no \\x1b[2J way, broken.py:1"),
        ("1 / 0", "ZeroDivisionError: division by zero, broken.py:1"),
        ("def", "SyntaxError: invalid syntax"),
        ("import no_such_module_at_all", "No module named 'no_such_module_at_all'"),
    ],
)
def test_a_module_that_does_not_import(text: str, why: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "broken.py").write_text(text)
    done = shell("dlblas --import broken list", tmp_path)
    assert done.returncode == 2 and done.stdout == b""
    assert "dlblas: --import cannot be imported; expected a module, got 'broken' (" in words(done)
    assert why in words(done) and words(done).count("\n") == 1
    done = shell("dlblas --import .x list", tmp_path)  # a relative name
    assert done.returncode == 2 and words(done).count("\n") == 1


def test_a_demo_that_cannot_write_says_so_at_once(tmp_path: pathlib.Path) -> None:
    done = shell("dlblas demo --root /proc --quick", tmp_path)
    assert done.returncode == 2 and done.stdout == b""
    assert words(done).startswith("dlblas: /proc/")
    done = shell("dlblas demo --root r --out /proc/x.json --quick", tmp_path)
    assert done.returncode == 2 and done.stdout == b""
    assert words(done).startswith("dlblas: /proc/x.json: ")


CTRL_C = """
import os, signal, sys
class Interrupts:
    def find_spec(self, name, *_):
        if name == sys.argv[-1]:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupts())
sys.modules.pop("typing", None)  # as in a process that has not needed it yet
sys.argv = ["dlblas", "list", sys.argv[1]]
from dlblas.cli import main
sys.exit(main(["list"]))
"""


@pytest.mark.parametrize(
    "module", ["typing", "dlblas._absent", "dlblas._hooks", "dlblas.tuning", "dlblas._cli_cache"]
)
def test_ctrl_c_while_importing(module: str, tmp_path: pathlib.Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CTRL_C, module], capture_output=True, timeout=240,
        env={**os.environ, "PYTHONPATH": str(ROOT / "build" / "python")},
        # A shell starts background jobs with SIGINT ignored, and their children inherit that.
        preexec_fn=lambda: __import__("signal").signal(2, __import__("signal").SIG_DFL),
    )  # fmt: skip
    assert (done.returncode, done.stderr, done.stdout) == (130, b"dlblas: interrupted\n", b"")


def test_only_the_command_has_its_signals_taken(tmp_path: pathlib.Path) -> None:
    code = "import signal, dlblas; print(signal.getsignal(2) is signal.default_int_handler)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=240,
        env={**os.environ, "PYTHONPATH": str(ROOT / "build" / "python")},
    )  # fmt: skip
    assert done.stdout == "True\n", done.stderr


def test_texts_of_users_and_candidates(tmp_path: pathlib.Path) -> None:
    (tmp_path / "nasty.py").write_text(
        textwrap.dedent(f"""
        import dlblas
        if __name__ != "__main__":
            @dlblas.register("rms_norm", "refuses", supports=lambda p: {NASTY!r})
            def refuses(x, weight, eps, weight_offset, y): pass
            @dlblas.register("rms_norm", "raises")
            def raises(x, weight, eps, weight_offset, y): raise ValueError({NASTY!r})
            @dlblas.register("rms_norm", "shouts")
            def shouts(x, weight, eps, weight_offset, y): raise ValueError("long " * 10_000_000)
        """)
    )
    problem = f"rms_norm {SMALL}"
    for line, code in (
        (f"dlblas --import nasty explain {problem}", 0),
        (f"dlblas --import nasty explain {problem} --json", 0),
        (f"dlblas --import nasty tune {problem} --seconds 1 --implementations refuses,raises", 2),
        (f"dlblas --import nasty tune {problem} --seconds 1 --implementations shouts", 2),
        (f"dlblas --import nasty tune {problem} --seconds 1 --max-evaluations 8", 0),
        ("dlblas cache ls", 0),
    ):
        done = shell(line, tmp_path)
        text = words(done)
        assert done.returncode == code, text
        assert not any(row.startswith("forged") for row in text.splitlines())
        assert len(text) < 60_000 and (max(map(len, text.splitlines()))) < 6_000
        assert "crash" not in text  # a long exception is its candidate's failure in words


def sealed(text: str) -> str:
    return f"{text}sha256 {hashlib.sha256(text.encode()).hexdigest()}\n"


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("export")
    words(shell(f"dlblas tune rms_norm {SMALL} --seconds 0.1 --max-evaluations 1", folder))
    words(shell("dlblas cache export all.txt", folder))
    return (folder / "all.txt").read_text()


def forged(export: str, changes: dict[str, str]) -> str:
    """Replaces values in the one record of an export, and recomputes the digests."""
    _, _, size, rest = export.split("\n", 3)
    first, *lines = rest.encode()[: int(size.split()[1])].decode().splitlines()[:-1]
    fields = dict(line.split(" ", 1) for line in lines)
    assert changes.keys() <= fields.keys()
    text = "".join(f"{name} {value}\n" for name, value in (fields | changes).items())
    record = sealed(f"{first}\n{text}")
    head = f"dlblas-export 1\nrecords 1\nrecord {len(record.encode())}\n"
    return sealed(head + record)


UNSEEN = "\u202eevil\u2028forged: line\u200b\u2066"  # no control characters, and still obeyed
FIELDS = ("key.op", "cand.0.implementation", "cand.0.failure", "env.seed")
TAKEN = [(field, value) for field in FIELDS for value in (UNSEEN, "x" * 500_000, UNSEEN * 20_000)]
OBEYED = ("\x1b[2J\x1b]0;pwn\x07", "\x9b2J", "a\rb", "a\x7f", "a\0b")
REFUSED = [("key.op", value) for value in OBEYED] + [(field, OBEYED[0]) for field in FIELDS[1:]]


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [(*row, 0) for row in TAKEN] + [(*row, 1) for row in REFUSED],
    ids=range(len(TAKEN) + len(REFUSED)),
)
def test_texts_of_a_forged_export(
    field: str, value: str, code: int, export: str, tmp_path: pathlib.Path
) -> None:
    """A record with terminal control characters is refused; any other text is shown escaped and
    shortened."""
    changes = {field: value}
    if field == "cand.0.failure":
        changes = {field: f"crash: {value}", "cand.0.samples_ms": ""}
    (tmp_path / "all.txt").write_text(forged(export, changes), newline="\n")
    done = shell("dlblas cache import all.txt", tmp_path)
    said = words(done)
    assert done.returncode == code and len(said) < 2_000, said[:2000]
    assert said.startswith("0 new, 0 known, 1 refused" if code else "1 new, 0 known, 0 refused")
    done = shell("dlblas cache ls --json", tmp_path)
    hashes = [row["hash"] for row in json.loads(done.stdout)]
    assert len(hashes) == 1 - code
    for line in ("dlblas cache ls", *(f"dlblas cache show {key}" for key in hashes)):
        done = shell(line, tmp_path)
        text = words(done)
        assert done.returncode == 0 and len(text) < 20_000, text[:2000]
        assert not any(row.startswith("forged") for row in text.splitlines())
        assert max(map(len, text.splitlines())) < 3_000


def test_printed_texts_are_harmless_and_short() -> None:
    assert harmless(NASTY) == (
        "no \\x1b[2J\\x1b]0;pwn\\x07 \\u202eevil\\u2028 \\u200b\\r\\nforged: line"
    )
    assert harmless("µs · × 中文 é") == "µs · × 中文 é"
    assert harmless("a" * 1000, 10) == "aaaaaaaaaa… (990 more characters)"
    table = columns([["op", "x" * 500_000], ["a\nb", "c"]])
    assert len(table) < 5_000 and table.count("\n") == 1
    assert RENEW not in harmless(RENEW)
