"""Schema letters of sampling, and its row of docs/all_operators.md.

Pure data: no imports, nothing computed.
"""

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {"V": "tokens of a vocabulary"}

# Rows of docs/all_operators.md: names, what they compute, on CPUs, on GPUs.
OVERVIEW: list[tuple[str, str, str, str]] = [
    (
        "`sample`; `top_k_renorm`, `top_p_renorm`, `top_k_mask_logits` (`sample_rows`, "
        "`filter_rows`)",
        "a token of each row, by temperature, top-k, top-p and min-p of its own, from a seed and "
        "an offset; what these leave of a row",
        "one form for every CPU",
        "one block per row, thresholds by radix, no sort; any layout",
    ),
]
