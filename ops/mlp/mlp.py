"""This family's rows of docs/all_operators.md. Pure data: nothing computed."""

# Rows of docs/all_operators.md: names, what they compute, on CPUs, on GPUs.
OVERVIEW: list[tuple[str, str, str, str]] = [
    (
        "`gated_mlp`, `fused_gated_mlp`",
        "`act(x · Wgᵀ) ⊙ (x · Wuᵀ)`, then `· Wdᵀ` where it is given; either branch activated",
        "blocked and few-row AVX-512, AVX2, baseline; two products of `matmul`",
        "WGMMA (Hopper); mma.sync (sm_80 and later); few-row; IEEE f32; two products of `matmul`",
    ),
    (
        "`rms_norm_linear`, `norm_gated_linear`",
        "`rms_norm(x) · Wᵀ`, with a rotation of q and k; the same in front of a gated product",
        "`rms_norm`, then `matmul` or `gated_linear`, each by its own choice",
        "the same",
    ),
]
