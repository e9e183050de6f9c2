"""What tests must know of causal_conv1d_varlen. Read next: tests/rooms.py."""

from batch_parts import sequences

TESTS = {"causal_conv1d_varlen": {"parts": sequences("S", T="cu_seqlens")}}
