"""Docstring pieces of lora_shrink. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "lora_shrink": {
        "summary": (
            "First half of LoRA: adds each token's low-rank projection, by the token's own adapter."
        ),
        "formula": "y[t] += scale · x[t] · W[token_lora[t]]ᵀ where token_lora[t] ≥ 0",
        "shapes": (
            "x [T, C], a [L, R, C], token_lora [T], y [T, R], any strides; y is written. In "
            "Python, tokens may have more leading dimensions."
        ),
        "dtypes": (
            "x is f32, f16 or bf16; a has x's dtype; token_lora is i32 or i64; y has x's dtype or "
            "f32."
        ),
        "aliasing": "y is written; it must not overlap another argument.",
        "numerics": (
            "Computes in f32 and rounds once, at the store. A token whose adapter is −1, or any "
            "other below 0, keeps its y. Every run gives the same results."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, AliasError; ArgumentError on "
            "CPUs for an adapter of L or above, whose token a GPU leaves alone. On error nothing "
            "is written."
        ),
        "source": "Hu et al., LoRA, 2021; Chen et al., Punica, 2023.",
    },
}

TOKENS = "T"  # calls from Python may have several dimensions in its place: [B, S]

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "x": "one row per token",
    "a": "first matrix of each adapter",
    "token_lora": "adapter of each token; −1: none",
    "y": "what the projection is added to; zeros give the projection alone",
    "scale": "factor of each product",
}

# Rows of docs/all_operators.md: names, what they compute, on CPUs, on GPUs.
OVERVIEW: list[tuple[str, str, str, str]] = [
    (
        "`lora_shrink`, `lora_expand`",
        "`y[t] += scale · x[t] · W[token_lora[t]]ᵀ`, one adapter per token",
        "AVX-512, AVX2, baseline",
        "lanes of a warp; any layout",
    ),
]
