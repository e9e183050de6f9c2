"""Docstring pieces of moe_sort. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "moe_sort": {
        "summary": (
            "Lists the tokens of each expert: moe_permute without its copy, for a product that "
            "gathers rows."
        ),
        "formula": (
            "rows[inverse[t, j]] = t; expert e has rows[offsets[e] : offsets[e + 1]], in the order "
            "of t and j"
        ),
        "shapes": (
            "topk_ids [T, topk], any strides -> rows [T·topk] and offsets [num_experts + 1], as "
            "grouped_gemm takes them, inverse [T, topk], as moe_unpermute takes it. In Python, "
            "tokens may have more leading dimensions."
        ),
        "dtypes": "topk_ids is i32 or i64; results are i32.",
        "aliasing": "Results share no memory with topk_ids.",
        "numerics": (
            "Exact, and always in the same order. A choice whose id is −1 (dropped, or on another "
            "rank), or any other that is not an expert, has no row, and −1 in inverse. As many "
            "elements at the end of rows, from offsets[num_experts] on, are −1."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError; ArgumentError above 2^31 − 1 "
            "choices."
        ),
        "source": "Gale et al., MegaBlocks, 2022.",
    },
}

TOKENS = "T"  # calls from Python may have several dimensions in its place: [B, S]

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "topk_ids": "experts of each token; −1: none",
    "num_experts": "number of local experts",
}
