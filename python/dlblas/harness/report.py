"""What ran, by operator × implementation × dtype: run, mistrusted, skipped (with reasons), and left
out of a sample.

In: Outcomes, or their rows from other processes. Out: text (``table`` has every row; ``brief`` has
one line per operator, and the rows that failed or ran nothing), JSON, and what a complete run
lacks. Read next: tests/conftest.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from .cases import Registry
from .run import Outcome

_MAX_REASONS = 3
_MAX_NAMES = 4  # of what ran nothing for one reason


def _numbers(count: Counter[str]) -> str:
    words = ("failed", "mistrusted", "skipped", "left out")
    others = "".join(f", {count[word]} {word}" for word in words if count[word] or word == "failed")
    run = count["passed"] + count["failed"]
    return f"{run} run{others}, {count['configs']} configurations"


class Coverage:
    """Counts by (operator, implementation, dtype)."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str, str], Counter[str]] = {}
        self.reasons: dict[tuple[str, str, str], Counter[str]] = {}
        self.knobs: dict[
            tuple[str, str], set[str]
        ] = {}  # "knob=value" that ran, by operator and implementation

    def add(self, outcomes: Iterable[Outcome]) -> None:
        for o in outcomes:
            key = (o.case.op, o.implementation, o.case.dtype)
            self.counts.setdefault(key, Counter())[o.status] += 1
            self.counts[key]["configs"] += len(o.configs)
            if o.status == "skipped":
                self.reasons.setdefault(key, Counter())[o.reason] += 1
            for config in o.configs:
                self.knobs.setdefault(key[:2], set()).update(config.split())

    def skip(self, key: tuple[str, str, str], cases: int, reason: str) -> None:
        """Cases that were not tried, and why."""
        self.counts.setdefault(key, Counter())["skipped"] += cases
        self.reasons.setdefault(key, Counter())[reason] += cases

    def leave_out(self, key: tuple[str, str, str], cases: int) -> None:
        """Cases that a sample did not draw."""
        self.counts.setdefault(key, Counter())["left out"] += cases

    def pack(self) -> dict[str, Any]:
        """Plain values that can be passed to another process."""
        return {
            "counts": [[*key, dict(count)] for key, count in self.counts.items()],
            "reasons": [[*key, dict(count)] for key, count in self.reasons.items()],
            "knobs": [[*key, sorted(values)] for key, values in self.knobs.items()],
        }

    def merge(self, packed: dict[str, Any]) -> None:
        for op, implementation, dtype, count in packed["counts"]:
            self.counts.setdefault((op, implementation, dtype), Counter()).update(count)
        for op, implementation, dtype, count in packed["reasons"]:
            self.reasons.setdefault((op, implementation, dtype), Counter()).update(count)
        for op, implementation, values in packed["knobs"]:
            self.knobs.setdefault((op, implementation), set()).update(values)

    def total(self, *statuses: str) -> int:
        return sum(count[status] for count in self.counts.values() for status in statuses)

    @property
    def run(self) -> int:
        """Cases that were run and compared, which the coverage floor counts. Mistrusted ones prove
        nothing and do not count."""
        return self.total("passed", "failed")

    def silent(self, registry: Registry) -> list[str]:
        """Implementations that could run here but ran no case. They are excused if all refusals
        have the same reason, or if some reason lies in this machine."""
        missing = []
        for op in registry.operators:
            for impl in registry.implementations(op):
                keys = [key for key in self.counts if key[:2] == (op, impl["name"])]
                if any(self.counts[key][s] for key in keys for s in ("passed", "failed")):
                    continue
                reasons = {reason for key in keys for reason in self.reasons.get(key, ())}
                machine = any(w in r for r in reasons for w in ("this CPU", "DLBLAS_", "no GPU"))
                if len(reasons) != 1 and not machine:
                    missing.append(f"{op}/{impl['name']}")
        return missing

    def idle_knobs(self, registry: Registry) -> list[str]:
        """Knob values that no configuration used, for implementations that ran. Operators of a
        family share an implementation's knobs, so one operator suffices. With one thread nothing
        is reported: values that divide work among threads are in no search space there."""
        if registry.device["threads"] < 2:
            return []
        idle = []
        for op, facts in registry.operators.items():
            kin = [
                o for o, other in registry.operators.items() if other["family"] == facts["family"]
            ]
            for impl in registry.implementations(op):
                sampled = impl["backend"] == "cuda"  # each value is compiled: see configs.py
                if sampled or (op, impl["name"]) not in self.knobs:
                    continue
                ran = set().union(*(self.knobs.get((o, impl["name"]), set()) for o in kin))
                for knob in impl["knobs"]:
                    for value in knob["values"]:
                        text = f"{knob['name']}={int(value) if isinstance(value, bool) else value}"
                        if text not in ran:
                            idle.append(f"{op}/{impl['name']} {text}")
        return idle

    def summary(self) -> str:
        return _numbers(sum(self.counts.values(), Counter()))

    def brief(self) -> str:
        """One line per operator; then what failed and, grouped by reason, what ran nothing."""
        lines = []
        for op in sorted({key[0] for key in self.counts}):
            keys = [key for key in self.counts if key[0] == op]
            implementations, dtypes = len({key[1] for key in keys}), len({key[2] for key in keys})
            total = sum((self.counts[key] for key in keys), Counter[str]())
            lines.append(f"{op} ({implementations} × {dtypes}): {_numbers(total)}")
        failed = [key for key in sorted(self.counts) if self.counts[key]["failed"]]
        lines += [f"failed: {' '.join(key)}: {_numbers(self.counts[key])}" for key in failed]
        nothing: dict[str, list[str]] = {}
        for key in sorted(self.counts):
            if not self.counts[key]["passed"] and not self.counts[key]["failed"]:
                common = self.reasons.get(key, Counter({"mistrusted": 1})).most_common(1)
                nothing.setdefault(common[0][0], []).append("/".join(key))
        for reason, names in sorted(nothing.items(), key=lambda item: -len(item[1])):
            shown = ", ".join(names[:_MAX_NAMES])
            more = f", and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
            lines.append(f"nothing ran of {len(names)}: {reason}: {shown}{more}")
        return "\n".join(lines)

    def table(self) -> str:
        header = (
            "operator",
            "implementation",
            "dtype",
            "run",
            "failed",
            "mistrusted",
            "skipped",
            "configurations",
        )
        rows = [header]
        notes: dict[str, str] = {}
        for key in sorted(self.counts):
            count = self.counts[key]
            run = count["passed"] + count["failed"]
            numbers = (
                run,
                count["failed"],
                count["mistrusted"],
                count["skipped"],
                count["configs"],
            )
            rows.append((*key, *(str(n) for n in numbers)))  # type: ignore[arg-type]
            if key in self.reasons:
                common = self.reasons[key].most_common()
                more = len(common) - _MAX_REASONS
                text = "; ".join(f"{n} × {reason}" for reason, n in common[:_MAX_REASONS])
                notes[" ".join(key)] = text + (f"; and {more} more reasons" if more > 0 else "")
        widths = [max(len(row[c]) for row in rows) for c in range(len(header))]
        lines = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        if notes:
            lines += ["", "skipped:", *(f"  {key}: {text}" for key, text in notes.items())]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "failed": self.total("failed"),
            "mistrusted": self.total("mistrusted"),
            "skipped": self.total("skipped"),
            "left_out": self.total("left out"),
            "configurations": self.total("configs"),
            "rows": [
                {
                    "operator": op,
                    "implementation": implementation,
                    "dtype": dtype,
                    "run": count["passed"] + count["failed"],
                    "failed": count["failed"],
                    "mistrusted": count["mistrusted"],
                    "skipped": count["skipped"],
                    "left_out": count["left out"],
                    "configurations": count["configs"],
                    "reasons": dict(self.reasons.get((op, implementation, dtype), {})),
                }
                for (op, implementation, dtype), count in sorted(self.counts.items())
            ],
        }


def machine_line(registry: Registry) -> str:
    """The CPU, the instruction-set levels that this run could use, and the GPU."""
    device = registry.device
    levels = ["baseline", "avx2", "avx512"]
    ran = ", ".join(levels[: levels.index(device["isa"]) + 1])
    hardware, threads = device["isa_hardware"], device["threads"]
    gpu = f"no GPU: {registry.why_no_cuda}" if registry.why_no_cuda else "and its GPU"
    return f"{device['model']}: levels {ran} (hardware {hardware}), {threads} threads; {gpu}"
