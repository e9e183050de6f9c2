"""What tests must know of weight_panels. Read next: tests/rooms.py."""

TESTS = {"weight_panels": {"exact": True, "parts": "a panel has elements of 32 rows"}}
