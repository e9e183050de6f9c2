"""This family's rows of docs/all_operators.md. Pure data: nothing computed."""

# Rows of docs/all_operators.md: names, what they compute, on CPUs, on GPUs.
OVERVIEW: list[tuple[str, str, str, str]] = [
    (
        "`gated_mlp`, `fused_gated_mlp`",
        "`act(x · Wgᵀ) ⊙ (x · Wuᵀ)`, then `· Wdᵀ` if given; either branch may be the activated one",
        "blocked and few-row AMX, AVX-512, AVX2, baseline; two products by `matmul`",
        "WGMMA (Hopper); mma.sync (sm_80 and later); few-row; IEEE f32; two products by `matmul`",
    ),
    (
        "`gated_mlp_quant`",
        "`silu(x · Wgᵀ) ⊙ (x · Wuᵀ)` in f8 codes of its f32 values, a scale per 128 columns",
        "two products by `matmul` in f32, then `silu_and_mul_quant`",
        "WGMMA (Hopper), in one pass; two products by `matmul` in f32, then `silu_and_mul_quant`",
    ),
    (
        "`rms_norm_linear`, `norm_gated_linear`",
        "`rms_norm(x) · Wᵀ`, optionally with rotation of q and k; the same before a gated product",
        "`rms_norm`, then `matmul` or `gated_linear`, each with its own choice of implementation",
        "the same",
    ),
]
