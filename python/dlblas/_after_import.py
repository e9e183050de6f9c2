"""Runs a function right after a module is first imported. torch and its tracer take a second each
to import, so dlblas waits until a program imports them. Used by: _torch_bridge.py,
torch/_compile.py.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable
from typing import Any


class _Watcher:
    """A finder that finds nothing itself. It is inert once the module is there. Until then, other
    code may ask where the module is without importing it, and an import may fail and be tried
    again. It stays in sys.meta_path: other threads' imports may be iterating over that list."""

    def __init__(self, name: str, run: Callable[[], object]) -> None:
        self._name = name
        self._run: Callable[[], object] | None = run
        self._asking = threading.local()  # while the other finders look

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self._name or self._run is None or getattr(self._asking, "now", False):
            return None
        from importlib.util import find_spec

        self._asking.now = True
        try:
            spec = find_spec(name)
        finally:
            self._asking.now = False
        if spec is not None and spec.loader is not None:
            with contextlib.suppress(AttributeError):  # a loader that takes no attributes
                self._watch(spec.loader)
        return spec

    def _watch(self, loader: Any) -> None:
        load = loader.exec_module

        def load_and_run(module: Any) -> None:
            load(module)
            if module.__name__ != self._name:  # a loader of several modules
                return
            vars(loader).pop("exec_module", None)
            run, self._run = self._run, None
            if run is not None:
                run()

        loader.exec_module = load_and_run


def after_import(name: str, run: Callable[[], object]) -> None:
    """Calls ``run()`` once the module has been imported; at once if it already is."""
    if name in sys.modules:
        run()
    else:
        sys.meta_path.insert(0, _Watcher(name, run))
