"""The one harness over the registry: operator × implementation × case × dtype × layout × values.

In: the operators that the library registers and their cases.json. Out: an ``Outcome`` for
every case, and ``main``, the ``dlblas test`` subcommand that replays one from its repro line. A
new implementation is covered without new test code. Needs NumPy; bf16 needs ml_dtypes. Read next:
cases.py, run.py, docs/testing.md.
"""

from __future__ import annotations

from .cases import Case, Registry, expand, load_registry
from .cli import main
from .report import Coverage
from .run import Outcome, run_group

__all__ = [
    "Case",
    "Coverage",
    "Outcome",
    "Registry",
    "expand",
    "load_registry",
    "main",
    "run_group",
]
