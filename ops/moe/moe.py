"""Schema letters of the mixture-of-experts operators, and their row of docs/all_operators.md.

Pure data: no imports, nothing computed.
"""

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "E": "experts",
    "num_experts": "number of local experts",
    "num_fused_shared_experts": "shared experts appended to the choices",
    "topk": "experts per token",
    "k": "experts per token",
    "C": "elements per token",
    "R": "rows sorted by expert: the choices of all tokens",
    "block": "rows per block of the products that follow",
    "capacity": "tokens per expert, at most",
}

# Rows of docs/all_operators.md: names, what they compute, on CPUs, on GPUs.
OVERVIEW: list[tuple[str, str, str, str]] = [
    (
        "`topk_softmax`, `topk_sigmoid`, `grouped_topk`; `moe_sum`; `moe_align`, "
        "`moe_sort`, `moe_permute`, `moe_unpermute`; `topk_gating`",
        "the `topk` largest of `softmax_E(logits)` or `σ(logits)` and their experts, optionally "
        "from the best groups; the sum over a token's experts; sorting of choices and rows by "
        "expert, and its inverse; GShard's capacity gating, with its gradient",
        "AVX-512, AVX2, baseline",
        "in registers, in shared memory, in passes; any layout",
    ),
]
