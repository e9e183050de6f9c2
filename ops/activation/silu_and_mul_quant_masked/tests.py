"""What tests must know of silu_and_mul_quant_masked. Read next: tests/rooms.py."""

from batch_parts import rows_of_masked

TESTS = {"silu_and_mul_quant_masked": {"parts": rows_of_masked}}
