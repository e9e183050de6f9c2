"""Schema letters of 4-bit weights, and their row of docs/all_operators.md.

Pure data: no imports, nothing computed.
"""

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "R": "groups of rows of a weight, each with its scales",
    "G": "rows of a group",
    "P": "words of eight columns",
    "Q": "words of eight rows",
    "N": "columns of a weight",
    "M": "rows of x",
    "K": "rows of a weight: what a product adds up",
    "group": "rows of a weight that share a scale",
}

# Rows of docs/all_operators.md: names, what they compute, on CPUs, on GPUs.
OVERVIEW: list[tuple[str, str, str, str]] = [
    (
        "`awq_dequantize`, `gptq_dequantize`; `mm_w4a16`",
        "weights of 4 bits, as AWQ and GPTQ pack them: `(q − zero) · scale`; `x · w` of f16 and "
        "bf16",
        "AVX-512, AVX2, baseline; panels of the weight, then `matmul`",
        "any layout; products from packed words in registers, or the weight, then `matmul`",
    ),
]
