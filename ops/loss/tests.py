"""What tests must know of losses. Read next: tests/rooms.py."""

TESTS = {"cross_entropy_rows": {"table": ("C",)}}
