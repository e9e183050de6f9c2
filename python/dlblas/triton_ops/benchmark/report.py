"""Reports of measurements, as readable text and as JSON.

Read next: suite.py.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from ..._arguments import hinted
from ...errors import ArgumentError
from ..models import KernelMetrics


def _now() -> str:
    return datetime.now().isoformat(timespec="seconds")


@hinted
@dataclass
class BenchmarkResult:
    """One kernel on one problem, and whether it agreed with its reference."""

    kernel_name: str
    problem_size: tuple[int, ...]
    config: dict[str, Any]
    metrics: KernelMetrics
    correctness: bool
    timestamp: str | None = field(default_factory=_now)


@hinted
@dataclass
class ComparisonResult:
    """A kernel against another implementation; ``speedup`` is how many times as fast it is."""

    kernel_name: str
    problem_size: tuple[int, ...]
    triton_metrics: KernelMetrics
    baseline_metrics: KernelMetrics
    speedup: float
    correctness: bool


@hinted
class PerformanceReport:
    """Collects results and formats them as a report."""

    def __init__(self, title: str = "Kernels, measured and checked") -> None:
        self.title = title
        self.results: list[BenchmarkResult] = []
        self.comparisons: list[ComparisonResult] = []
        self.metadata: dict[str, Any] = {}

    def add_result(self, result: BenchmarkResult) -> None:
        self.results.append(result)

    def add_comparison(self, comparison: ComparisonResult) -> None:
        self.comparisons.append(comparison)

    def set_metadata(self, key: str, value: Any) -> None:
        self.metadata[key] = value

    def generate_text_report(self) -> str:
        lines = [self.title, *(f"  {key}: {value}" for key, value in self.metadata.items())]
        for r in self.results:
            said = "right" if r.correctness else "WRONG"
            lines += [f"{r.kernel_name} {r.problem_size}: {said}", f"  {r.metrics}"]
        for c in self.comparisons:
            said = "right" if c.correctness else "WRONG"
            lines += [
                f"{c.kernel_name} {c.problem_size}: {said}, {c.speedup:.2f} times as fast",
                f"  kernel    {c.triton_metrics}",
                f"  baseline  {c.baseline_metrics}",
            ]
        verdicts = [r.correctness for r in self.results] + [c.correctness for c in self.comparisons]
        return "\n".join([*lines, f"{sum(verdicts)} of {len(verdicts)} right"]) + "\n"

    def generate_json_report(self) -> str:
        return json.dumps(
            {
                "title": self.title,
                "generated": _now(),
                "metadata": self.metadata,
                "results": [asdict(r) for r in self.results],
                "comparisons": [asdict(c) for c in self.comparisons],
            },
            indent=2,
        )

    def generate(self, format: str = "text") -> str:
        """The report as "text" or "json"."""
        if format not in ("text", "json"):
            raise ArgumentError.from_library(
                f'generate_report: format is unknown; expected "text" or "json", got {format!r}',
                "generate_report", "format", '"text" or "json"', repr(format),
            )  # fmt: skip
        return self.generate_json_report() if format == "json" else self.generate_text_report()

    def save(self, filepath: str | os.PathLike[str], format: str = "text") -> None:
        text = self.generate(format)
        with open(filepath, "w", encoding="utf-8") as file:
            file.write(text)
