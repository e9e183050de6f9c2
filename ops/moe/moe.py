"""Schema letters of the mixture-of-experts operators, and their row of docs/all_operators.md.

Pure data: no imports, nothing computed.
"""

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "E": "experts",
    "num_experts": "experts that there are here",
    "num_fused_shared_experts": "shared experts that are appended to the choices",
    "topk": "experts a token goes to",
    "k": "experts a token goes to",
    "C": "elements of a token",
    "R": "rows that are sorted by expert: the choices of all tokens",
    "block": "rows of a block of the products that follow",
    "capacity": "tokens that an expert takes",
}

# Rows of docs/all_operators.md: names, what they compute, on CPUs, on GPUs.
OVERVIEW: list[tuple[str, str, str, str]] = [
    (
        "`topk_softmax`, `topk_sigmoid`, `grouped_topk`; `moe_sum`; `moe_align`, "
        "`moe_permute`, `moe_unpermute`; `topk_gating`",
        "the `topk` largest of `softmax_E(logits)` or `σ(logits)` and their experts, out "
        "of the best groups; the sum over a token's experts; choices and rows sorted by "
        "expert, and back; GShard's capacity gating, with its gradient",
        "AVX-512, AVX2, baseline",
        "registers, in shared memory, in passes; any layout",
    ),
]
