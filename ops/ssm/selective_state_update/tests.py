"""What tests must know of selective_state_update. Read next: tests/rooms.py."""

TESTS = {"selective_state_update": {"largest": {"P": 8192}}}
