"""What tests must know of linear_panels. Read next: tests/rooms.py."""

TESTS = {"linear_panels": {"as_made": ("panels",)}}
