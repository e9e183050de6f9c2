"""Docstring pieces of moe_permute. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "moe_permute": {
        "summary": "Groups the rows of tokens by their experts.",
        "formula": (
            "rows[inverse[t, j]] = x[t]; expert e has rows[offsets[e] : offsets[e + 1]], in the "
            "order of t and j"
        ),
        "shapes": (
            "x [T, C], topk_ids [T, topk], any strides -> rows [T·topk, C], offsets [num_experts + "
            "1], inverse [T, topk], as moe_unpermute takes them. In Python, tokens may have more "
            "leading dimensions."
        ),
        "dtypes": (
            "x is f32, f16, bf16, f8e4m3, f8e5m2 or i8, rows has x's dtype; topk_ids is i32 or "
            "i64; tables are i32."
        ),
        "aliasing": "Results share no memory with inputs.",
        "numerics": (
            "Copies bits, always in the same order. A choice whose id is −1 (dropped, or on "
            "another rank), or any other that is not an expert, has no row, and −1 in inverse. As "
            "many rows at the end, from offsets[num_experts] on, are not written."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError; ArgumentError above 2^31 − 1 "
            "choices."
        ),
        "source": "Gale et al., MegaBlocks, 2022; moe_permute of vLLM.",
    },
}

TOKENS = "T"  # calls from Python may have several dimensions in its place: [B, S]

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "x": "one row per token",
    "topk_ids": "experts of each token; −1: none",
    "num_experts": "number of local experts",
}

AUTOGRAD = {
    "moe_permute": {
        "formula": "moe_gradient", "second": "formula", "reads": (), "keeps": ("inverse",)
    }
}  # fmt: skip
