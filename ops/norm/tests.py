"""What tests must know of norms. Read next: tests/rooms.py."""

from __future__ import annotations

import random

from batch_parts import Cut, Given, some_of

# Of rows of few columns, dx is what roundings leave of terms that cancel; these oracles allow
# kernels two orders of multiplying by 1/√var, and the errors of the terms to have one sign.
_CANCELS = {"f32": 4.0, "bf16": 2.0, "f16": 2.0}
_AFFINE = {"weight": True, "bias": True}  # else dweight and dbias are zeros


def rows_in_turn(given: Given, pick: random.Random) -> Cut | None:
    """Rows that take the groups' weights in turn: some whole turns."""
    groups, rows = given.get("groups", 1), given["x"].shape[0]
    if given["x"].ndim != 2 or rows < 2 * groups or rows % groups:
        return None
    kept = some_of(rows // groups, pick)
    return Cut({"T": slice(kept.start * groups, kept.stop * groups)}, {}, f"turns {kept}")


_SUMS = "a row takes the weight of its place, and dweight and dbias are sums over the batch"
TESTS = {
    "group_norm_backward": {"hidden": _CANCELS, "scalars": _AFFINE, "parts": _SUMS},
    "group_norm_rows": {"parts": rows_in_turn},
    "layernorm_gated_backward": {
        "hidden": _CANCELS,
        "scalars": {**_AFFINE, "z": True},
        "parts": _SUMS,
    },
    "layernorm_gated_rows": {"parts": rows_in_turn},
    "l2_norm": {"table": ("C",)},
    "layer_norm": {"table": ("C",)},
    "layer_norm_backward": {"table": ("C", "T")},
    "log_softmax": {"table": ("C",)},
    "rms_norm": {"table": ("T", "C")},
    "rms_norm_backward": {"table": ("C", "T")},
    "softmax": {
        # 2^24 terms of one sign accumulate 46 roundings in a block of 128 threads, which a search
        # may try (ops/common/softmax_sum.hpp); 6 on a CPU and with 1,024 threads.
        "hidden": {"long": 1.6},
        "table": ("C",),
    },
    "softmax_backward": {"table": ("C",)},
}
