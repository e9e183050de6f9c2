"""A store shared with another build of the library or another user; a full disk, a clock that goes
back. Only a user's own results are served, and no search ends in an error.

The battery (tests/store_battery) tests each fault of the files alone; here whole processes search.
Read next: docs/store.md, worker_children.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from worker_children import PACKAGE, child, run

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for files of other users")
NOBODY, STRANGER = 65534, 65533

# Tunes rms_norm for some widths, and prints what it measured, what serves, and the result's source.
SEARCH = """
    import json, os, sys
    import dlblas, numpy as np
    uid = {uid}
    if uid:
        os.setgroups([]); os.setgid(uid); os.setuid(uid)
    told = []
    for width in {widths}:
        x, w = np.ones((4, width), "f"), np.ones(width, "f")
        report = dlblas.get_op("rms_norm", (x, w), seconds={seconds}, worker=False).report
        y = dlblas.rms_norm(x, w)
        served = dlblas.explain("rms_norm", x, w).as_dict()
        told.append(dict(width=width, source=report["source"], winner=report["winner"],
                         served=[served["implementation"], served["config"]],
                         right=bool(dlblas.verify("rms_norm", (x, w), y).ok)))
    print(json.dumps(dict(told=told, measured=dlblas.counters()["measured"])))
"""


def search(widths: list[int], seconds: float = 0.3, uid: int = 0) -> str:
    return SEARCH.format(widths=widths, seconds=seconds, uid=uid)


def answer(process: subprocess.Popen[str]) -> Any:
    out, err = process.communicate(timeout=480)
    assert process.returncode == 0, err
    return json.loads(out.splitlines()[-1])


def sources(cache: pathlib.Path) -> set[str]:
    """The source hashes in all records."""
    texts = [path.read_bytes() for path in (cache / "v1" / "results").glob("*/*")]
    found = {m.decode() for text in texts for m in re.findall(rb"source_hash ([0-9a-f]{16})", text)}
    return found


@pytest.fixture(scope="module")
def another_build(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The package with other source hashes: every hexadecimal digit differs."""
    folder = tmp_path_factory.mktemp("another")
    shutil.copytree(PACKAGE / "dlblas", folder / "dlblas")
    run(search([64]), folder / "store")
    library = next((folder / "dlblas").rglob("libdlblas.so"))
    content = library.read_bytes()
    for source in sources(folder / "store"):
        assert content.count(source.encode()) >= 1
        other = "".join(f"{15 - int(digit, 16):x}" for digit in source)
        content = content.replace(source.encode(), other.encode())
    library.write_bytes(content)
    return folder


def test_two_builds_share_a_store(
    another_build: pathlib.Path, tmp_path: pathlib.Path, attacked: Callable[..., None]
) -> None:
    """Both search the same keys at once. Afterwards each has its own results and measures none of
    them again, even after the other one has compacted."""
    widths = [96 + 32 * i for i in range(6)]
    builds = [str(PACKAGE), str(another_build)]
    both = [child(search(widths), tmp_path, PYTHONPATH=path) for path in builds]
    first = [answer(process) for process in both]
    assert all(row["source"] == "tuned" for told in first for row in told["told"]), first
    assert len(sources(tmp_path)) == 2 * len(sources(another_build / "store"))
    compact = "import json, dlblas; print(json.dumps(dlblas.cache.compact()))"
    broke = 0
    for turn in range(2):
        for before, path in zip(first, builds, strict=True):
            now, _ = run(search(widths), tmp_path, PYTHONPATH=path)
            broke += now["measured"]
            for was, row in zip(before["told"], now["told"], strict=True):
                served = [was["winner"]["implementation"], was["winner"]["config"]]
                broke += row["source"] != "store" or row["served"] != served or not row["right"]
        if turn == 0:
            done, _ = run(compact, tmp_path, PYTHONPATH=builds[1])
            assert done["failed"] == 0
    attacked("two builds that share a store", 4 * len(widths), broke)


def make_foreign(root: pathlib.Path, kind: str) -> None:
    """Gives a store that root has filled the state ``kind``, in which another user finds it."""
    results = root / "v1" / "results"
    if kind == "closed":
        return
    for path in [root, *root.rglob("*")]:
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    record = next(results.glob("*/*"))
    if kind == "file of a stranger":
        os.chown(record, STRANGER, STRANGER)
    elif kind == "folder of a stranger":
        os.chown(results, STRANGER, STRANGER)
        results.chmod(0o777)
    elif kind == "unreadable":
        record.chmod(0)
    elif kind == "unwritable":
        for path in [*results.rglob("*"), results, root / "v1", root]:
            path.chmod(0o500 if path.is_dir() else 0o400)
    elif kind == "link to a record":
        moved = root / "moved"
        record.rename(moved)
        os.symlink(moved, record)
    elif kind == "link to a folder":
        results.rename(root / "moved")
        os.symlink(root / "moved", results)


SERVED = {"unwritable"}  # its owner's files are good


