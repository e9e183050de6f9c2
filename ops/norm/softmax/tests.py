"""What tests must know of softmax. Read next: tests/rooms.py."""

TESTS = {
    # 2^24 terms of one sign accumulate 46 roundings in a block of 128 threads, which a search may
    # try (ops/softmax_sum.hpp); 6 on a CPU and with 1,024 threads.
    "softmax": {"hidden": {"long": 1.6}},
}
