"""What tests must know of norms. Read next: tests/rooms.py."""

TESTS = {
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
