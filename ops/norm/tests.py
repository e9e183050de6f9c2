"""What tests must know of norms. Read next: tests/rooms.py."""

# Of rows of few columns, dx is what roundings leave of terms that cancel; these oracles allow
# kernels two orders of multiplying by 1/√var, and the errors of the terms to have one sign.
_CANCELS = {"f32": 4.0, "bf16": 2.0, "f16": 2.0}
_AFFINE = {"weight": True, "bias": True}  # else dweight and dbias are zeros

TESTS = {
    "group_norm_backward": {"hidden": _CANCELS, "scalars": _AFFINE},
    "layernorm_gated_backward": {"hidden": _CANCELS, "scalars": {**_AFFINE, "z": True}},
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
