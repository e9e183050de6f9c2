"""`dlblas cache export|import|merge|pin|forbid|compact`, from Python and from the shell: imports
are checked, decisions hold in new processes and show in explain, refusals are typed."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
from typing import Any

import pytest

ASK = (
    "import json, dlblas, numpy as np; x = np.ones((64, 256), np.float32); "
    "w = np.ones(256, np.float32); "
)
TUNE = ASK + "dlblas.get_op('rms_norm', (x, w), seconds=0.2)"
EXPLAIN = ASK + "print(json.dumps(dlblas.explain('rms_norm', x, w).as_dict()))"


def run(cache: pathlib.Path, *command: str, code: int = 0) -> str:
    """Runs a fresh process on the given store; returns its stdout followed by its stderr."""
    done = subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "DLBLAS_CACHE": str(cache)}, capture_output=True, text=True, timeout=480,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def shell(cache: pathlib.Path, *words: str, code: int = 0) -> str:
    return run(cache, "-m", "dlblas", "cache", *words, code=code)


def ask(cache: pathlib.Path, *words: str, code: int = 0) -> Any:
    return json.JSONDecoder().raw_decode(shell(cache, *words, "--json", code=code))[0]


def explained(cache: pathlib.Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(cache, "-c", EXPLAIN).splitlines()[0])
    return found


def row(found: dict[str, Any], name: str) -> dict[str, Any]:
    return next(r for r in found["candidates"] if r["implementation"] == name)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    cache = tmp_path_factory.mktemp("tuned")
    run(cache, "-c", TUNE)
    return cache


def sealed(body: str) -> str:
    return f"{body}sha256 {hashlib.sha256(body.encode()).hexdigest()}\n"


def test_records_travel_whole(tuned: pathlib.Path, tmp_path: pathlib.Path) -> None:
    file, here = tmp_path / "all.txt", tmp_path / "here"
    assert ask(tuned, "export", str(file))["records"] >= 1
    assert ask(here, "import", str(file))["imported"] >= 1
    again = ask(here, "import", str(file))
    assert again["imported"] == 0 and again["known"] >= 1
    assert explained(here)["source"] == "store"
    key = ask(here, "ls")[0]["hash"]
    theirs = ask(tuned, "show", key)["candidates"]
    ours = ask(here, "show", key)["candidates"]
    plain = [{k: v for k, v in c.items() if k != "record"} for c in theirs]
    assert plain == [{k: v for k, v in c.items() if k != "record"} for c in ours]


def test_merge_reads_another_store_and_leaves_it(
    tuned: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    before = sorted(str(p) for p in tuned.rglob("*"))
    assert ask(tmp_path, "merge", str(tuned))["imported"] >= 1
    assert ask(tmp_path, "merge", str(tuned / "v1"))["known"] >= 1
    assert sorted(str(p) for p in tuned.rglob("*")) == before
    assert explained(tmp_path)["source"] == "store"


def test_every_record_that_comes_in_is_checked(tuned: pathlib.Path, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "all.txt"
    shell(tuned, "export", str(file))
    text = file.read_text()
    head, count, length, rest = text.split("\n", 3)
    record = rest[: int(length.split()[1])]
    bad = record.replace("cand.0.default", "cand.0.evil", 1)
    for wrong in (bad, record.replace("dlblas-result 1", "dlblas-result 9")):
        resealed = sealed(wrong[:-72])
        size = len(resealed.encode())
        body = f"{head}\n{count}\n{length}\n{record}record {size}\n{resealed}"
        body = body.replace(count, f"records {int(count.split()[1]) + 1}", 1)
        if count == "records 1":
            file.write_text(sealed(body))
            value = ask(tmp_path / "new", "import", str(file), code=1)
            assert len(value["refused"]) == 1 and "record 2" in value["refused"][0]
    for broken in (text[:-1], text[:-80], text.replace("records ", "records 1", 1), "", "x" * 100):
        file.write_text(broken)
        said = shell(tmp_path / "other", "import", str(file), code=2)
        assert "cache: path is no export" in said
    assert ask(tmp_path / "other", "ls") == []


def test_refusals_are_typed(tmp_path: pathlib.Path) -> None:
    import dlblas
    from dlblas import cache
    from dlblas.errors import UnknownOperatorError

    with pytest.raises(dlblas.Error, match="cache: path is no export"):
        cache.import_file(tmp_path / "nothing")
    with pytest.raises(dlblas.Error, match="cache: path is no store"):
        cache.merge(tmp_path)
    with pytest.raises(dlblas.Error, match="cache: path cannot be written"):
        cache.export(tmp_path / "no" / "folder")
    with pytest.raises(UnknownOperatorError):
        cache.pin("no_such_op", "cpu_baseline")
    with pytest.raises(dlblas.Error, match="cache: implementation is unknown"):
        cache.pin("rms_norm", "evil")
    with pytest.raises(dlblas.Error, match="config"):
        cache.forbid("rms_norm", "cpu_baseline", "evil=1")
    with pytest.raises(dlblas.Error, match="cache: key is not in the store"):
        cache.pin("rms_norm", "cpu_baseline", key="0" * 16)
    with pytest.raises(dlblas.Error, match="line break"):
        cache.pin("rms_norm", "cpu_baseline\nx")


def test_bad_files_and_names_are_said_and_change_nothing(
    tuned: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """From the shell: the message says what is wrong with the file and what to do; the store is
    unchanged."""
    shell(tmp_path, "pin", "rms_norm", "reference")
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    file = tmp_path.parent / "export.txt"
    shell(tuned, "export", str(file))
    text = file.read_bytes()
    cases = {
        "there is none": None,
        "its end is missing": text[:-1],
        "it was changed or cut": text.replace(b"rms_norm", b"rms_mron", 1),
        "another version": sealed(text[:-72].decode().replace("export 1", "export 2", 1)).encode(),
        "unknown_line": sealed("dlblas-export 1\nrecord 0\n" + " " * 80 + "\n").encode(),
    }
    for words, content in cases.items():
        bad = tmp_path.parent / "bad.txt"
        bad.unlink(missing_ok=True)
        if content is not None:
            bad.write_bytes(content)
        said = shell(tmp_path, "import", str(bad), code=2)
        assert words in said and said.endswith("`dlblas cache export`, and copy all of it\n"), said
    for words in (
        ("import", str(tmp_path)), ("import", ""), ("merge", str(file)), ("merge", "/nowhere"),
        ("export", str(tmp_path)), ("export", "/nowhere/x"), ("show", "zz"), ("pin", "x", "y"),
        ("pin", "rms_norm", "y"), ("forbid", "rms_norm", "reference", "y=1"),
        ("pin", "rms_norm", "reference", "--key", "zz"), ("unpin", "y"),
    ):  # fmt: skip
        said = shell(tmp_path, *words, code=2)
        assert said.count("\n") == 1 and "; expected " in said, said
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_an_export_replaces_regular_files_alone(
    tuned: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's name has little room
    kept = tmp_path / "kept"
    kept.write_text("mine")
    (tmp_path / "folder").mkdir()
    os.mkfifo("fifo")
    for link, target in (("link", "kept"), ("dangling", "nothing"), ("folder_link", "folder")):
        os.symlink(target, link)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("socket")
    before = {n: (os.lstat(n).st_ino, os.lstat(n).st_mode) for n in os.listdir()}
    for name, kind in {
        "fifo": "a FIFO", "socket": "a socket", "folder": "a folder", "link": "a symbolic link",
        "dangling": "a symbolic link", "folder_link": "a symbolic link",
    }.items():  # fmt: skip
        said = shell(tuned, "export", name, code=2)
        assert said.startswith("cache: path is there and is no regular file; expected")
        assert f"got {tmp_path / name} ({kind}); give the name of a new or a regular file" in said
    for name in (".", "..", "folder/", "new/"):
        said = shell(tuned, "export", name, code=2)
        assert said.startswith("cache: path names a folder; expected a new name, or a regular")
        assert os.path.normpath(tmp_path / name) in said and "No such file" not in said, said
    listener.close()
    assert before == {n: (os.lstat(n).st_ino, os.lstat(n).st_mode) for n in os.listdir()}
    assert kept.read_text() == "mine" and not os.listdir("folder")
    assert ask(tuned, "export", "kept")["records"] == 1, "a regular file is replaced"
    assert kept.read_text().startswith("dlblas-export 1\n")
    assert ask(tuned, "export", "folder_link/new")["records"] == 1, "a folder may be a link's"


def test_bytes_that_are_no_text_are_names_of_files_too(tuned: pathlib.Path) -> None:
    odd = os.fsdecode(bytes(tuned.parent) + b"/o\xffdd")
    assert "1 record in " in shell(tuned, "export", odd)
    store = pathlib.Path(odd + "-store")
    assert ask(store, "import", odd)["imported"] == 1
    assert "imported" in shell(store, "merge", str(tuned), "--json")
    assert shell(store, "path").endswith("-store/v1\n")
    assert "is unknown" in shell(store, "pin", "rms_norm", "\udcff", code=2)
    assert "operator is unknown" in run(store, "-m", "dlblas", "explain", "\udcff", code=2)


def test_what_another_device_measured_is_kept_and_not_served(
    tuned: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Importing another machine's export is not an error: its records have other keys."""
    file, here = tmp_path / "theirs.txt", tmp_path / "here"
    shell(tuned, "export", str(file))
    head, count, length, rest = file.read_text().split("\n", 3)
    record = rest[: int(length.split()[1])]
    model = next(line for line in record.splitlines() if line.startswith("key.device.model"))
    theirs = sealed(record[:-72].replace(model, "key.device.model another", 1))
    size = len(theirs.encode())
    file.write_text(sealed(f"{head}\nrecords 1\nrecord {size}\n{theirs}"))
    assert count == "records 1" and ask(here, "import", str(file))["imported"] == 1
    assert ask(here, "ls")[0]["key"]["device.model"] == "another"
    assert explained(here)["source"] != "store"


