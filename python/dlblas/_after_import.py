"""Runs something as soon as a module is imported, by whomever: torch and its tracer take a second
each, so dlblas waits for those who want them. Used by: __init__.py, torch/_compile.py.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any


class _Watcher:
    """A finder that finds nothing itself. Goes once the module is there: others ask where a module
    is without importing it, and an import may fail and be tried again."""

    def __init__(self, name: str, run: Callable[[], object]) -> None:
        self._name, self._run = name, run
        self._asking = threading.local()  # the other finders, which come back here

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self._name or getattr(self._asking, "now", False):
            return None
        from importlib.util import find_spec

        self._asking.now = True
        try:
            spec = find_spec(name)
        finally:
            self._asking.now = False
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def load_and_run(module: Any) -> None:
            load(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                self._run()

        spec.loader.exec_module = load_and_run  # type: ignore[method-assign]
        return spec


def after_import(name: str, run: Callable[[], object]) -> None:
    """``run()`` once the module has been imported: now where it is there already."""
    if name in sys.modules:
        run()
    else:
        sys.meta_path.insert(0, _Watcher(name, run))
