"""``ConfigCache``: the best configuration of a kernel, a problem and a device, kept in a folder.

In: kernel type, sizes, device. Out: the configuration, or None. A file holds one key, is published
by renaming a complete one over it, and ends in a digest: a process that is killed loses nothing,
and a file that is damaged, or is another key's, counts as absent. Read next: tuner.py.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import pathlib
import tempfile
import threading
from typing import Any

_log = logging.getLogger(__name__)


def _key(kernel_type: str, problem_size: tuple[int, ...], device: str) -> str:
    return json.dumps([kernel_type, list(problem_size), device], separators=(",", ":"))


def _name(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:32]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class ConfigCache:
    """Without a folder, in memory alone."""

    def __init__(self, cache_dir: str | os.PathLike[str] | None = None) -> None:
        self.cache_dir = pathlib.Path(cache_dir) if cache_dir else None
        self._known: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        if self.cache_dir is not None:
            self.cache_dir.mkdir(parents=True, exist_ok=True)

    def get(
        self, kernel_type: str, problem_size: tuple[int, ...], device: str
    ) -> dict[str, Any] | None:
        key = _key(kernel_type, problem_size, device)
        with self._lock:
            config = self._known.get(_name(key)) or self._read(key)
            if config is None:
                return None
            self._known[_name(key)] = config
            return dict(config)

    def set(
        self, kernel_type: str, problem_size: tuple[int, ...], device: str, config: dict[str, Any]
    ) -> None:
        """Kept from now on; a folder that cannot be written is said in the log and forgotten."""
        key = _key(kernel_type, problem_size, device)
        text = json.dumps({"key": key, "config": config}, sort_keys=True)
        with self._lock:
            self._known[_name(key)] = dict(config)
            try:
                self._publish(_name(key), f"{text}\n{_digest(text)}\n")
            except OSError as error:
                _log.warning("dlblas: %s is not kept in %s: %s", key, self.cache_dir, error)

    def clear(self) -> None:
        with self._lock:
            self._known.clear()
            for path in self._files():
                with contextlib.suppress(OSError):
                    path.unlink()

    def get_all_keys(self) -> list[str]:
        """Names of all keys, in memory or in the folder."""
        with self._lock:
            return sorted({*self._known, *(path.stem for path in self._files())})

    def __contains__(self, item: tuple[str, tuple[int, ...], str]) -> bool:
        return self.get(*item) is not None

    def __len__(self) -> int:
        return len(self.get_all_keys())

    def _files(self) -> list[pathlib.Path]:
        return [] if self.cache_dir is None else list(self.cache_dir.glob("*.json"))

    def _read(self, key: str) -> dict[str, Any] | None:
        if self.cache_dir is None:
            return None
        try:
            text = (self.cache_dir / f"{_name(key)}.json").read_text(encoding="utf-8")
            body, digest = text.rstrip("\n").rsplit("\n", 1)
            record = json.loads(body) if digest == _digest(body) else None
        except (OSError, ValueError):
            return None
        if not isinstance(record, dict) or record.get("key") != key:
            return None
        config = record.get("config")
        return config if isinstance(config, dict) else None

    def _publish(self, name: str, text: str) -> None:
        if self.cache_dir is None:
            return
        handle, temporary = tempfile.mkstemp(dir=self.cache_dir, prefix=name, suffix=".tmp")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.cache_dir / f"{name}.json")
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
