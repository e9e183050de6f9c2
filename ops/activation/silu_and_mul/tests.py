"""What tests must know of silu_and_mul. Read next: tests/rooms.py."""

TESTS = {"silu_and_mul": {"table": ("F",)}}  # it sums nothing
