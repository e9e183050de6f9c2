"""The demo's rival on CPUs, NumPy, in its own process, which is stopped while ours is measured.

In one process, the idle threads of NumPy's BLAS would spin beside ours for tens of milliseconds and
take its cores. ``python -m dlblas._demo_rival`` answers each request with one JSON line; a request
holds the operator, the shapes of its arrays, its scalars and how long to measure. Read next:
_demo_host.py.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from .bench.timing import interleaved

Row = dict[str, Any]

_QUIET_S = 0.05  # how long threads of oneDNN's pool spin on after a call, at the most


# --- the same mathematics in plain NumPy: what one would write without the library ---------------


def _matmul(a: Any, b: Any) -> Any:
    return a @ b


def _rms_norm(x: Any, weight: Any, eps: float = 1e-6) -> Any:
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(eps)) * weight


def _add_rms_norm(x: Any, weight: Any, residual: Any, eps: float = 1e-6) -> Any:
    h = x + residual
    return _rms_norm(h, weight, eps), h


NUMPY: dict[str, Callable[..., Any]] = {
    "matmul": _matmul,
    "rms_norm": _rms_norm,
    "add_rms_norm": _add_rms_norm,
}


class Rival:
    """The process, running only inside ``measure``."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "dlblas._demo_rival"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def measure(self, op: str, shapes: list[tuple[int, ...]], scalars: Row, seconds: float) -> Row:
        """Samples of the rival on random arrays of these shapes: see bench.timing."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        time.sleep(_QUIET_S)
        process.send_signal(signal.SIGCONT)
        request = {"op": op, "shapes": shapes, "scalars": scalars, "seconds": seconds}
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the rival's process ended with exit code {process.wait()}")
        process.send_signal(signal.SIGSTOP)
        made: Row = json.loads(answer)
        return made

    def close(self) -> None:
        self._process.send_signal(signal.SIGCONT)
        self._process.kill()
        self._process.communicate()


def main() -> int:
    answers = os.fdopen(os.dup(1), "w")
    random = np.random.default_rng(7)
    known: tuple[Any, list[Any]] = (None, [])
    for line in sys.stdin:
        request = json.loads(line)
        if known[0] != request["shapes"]:
            made = [random.standard_normal(shape, dtype=np.float32) for shape in request["shapes"]]
            known = (request["shapes"], made)
        formula = functools.partial(NUMPY[request["op"]], *known[1], **request["scalars"])
        samples = interleaved({"numpy": formula}, limit_s=request["seconds"])["numpy"]
        answers.write(json.dumps(samples.as_dict()) + "\n")
        answers.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
