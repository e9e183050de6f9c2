"""Schema letters of sampling, and its row of docs/all_operators.md.

Pure data: no imports, nothing computed.
"""

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {"V": "tokens in the vocabulary"}

# Rows of docs/all_operators.md: names, what they compute, on CPUs, on GPUs.
OVERVIEW: list[tuple[str, str, str, str]] = [
    (
        "`sample`; `top_k_renorm`, `top_p_renorm`, `top_k_mask_logits` (`sample_rows`, "
        "`filter_rows`)",
        "one token per row, with its own temperature, top-k, top-p and min-p, from a seed and an "
        "offset; what these filters keep of a row",
        "one implementation for every CPU",
        "one block per row, thresholds by radix, no sort; any layout",
    ),
]
