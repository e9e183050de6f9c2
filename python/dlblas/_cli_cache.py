"""``dlblas cache``: lists and maintains the store, with text or JSON output.

Each action takes its parsed options and returns a value for JSON, a text, and an exit code. Read
next: cache.py, cli.py.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from . import _native, _options, cache
from ._cli_show import FAILED, OK, print_json
from ._streams import complain
from ._text import columns, counted, harmless, microseconds

_MAX_CELL = 200  # characters of a field of a record: what is imported may hold anything
_MAX_LINES = 20  # refused records that are shown
Shown = tuple[Any, str, int]


def _ls(args: argparse.Namespace) -> Shown:
    keys = cache.ls()
    rows = [
        [
            k["hash"][:12],
            k["key"].get("op", ""),
            k["key"].get("dims", ""),
            k["key"].get("tensors", ""),
            counted(k["rows"], "candidate"),
            counted(k["records"], "record"),
        ]
        for k in keys
    ]
    text = columns(rows, indent="", most=_MAX_CELL) if rows else "the store is empty"
    return keys, text, OK


def _failed(candidate: dict[str, Any]) -> str:
    words = f": {candidate['note']}" if candidate["note"] else ""
    return f"failed: {candidate['failure']}{words}"


def _show(args: argparse.Namespace) -> Shown:
    result = cache.show(args.key)
    rows = []
    known = [c for c in result["candidates"] if c["samples_ms"]]
    failed = [c for c in result["candidates"] if not c["samples_ms"]]
    for c in sorted(known, key=lambda c: min(c["samples_ms"])):
        rows.append(
            [
                microseconds(min(c["samples_ms"])),
                f"{len(c['samples_ms'])} samples",
                c["implementation"],
                c["config"],
            ]
        )
    rows += [["-", _failed(c), c["implementation"], c["config"]] for c in failed]
    newest = max(result["candidates"], key=lambda c: c["measured_at"])
    if "chosen" in newest["env"]:  # of a ConfigCache: a search's winner, or what was set by hand
        rows.append(["", "chosen", "", newest["env"]["chosen"]])
    fields = [[name, value] for name, value in result["key"].items()]
    table = "\n" + columns(rows, most=_MAX_CELL) if rows else ""
    return result, columns(fields, most=_MAX_CELL) + table, OK


def _verify(args: argparse.Namespace) -> Shown:
    value = cache.verify()
    bad = value["bad"] + value["bad_cubins"] + value["bad_rules"]
    text = f"{value['good']} good, {value['bad']} bad (set aside)"
    if value["good_cubins"] or value["bad_cubins"]:
        text += f"; compiled kernels: {value['good_cubins']} good, {value['bad_cubins']} bad"
    if value["bad_rules"]:
        text += f"; rules: {value['bad_rules']} bad"
    return value, text, FAILED if bad else OK


def _agreed() -> bool:
    """Whether the person at the terminal answers yes."""
    keys = len(cache.ls())
    print(
        f"clear {keys} keys and every compiled kernel in {harmless(cache.path())}? [y/N] ",
        end="", file=sys.stderr, flush=True,
    )  # fmt: skip
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _clear(args: argparse.Namespace) -> Shown:
    if not args.yes:
        if not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
            raise _options.refuse(
                "cache", "clear", "would remove everything", "--yes, where there is no terminal",
                "none", "write dlblas cache clear --yes",
            )  # fmt: skip
        if not _agreed():
            return {"removed": 0}, "nothing removed", FAILED
    removed = cache.clear()
    return {"removed": removed}, f"{removed} removed", OK


def _rm(args: argparse.Namespace) -> Shown:
    value = cache.rm(args.key, op=args.op)
    keys, records = counted(value["keys"], "key"), counted(value["removed"], "record")
    return value, f"{keys}, {records} removed", OK


def _compact(args: argparse.Namespace) -> Shown:
    value = cache.compact()
    text = f"{counted(value['keys'], 'key')}, {counted(value['records'], 'record')} now"
    if value["failed"]:
        failed = counted(value["failed"], "key")
        text += f"; {failed} as they were: another process is at it, or a full disk"
    return value, text, FAILED if value["failed"] else OK


def _export(args: argparse.Namespace) -> Shown:
    records = cache.export(args.file)
    return {"records": records}, f"{counted(records, 'record')} in {harmless(args.file)}", OK


def _came_in(value: dict[str, Any]) -> Shown:
    refused = value["refused"]
    lines = [f"{value['imported']} new, {value['known']} known, {len(refused)} refused"]
    lines += [f"  {harmless(line)}" for line in refused[:_MAX_LINES]]
    if len(refused) > _MAX_LINES:
        lines.append(f"  … and {len(refused) - _MAX_LINES} more; --json has them")
    return value, "\n".join(lines), FAILED if refused else OK


def _import(args: argparse.Namespace) -> Shown:
    return _came_in(cache.import_file(args.file))


def _merge(args: argparse.Namespace) -> Shown:
    return _came_in(cache.merge(args.folder))


def _pin(args: argparse.Namespace) -> Shown:
    cache.pin(args.op, args.implementation, args.config, key=args.key)
    return {"kept": True}, f"{args.op}: {args.implementation} is pinned", OK


def _forbid(args: argparse.Namespace) -> Shown:
    cache.forbid(args.op, args.implementation, args.config, key=args.key)
    return {"kept": True}, f"{args.op}: {args.implementation} is forbidden", OK


def _lifted(lifted: bool, what: str) -> Shown:
    text = f"{what} is lifted" if lifted else f"{what}: there was none; see dlblas cache rules"
    return {"lifted": lifted}, text, OK if lifted else FAILED


def _unpin(args: argparse.Namespace) -> Shown:
    return _lifted(cache.unpin(args.op, key=args.key), f"the pin of {args.op}")


def _allow(args: argparse.Namespace) -> Shown:
    lifted = cache.allow(args.op, args.implementation, args.config, key=args.key)
    return _lifted(lifted, f"the rule that forbids {args.implementation} for {args.op}")


def _rules(args: argparse.Namespace) -> Shown:
    rules = cache.rules()
    rows = [
        [
            r["kind"],
            r["op"],
            f"key {r['key'][:12]}" if r["key"] else "every problem",
            r["implementation"],
            r["config"] or ("default" if r["kind"] == "pin" else "every configuration"),
        ]
        for r in rules
    ]
    text = columns(rows, indent="", most=_MAX_CELL) if rows else "nothing is pinned or forbidden"
    return rules, text, OK


def _path(args: argparse.Namespace) -> Shown:
    reason = _native.info()["cache"]["memory_only_because"]
    where = "" if reason else cache.path()
    if not where:
        complain(f"dlblas cache: the store is in memory only: {harmless(reason)}")
    value = {"path": where, "memory_only_because": reason}
    return value, where, OK if where else FAILED


class _Action(NamedTuple):
    run: Callable[[argparse.Namespace], Shown]
    text: str
    words: tuple[str, ...] = ()


_WORDS = {
    "key": "its hash, or a prefix that only one key has",
    "file": "a file",
    "folder": "a cache folder, or the v1 in it",
    "op": "an operator",
    "implementation": "one of its implementations",
    "config": "one configuration, as 'block_m=64 order=kmn' (default: see above)",
}
ACTIONS = {
    "ls": _Action(_ls, "keys"),
    "show": _Action(_show, "every candidate of a key", ("key",)),
    "verify": _Action(_verify, "read every file strictly; 1 when one is bad"),
    "compact": _Action(_compact, "rewrite every key's records as few"),
    "export": _Action(_export, "write every record into one file", ("file",)),
    "import": _Action(_import, "take the records of an export; 1 when one is refused", ("file",)),
    "merge": _Action(_merge, "take the records of another store's folder", ("folder",)),
    "pin": _Action(
        _pin,
        "serve OP with this implementation in every process; with its default configuration",
        ("op", "implementation", "config"),
    ),
    "unpin": _Action(_unpin, "lift the pin of OP", ("op",)),
    "forbid": _Action(
        _forbid,
        "never choose or measure this implementation of OP; every configuration",
        ("op", "implementation", "config"),
    ),
    "allow": _Action(_allow, "lift the same forbid", ("op", "implementation", "config")),
    "rules": _Action(_rules, "what is pinned and forbidden"),
    "rm": _Action(_rm, "remove the records of a key, or of --op NAME", ("key",)),
    "clear": _Action(_clear, "remove all records and compiled kernels, not the rules; asks first"),
    "path": _Action(_path, "the folder in use"),
}
RULED = ("pin", "unpin", "forbid", "allow")


def options(action: argparse.ArgumentParser, name: str) -> None:
    """Adds the arguments of one action."""
    for word in ACTIONS[name].words:
        nargs = "?" if word == "config" or name == "rm" else None
        action.add_argument(word, nargs=nargs, help=_WORDS[word])
    if name == "rm":
        action.add_argument("--op", help="every key of this operator")
    if name == "clear":
        action.add_argument("--yes", action="store_true", help="do not ask")
    if name in RULED:
        action.add_argument("--key", help="for this key alone, from dlblas cache ls or rules")


def command(args: argparse.Namespace) -> int:
    value, text, code = ACTIONS[args.action].run(args)
    if args.json:
        print_json(value)
    elif text:
        print(text)
    return code
