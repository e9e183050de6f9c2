"""``ConfigCache``: the best configuration for a kernel, a problem and a device.

In: kernel type, sizes, device. Out: the configuration, or None. With a folder it is kept in a store
like the library's own (docs/store.md), ``v1`` in that folder: nothing that was set is lost, damaged
or foreign records are not used, and ``DLBLAS_CACHE=folder dlblas cache`` shows, exports, merges and
compacts it. A record applies to the same device name, device model and sizes; the last one set
wins. Read next: tuner.py, bindings/python/kept.cpp.
"""

from __future__ import annotations

import functools
import hashlib
import json
import operator
import os
import pathlib
import sys
import threading
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch

from ... import _functions, _native
from ..._arguments import hinted
from .configs import Config

_PREFIX = "triton_ops/"
_MAX_SAMPLES = 32  # kept of a candidate

Key = tuple[tuple[str, str], ...]


class Candidate(NamedTuple):
    """One configuration of a search: its times, or how it failed."""

    config: Config
    samples_ms: tuple[float, ...] = ()
    failure: str = ""
    error: float = 0.0  # distance from the default's results over what is allowed
    is_default: bool = False


class Kept(NamedTuple):
    """The configuration in force for a key: found by a search of this source, or set by hand."""

    config: Config
    source: str | None  # None: set by hand, never measured


def _text(value: Any) -> str:
    """One text per value, without control characters."""

    def plain(part: Any) -> Any:
        return operator.index(part) if hasattr(part, "__index__") else str(part)

    return json.dumps(value, default=plain, separators=(",", ":"))


def _config_text(config: Config) -> str:
    """NumPy's integers become integers; any other value that JSON lacks is a TypeError."""
    return json.dumps(config, default=operator.index, separators=(",", ":"))


@functools.cache
def _cpu_model() -> str:
    devices = _native.info()["devices"]
    return next((str(row["model"]) for row in devices if row["device"] == "cpu"), "")


def _model(name: str) -> str:
    """The device model behind this name here; configurations of another model do not apply."""
    try:
        device = torch.device(name)
    except RuntimeError:
        return ""  # "H200": a name of the user's own
    if device.type == "cpu":
        return _cpu_model()
    if device.type != "cuda" or not torch.cuda.is_available():
        return ""
    facts = torch.cuda.get_device_properties(device)
    return f"{facts.name} sm_{facts.major}{facts.minor} {facts.multi_processor_count}"


def key_of(kernel_type: str, problem_size: tuple[int, ...], device: str) -> Key:
    sizes = list(problem_size) if isinstance(problem_size, Iterable) else problem_size
    return (
        ("op", _PREFIX + _text(str(kernel_type))[1:-1]),
        ("dims", _text(sizes)),
        ("device.name", _text(str(device))[1:-1]),
        ("device.model", _text(_model(str(device)))[1:-1]),
    )


@hinted
class ConfigCache:
    """The best configuration by kernel type, sizes and device; without a folder, in memory only."""

    def __init__(self, cache_dir: str | os.PathLike[str] | None = None) -> None:
        self.cache_dir = pathlib.Path(cache_dir) if cache_dir else None
        self._memory: dict[Key, Kept] = {}
        self._lock = threading.Lock()
        self._folder = ""
        if self.cache_dir is not None:
            self.cache_dir.mkdir(parents=True, exist_ok=True)
            self._folder = str(self.cache_dir.absolute() / "v1")

    def get(self, kernel_type: str, problem_size: tuple[int, ...], device: str) -> Config | None:
        """A copy of the configuration that was set last, by any process; None if there is none."""
        kept = self.kept(key_of(kernel_type, problem_size, device))
        return None if kept is None else kept.config

    def set(
        self, kernel_type: str, problem_size: tuple[int, ...], device: str, config: Config
    ) -> None:
        """Keeps ``config``, whose values must have a form in JSON. If the disk refuses it, it is
        kept in this process, with one warning."""
        by_hand = [Candidate(config, failure="not_measured")]
        self.keep(key_of(kernel_type, problem_size, device), config, by_hand, None)

    def clear(self) -> None:
        """Forgets every configuration, here and in the folder; other records in it stay."""
        with self._lock:
            self._memory.clear()
        for name in self._stored():
            _functions.native["kept_remove"](self._folder, name)

    def get_all_keys(self) -> list[str]:
        """A name for each key; with a folder, ``dlblas cache show`` takes it."""
        if self._folder:
            return sorted(self._stored())
        with self._lock:
            return sorted(hashlib.sha256(repr(key).encode()).hexdigest() for key in self._memory)

    def __contains__(self, item: tuple[str, tuple[int, ...], str]) -> bool:
        return self.get(*item) is not None

    def __len__(self) -> int:
        return len(self.get_all_keys())

    def kept(self, key: Key) -> Kept | None:
        """As ``get``, with the source."""
        if self._folder:
            return _ruling(json.loads(_functions.native["kept_rows"](self._folder, key)))
        with self._lock:
            kept = self._memory.get(key)
        return kept and kept._replace(config=dict(kept.config))

    def keep(
        self, key: Key, chosen: Config, found: Iterable[Candidate], source: str | None
    ) -> None:
        """Stores a search or a manual choice under the key: all candidates, and the chosen one."""
        if not self._folder:
            with self._lock:
                self._memory[key] = Kept(dict(chosen), source)
            return
        rows = {
            _config_text(c.config): (
                "kernel", source or "-", _config_text(c.config),
                c.samples_ms[:_MAX_SAMPLES], c.failure, float(c.error), c.is_default,
            )
            for c in found
        }  # fmt: skip
        environment = (("chosen", _config_text(chosen)), *_versions())
        _functions.native["kept_publish"](self._folder, key, environment, tuple(rows.values()))

    def _stored(self) -> list[str]:
        if not self._folder:
            return []
        keys = json.loads(_functions.native["kept_keys"](self._folder))
        return [name for name, key in keys.items() if str(key.get("op", "")).startswith(_PREFIX)]


def _versions() -> list[tuple[str, str]]:
    triton = getattr(sys.modules.get("triton"), "__version__", "")
    return [
        ("library", str(_native.info()["version"])),
        ("torch", str(torch.__version__)),
        ("triton", str(triton)),
    ]


def _ruling(rows: list[dict[str, Any]]) -> Kept | None:
    """The configuration in force. Rows come newest first; those of one run share an environment,
    which names the chosen one."""
    for row in rows:
        if row["config"] == row["env"].get("chosen"):
            config = json.loads(row["config"])
            source = None if row["failure"] else str(row["source_hash"])
            return Kept(config, source) if isinstance(config, dict) else None
    return None