@AS_ROOT
@pytest.mark.parametrize(
    "kind",
    [
        "closed", "file of a stranger", "folder of a stranger", "unreadable", "unwritable",
        "link to a record", "link to a folder",
    ],
)  # fmt: skip
def test_another_user_searches_in_it(kind: str, attacked: Callable[..., None]) -> None:
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dlblas-shared-"))
    folder.chmod(0o755)  # pytest's own folders are root's alone
    try:
        root = folder / "store"
        run(search([64]), root)
        make_foreign(root, kind)
        before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
        told, _ = run(search([64], uid=NOBODY), root)
        (row,) = told["told"]
        assert row["right"]
        broke = row["source"] != ("store" if kind in SERVED else "tuned")
        for path, content in before.items():
            where = root / "moved" if "link" in kind and not path.exists() else path
            aside = list(root.rglob("quarantine/*"))
            kept = where.exists() and where.read_bytes() == content
            broke |= not kept and not any(a.read_bytes() == content for a in aside)
        attacked("another user's store, by whole searches", 1, int(broke))
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def meanwhile(act: Callable[[int], None]) -> Iterator[None]:
    stop = threading.Event()

    def go_on() -> None:
        turn = 0
        while not stop.is_set():
            with contextlib.suppress(OSError):
                act(turn)
            turn += 1
            time.sleep(0.002)

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@AS_ROOT
@pytest.mark.parametrize("kind", ["owners", "modes", "links"])
def test_a_store_that_changes_hands_during_searches(
    kind: str, attacked: Callable[..., None]
) -> None:
    """The owners, modes or links of its folders change hundreds of times while another user and
    root search. Both searches end, with right results."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dlblas-hands-"))
    folder.chmod(0o777)
    dear = folder / "dear"
    dear.mkdir()
    (dear / "letter").write_text("dear")
    try:
        root = folder / "store"
        run(search([64]), root)

        def act(turn: int) -> None:
            results = root / "v1" / "results"
            if kind == "owners":
                for path in (root, root / "v1", results):
                    os.chown(path, *[(0, 0), (NOBODY, NOBODY), (STRANGER, STRANGER)][turn % 3])
            elif kind == "modes":
                results.chmod([0o700, 0o777, 0o000][turn % 3])
            elif turn % 2:
                results.rename(root / "v1" / "aside")
                results.symlink_to(dear)
            else:
                results.unlink()
                (root / "v1" / "aside").rename(results)

        widths = [64, 96, 128, 160]
        with meanwhile(act):
            both = [child(search(widths, uid=uid), root) for uid in (0, NOBODY)]
            told = [answer(process) for process in both]
        broke = sum(not row["right"] for one in told for row in one["told"])
        broke += [path.name for path in dear.iterdir()] != ["letter"]
        attacked("a store that changes hands during searches", 2 * len(widths), broke)
    finally:
        shutil.rmtree(folder)


FULL = """
    import json, os, pathlib
    import dlblas, numpy as np
    root = pathlib.Path(os.environ["DLBLAS_CACHE"])
    def fill(event):
        if event.kind == "measured" and not (root / "filler").exists():
            with open(root / "filler", "wb", buffering=0) as file:
                try:
                    while True: file.write(bytes(4096))
                except OSError: pass
        return None
    def tune(width, progress=None):
        x, w = np.ones((4, width), "f"), np.ones(width, "f")
        report = dlblas.get_op(
            "rms_norm", (x, w), seconds=0.5, worker=False, progress=progress).report
        assert dlblas.verify("rms_norm", (x, w), dlblas.rms_norm(x, w)).ok
        return report["source"]
    told = [tune(64), tune(96, fill), tune(64)]
    left = sorted(p.name for p in root.rglob("*") if p.is_file() and p.name != "filler")
    (root / "filler").unlink()
    told += [tune(96), tune(96), tune(64)]
    print(json.dumps(dict(told=told, leftovers=[n for n in left if len(n) != 64],
                          bad=dlblas.cache.verify()["bad"])))
"""


@AS_ROOT
def test_a_disk_that_fills_up_during_a_search(
    tmp_path: pathlib.Path, attacked: Callable[..., None]
) -> None:
    """The search goes on, earlier records are served, and the next search stores again."""
    mount = f"mount -t tmpfs -o size=160k,mode=700 none {tmp_path}"
    if subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True).returncode:
        pytest.skip("no tmpfs may be mounted here")
    program = tmp_path.parent / "fills.py"
    program.write_text(textwrap.dedent(FULL))
    command = ["unshare", "-m", "sh", "-c", f'{mount} && exec "$0" {program}', sys.executable]
    told = answer(child(command, tmp_path))
    broke = told["told"] not in (
        ["tuned", "tuned", "store", "tuned", "store", "store"],
        ["tuned", "tuned", "store", "store", "store", "store"],  # it fitted beside the filler
    )
    attacked("a disk that fills up during a search", 6, int(broke or told["bad"] != 0))


BACK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
/* Each look at the wall clock is an hour before the last one; other clocks stay what they are. */
int clock_gettime(clockid_t clock, struct timespec* now) {
  static int (*real)(clockid_t, struct timespec*);
  static long looks;
  if (!real) real = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  const int code = real(clock, now);
  if (clock == CLOCK_REALTIME) now->tv_sec -= 3600 * __sync_add_and_fetch(&looks, 1);
  return code;
}
"""


def test_a_clock_that_goes_back(tmp_path: pathlib.Path, attacked: Callable[..., None]) -> None:
    """During a search and between searches: they end, and the latest measurement is served."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("no C compiler")
    source, library = tmp_path / "back.c", tmp_path / "back.so"
    source.write_text(BACK)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    widths = [64, 96, 128]
    store = tmp_path / "store"
    first, _ = run(search(widths), store, LD_PRELOAD=str(library))
    broke = sum(row["source"] != "tuned" or not row["right"] for row in first["told"])
    for preload in ("", str(library)):
        again, _ = run(search(widths), store, LD_PRELOAD=preload)
        broke += again["measured"] + sum(row["source"] != "store" for row in again["told"])
    forced = search([64]).replace("worker=False", "worker=False, force=True")
    run(forced, store, LD_PRELOAD=str(library))
    last, _ = run(search([64]), store)
    broke += last["measured"]
    attacked("a clock that goes back during and between searches", 3 * len(widths) + 1, broke)