def stamped(tuned: pathlib.Path, file: pathlib.Path, stamp: int) -> None:
    """An export of the tuned store with all candidates stamped with the same time."""
    shell(tuned, "export", str(file))
    head, count, length, rest = file.read_text().split("\n", 3)
    assert count == "records 1"
    body = rest[: int(length.split()[1])][:-72]
    record = sealed(re.sub(r"measured_at \d+", f"measured_at {stamp}", body))
    file.write_text(sealed(f"{head}\n{count}\nrecord {len(record.encode())}\n{record}"))


def test_a_time_that_no_run_can_follow_is_refused(
    tuned: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    file, here = tmp_path / "far.txt", tmp_path / "here"
    for stamp in ((1 << 63) - 1, 9_200_000_000_000_000_001):
        stamped(tuned, file, stamp)
        value = ask(here, "import", str(file), code=1)
        assert value["refused"] == ["record 1: number"] and value["imported"] == 0
    assert ask(here, "ls") == []


def test_records_without_a_time_come_in_once(tuned: pathlib.Path, tmp_path: pathlib.Path) -> None:
    file, here = tmp_path / "none.txt", tmp_path / "here"
    stamped(tuned, file, 0)
    assert ask(here, "import", str(file))["imported"] == 1
    for _ in range(2):
        value = ask(here, "import", str(file))
        assert (value["imported"], value["known"]) == (0, 1)
    assert ask(here, "ls")[0]["records"] == 1
    # They carry no time: a record that has one is newer, and after it nothing in them is new.
    assert ask(here, "merge", str(tuned))["imported"] == 1
    (key,) = ask(tuned, "ls")
    theirs = [c["measured_at"] for c in ask(tuned, "show", key["hash"])["candidates"]]
    assert [c["measured_at"] for c in ask(here, "show", key["hash"])["candidates"]] == theirs
    assert ask(here, "import", str(file))["known"] == 1
    shell(here, "compact")
    assert ask(here, "import", str(file))["known"] == 1


def test_forbidden_is_never_chosen_nor_measured(
    tuned: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    ask(tmp_path, "merge", str(tuned))
    winner = explained(tmp_path)["implementation"]
    shell(tmp_path, "forbid", "rms_norm", winner)
    found = explained(tmp_path)
    assert found["implementation"] != winner
    assert "forbidden for this operator" in row(found, winner)["reason"]
    report = run(tmp_path, "-c", ASK + "print(dlblas.tune('rms_norm', (x, w), seconds=0.2))")
    assert explained(tmp_path)["implementation"] != winner, report
    assert ask(tmp_path, "rules")[0]["kind"] == "forbid"
    shell(tmp_path, "allow", "rms_norm", winner)
    assert row(explained(tmp_path), winner)["supports"]
    assert "there was none" in shell(tmp_path, "allow", "rms_norm", winner, code=1)


def test_one_configuration_is_forbidden(tuned: pathlib.Path, tmp_path: pathlib.Path) -> None:
    ask(tmp_path, "merge", str(tuned))
    found = explained(tmp_path)
    shell(tmp_path, "forbid", "rms_norm", found["implementation"], found["config"])
    after = explained(tmp_path)
    assert (after["implementation"], after["config"]) != (found["implementation"], found["config"])
    assert row(after, found["implementation"])["supports"]
    # The other implementations' defaults are measured beside it for comparison; their text may be
    # equal.
    measure = "report = dlblas.tune('rms_norm', (x, w), implementations=[%r], seconds=0.3)"
    tell = "; print(json.dumps([(e['implementation'], e['config']) for e in report['evaluated']]))"
    said = run(tmp_path, "-c", ASK + measure % found["implementation"] + tell)
    measured = json.loads(said.splitlines()[0])
    assert measured and [found["implementation"], found["config"]] not in measured


def forbid_defaults(cache: pathlib.Path) -> dict[str, str]:
    """Forbids each implementation's default configuration as `explain` shows it for an empty store;
    returns them by implementation."""
    rows = explained(cache)["candidates"]
    found = {r["implementation"]: r["config"] for r in rows if r["supports"]}
    del found["reference"]
    for name, config in found.items():
        shell(cache, "forbid", "rms_norm", name, config)
    return found


def test_the_first_allowed_configuration_stands_for_a_forbidden_default(
    tmp_path: pathlib.Path,
) -> None:
    defaults = forbid_defaults(tmp_path)
    found = explained(tmp_path)
    chosen = found["implementation"]
    assert chosen != "reference" and "no fast" not in found["why"]
    for name, config in defaults.items():
        assert row(found, name)["config"] != config
    run(tmp_path, "-c", f"{ASK}dlblas.pin('rms_norm', '{chosen}'); dlblas.rms_norm(x, w)")
    pin = f"dlblas.pin('rms_norm', '{chosen}', '{defaults[chosen]}'); dlblas.rms_norm(x, w)"
    said = run(tmp_path, "-c", ASK + pin, code=1)
    assert f"{defaults[chosen]} is forbidden, by `dlblas cache forbid`" in said


def test_what_the_store_holds_is_served_where_no_default_may_be(
    tuned: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    forbid_defaults(tmp_path)
    shell(tmp_path, "forbid", "rms_norm", "reference")
    ask(tmp_path, "merge", str(tuned))
    found = explained(tmp_path)
    assert found["source"] == "store" and found["implementation"] != "reference", found
    run(tmp_path, "-c", ASK + "dlblas.rms_norm(x, w)")


def test_a_pin_holds_in_new_processes_and_says_so(
    tuned: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    ask(tmp_path, "merge", str(tuned))
    shell(tmp_path, "pin", "rms_norm", "reference")
    found = explained(tmp_path)
    assert (found["implementation"], found["source"]) == ("reference", "pinned")
    assert "pinned for good" in found["why"] and "operator" in found["why"]
    key = ask(tmp_path, "ls")[0]["hash"][:12]
    shell(tmp_path, "pin", "rms_norm", "cpu_baseline", "--key", key)
    found = explained(tmp_path)
    assert found["implementation"] == "cpu_baseline" and "this problem" in found["why"]
    shell(tmp_path, "forbid", "rms_norm", "cpu_baseline")
    found = explained(tmp_path)
    assert (found["implementation"], found["source"]) == ("reference", "pinned")
    assert "for this operator; the kept pin of cpu_baseline is passed over" in found["why"]
    shell(tmp_path, "unpin", "rms_norm", "--key", key)
    assert explained(tmp_path)["implementation"] == "reference"
    shell(tmp_path, "clear", "--yes")
    assert explained(tmp_path)["implementation"] == "reference", "rules outlive a clear"
    shell(tmp_path, "unpin", "rms_norm")
    assert explained(tmp_path)["source"] != "pinned"


def test_a_rule_of_a_key_is_lifted_after_the_key_is_gone(
    tuned: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    ask(tmp_path, "merge", str(tuned))
    (entry,) = ask(tmp_path, "ls")
    key = entry["hash"]
    shell(tmp_path, "pin", "rms_norm", "reference", "--key", key[:12])
    shell(tmp_path, "forbid", "rms_norm", "cpu_baseline", "--key", key)
    shell(tmp_path, "clear", "--yes")
    assert explained(tmp_path)["implementation"] == "reference"
    said = shell(tmp_path, "unpin", "matmul", "--key", key, code=2)
    assert "cache: key is another operator's; expected a key of matmul, got one of rms_norm" in said
    said = shell(tmp_path, "pin", "rms_norm", "reference", "--key", key, code=2)
    assert "cache: key is not in the store" in said, "what is decided anew names a key in the store"
    shell(tmp_path, "unpin", "rms_norm", "--key", key)
    shell(tmp_path, "allow", "rms_norm", "cpu_baseline", "--key", key[:12])
    assert ask(tmp_path, "rules") == []
    assert explained(tmp_path)["source"] != "pinned"
    said = shell(tmp_path, "unpin", "rms_norm", "--key", key, code=2)
    assert "cache: key is of no record and no rule; expected a hash, or a prefix" in said


def test_a_prefix_of_two_keys_lifts_nothing(tuned: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """One key is in the store; the other, named only by a rule, begins with the same letters."""
    ask(tmp_path, "merge", str(tuned))
    (entry,) = ask(tmp_path, "ls")
    key = entry["hash"]
    shell(tmp_path, "pin", "rms_norm", "reference", "--key", key)
    (file,) = (tmp_path / "v1" / "rules").iterdir()
    other = key[:20] + ("0" if key[20] != "0" else "1") + key[21:]
    name = hashlib.sha256(f"rms_norm\n{other}\n\n\n".encode()).hexdigest()
    twin = file.with_name(f"pin-{name}")
    twin.write_text(sealed(file.read_text()[:-72].replace(key, other)))
    twin.chmod(0o600)
    assert {r["key"] for r in ask(tmp_path, "rules")} == {key, other}
    said = shell(tmp_path, "unpin", "rms_norm", "--key", key[:20], code=2)
    assert "cache: key stands for several; expected a hash, or a prefix that only one" in said
    assert len(ask(tmp_path, "rules")) == 2
    shell(tmp_path, "unpin", "rms_norm", "--key", other)
    shell(tmp_path, "unpin", "rms_norm", "--key", key[:20])
    assert ask(tmp_path, "rules") == []


@pytest.mark.parametrize("verb", ["pin", "forbid", "unpin", "allow"])
def test_an_empty_key_is_refused(verb: str, tmp_path: pathlib.Path) -> None:
    """For example from an unset shell variable: the decision would hold for every problem."""
    import dlblas
    from dlblas import _native, cache

    shell(tmp_path, "forbid", "rms_norm", "cpu_baseline")
    before = ask(tmp_path, "rules")
    words = ("rms_norm",) if verb == "unpin" else ("rms_norm", "cpu_baseline")
    said = shell(tmp_path, verb, *words, "--key", "", code=2)
    assert said.startswith("cache: key is empty; expected a hash, or a prefix"), said
    assert "leave it out for every problem" in said and said.count("\n") == 1
    assert ask(tmp_path, "rules") == before
    with pytest.raises(dlblas.Error, match="cache: key is empty"):
        getattr(cache, verb)(*words, key="")
    with pytest.raises(dlblas.Error, match="cache: key is empty"):
        _native.cache_command("\n".join([verb, "rms_norm", "cpu_baseline", "", ""]))


@pytest.mark.parametrize("verb", ["forbid", "allow"])
def test_an_empty_configuration_is_refused(verb: str, tmp_path: pathlib.Path) -> None:
    """The decision would hold for every configuration."""
    said = shell(tmp_path, verb, "rms_norm", "cpu_baseline", "", code=2)
    assert said.startswith("cache: config is empty; expected one configuration"), said
    assert "leave it out for every configuration" in said and said.count("\n") == 1
    assert ask(tmp_path, "rules") == []


def test_rules_of_an_operator_that_is_not_here_are_lifted(tmp_path: pathlib.Path) -> None:
    """A user's operator whose module this process does not import."""
    own = "import dlblas; from dlblas import cache; dlblas.register_operator('leaky(x: f[*T, C]) -> y: like(x)[*T, C] where T: bucket(tokens)', lambda x: x); "  # noqa: E501
    run(tmp_path, "-c", own + "cache.pin('leaky', 'reference')")
    assert [r["op"] for r in ask(tmp_path, "rules")] == ["leaky"]
    assert "leaky: operator is unknown" in shell(tmp_path, "forbid", "leaky", "reference", code=2)
    shell(tmp_path, "unpin", "leaky")
    assert ask(tmp_path, "rules") == []
    assert "leaky: operator is unknown" in shell(tmp_path, "unpin", "leaky", code=2)


def test_lifting_nothing_exits_as_the_table_says(tmp_path: pathlib.Path) -> None:
    page = pathlib.Path(__file__).resolve().parents[1] / "docs" / "cli.md"
    (failed,) = [line for line in page.read_text().splitlines() if line.startswith("| 1 |")]
    for words in (("unpin", "rms_norm"), ("allow", "rms_norm", "reference")):
        said = shell(tmp_path, *words, code=1)
        assert "there was none" in said and f"`cache {words[0]}`" in failed


def test_a_broken_rule_is_said(tuned: pathlib.Path, tmp_path: pathlib.Path) -> None:
    shell(tmp_path, "pin", "rms_norm", "reference")
    (file,) = (tmp_path / "v1" / "rules").iterdir()
    file.write_bytes(file.read_bytes().replace(b"reference", b"cpu_avx29"))
    file.chmod(0o600)
    found = explained(tmp_path)
    assert found["source"] != "pinned"
    assert "is no rule" in run(tmp_path, "-c", EXPLAIN)
    assert ask(tmp_path, "verify", code=1)["bad_rules"] == 1


def test_verify_sets_damaged_rules_aside(tmp_path: pathlib.Path) -> None:
    """As it does with damaged records: the next verify finds nothing wrong, and clear removes
    them."""
    shell(tmp_path, "pin", "rms_norm", "reference")
    rules = tmp_path / "v1" / "rules"
    (good,) = rules.iterdir()
    shell(tmp_path, "forbid", "rms_norm", "cpu_baseline")
    (cut,) = (p for p in rules.iterdir() if p != good)
    cut.write_bytes(cut.read_bytes()[:-1])
    (rules / "notes.txt").write_text("junk")
    (rules / "copy").write_bytes(good.read_bytes())
    (rules / "link").symlink_to(good)
    for file in rules.iterdir():
        file.chmod(0o600)
    listed = "notes.txt is no rule"
    assert listed in shell(tmp_path, "rules") and len(list(rules.iterdir())) == 5
    assert ask(tmp_path, "verify", code=1)["bad_rules"] == 4
    assert list(rules.iterdir()) == [good]
    assert sorted(p.name for p in (tmp_path / "v1" / "quarantine").iterdir()) == sorted(
        f"rule-{name}" for name in (f"{cut.name}.digest", "notes.txt.digest", "copy.name",
                                    "link.not_regular")
    )  # fmt: skip
    assert ask(tmp_path, "verify")["bad_rules"] == 0
    assert "is no rule" not in shell(tmp_path, "rules")
    assert explained(tmp_path)["implementation"] == "reference"
    assert ask(tmp_path, "clear", "--yes")["removed"] == 4
    assert explained(tmp_path)["implementation"] == "reference"


def test_compact_keeps_what_is_known(tuned: pathlib.Path, tmp_path: pathlib.Path) -> None:
    ask(tmp_path, "merge", str(tuned))
    before = explained(tmp_path)
    value = ask(tmp_path, "compact")
    assert value["failed"] == 0 and value["keys"] == 1
    after = explained(tmp_path)
    assert (after["implementation"], after["config"]) == (
        before["implementation"],
        before["config"],
    )
