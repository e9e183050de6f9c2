"""Schema letters of weights of codes, and their rows of docs/all_operators.md.

Pure data: no imports, nothing computed.
"""

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "R": "groups of rows of a weight, each with its own scales",
    "G": "rows per group",
    "P": "words of eight columns",
    "Q": "words of eight rows",
    "N": "columns of a weight",
    "M": "rows of x",
    "K": "rows of a weight: terms of each dot product",
    "group": "rows of a weight that share a scale",
}

# Rows of docs/all_operators.md: names, what they compute, on CPUs, on GPUs.
OVERVIEW: list[tuple[str, str, str, str]] = [
    (
        "`awq_dequantize`, `gptq_dequantize`; `mm_w4a16`",
        "4-bit weights, packed as in AWQ and GPTQ: `(q − zero) · scale`; `x · w` in f16 and bf16",
        "AVX-512, AVX2, baseline; panels of the unpacked weight, then `matmul`",
        "any layout; products from packed words in registers, or the unpacked weight, then "
        "`matmul`",
    ),
    (
        "`mm_w8a16`",
        "8-bit weights, a scale per output or group: `x · (q · scale)ᵀ + bias` in f16 and bf16",
        "AVX-512, AVX2, baseline; panels of the converted weight, then `linear_residual`",
        "products from codes in registers; any layout: the converted weight, then "
        "`linear_residual`",
    ),
]
