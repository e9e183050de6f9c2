"""Functions that are right in a search's first call and keep state from it: tensors by shape, their
contents by a few elements or by a scalar; and functions that are right for small values only.
Registered at import, so that a worker has them too. Read next: test_own_kept.py.
"""

from __future__ import annotations

from typing import Any

import dlblas
import numpy as np

KEPT: dict[Any, Any] = {}


def silu(x: Any) -> Any:
    with np.errstate(over="ignore"):
        return x / (1 + np.exp(-x))


def replay(x: Any, y: Any) -> None:  # as a graph that was captured once a shape
    x, y = KEPT.setdefault(("replay", x.shape), (x, y))
    y[...] = silu(x)


def input_by_shape(x: Any, y: Any) -> None:
    y[...] = silu(KEPT.setdefault(("input", x.shape), x))


def result_by_shape(x: Any, y: Any) -> None:
    KEPT.setdefault(("result", x.shape), y)[...] = silu(x)


def first_element(x: Any, y: Any) -> None:
    y[...] = KEPT.setdefault((x.ctypes.data, float(x[0, 0])), silu(x))


def few_elements(x: Any, y: Any) -> None:
    seen = [x[0, :1], x[-1, -1:], x[:, 0], x[:, -1], x.reshape(-1)[::64]]
    seen += [x[0], x[-1]] * (len(x) >= 16)  # not all there is
    key = x.ctypes.data, *(part.tobytes() for part in seen)
    y[...] = KEPT.setdefault(key, silu(x))


def clips(x: Any, y: Any) -> None:
    y[...] = silu(np.clip(x, -4, 4))


def right(x: Any, y: Any) -> None:
    y[...] = silu(x)


def exponentials(x: Any, y: Any) -> None:  # of all rows, without their largest
    with np.errstate(over="ignore", invalid="ignore"):
        e = np.exp(x)
        y[...] = e / e.sum(-1, keepdims=True)


def weight_by_scalar(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
    key = weight.ctypes.data, weight_offset
    scale = KEPT.setdefault(key, weight + np.float32(weight_offset))
    y[...] = x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(eps)) * scale


def scalar_by_address(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
    eps, weight_offset = KEPT.setdefault(("scalars", x.ctypes.data), (eps, weight_offset))
    h = x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(eps))
    y[...] = h * (weight + np.float32(weight_offset))


def written_by_shape(x: Any, a: Any, token_lora: Any, scale: float, y: Any) -> None:
    y = KEPT.setdefault(("written", y.shape), y)
    for adapter in range(a.shape[0]):
        rows = np.flatnonzero(token_lora == adapter)
        y[rows] += np.float32(scale) * (x[rows] @ a[adapter].T)


WRONG = {
    "silu": (replay, input_by_shape, result_by_shape, first_element, few_elements, clips),
    "softmax": (exponentials,),
    "rms_norm": (weight_by_scalar, scalar_by_address),
    "lora_shrink": (written_by_shape,),
}

for _op, _functions in WRONG.items():
    for _function in _functions:
        dlblas.register(_op, f"kept_{_function.__name__}", _function)
dlblas.register("silu", "kept_right", right)
