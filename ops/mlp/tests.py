"""What tests must know of products of normalised rows, and of gates. Read next: tests/rooms.py."""

TESTS = {
    "gated_linear": {"alike": ("cuda_mma", "cuda_wgmma")},  # as in ops/gemm/tests.py
    # Normalised values are rounded to bf16 before they are multiplied: 3 sqrt(sum p^2), for each
    # factor of a gate (norm_ref.hpp).
    "norm_linear": {"hidden": {"f32": 2, "bf16": 2}},
    "norm_gated_linear": {"hidden": {"f32": 2, "bf16": 12}},
    # A code of a gate takes the bound of two sums.
    "gated_linear_quant_group": {"hidden": {"f32": 4, "bf16": 4, "f16": 4}},
}
