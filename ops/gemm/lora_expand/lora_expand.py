"""Docstring pieces of lora_expand. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "lora_expand": {
        "summary": (
            "Second half of LoRA: adds each token's low-rank update, by the token's own adapter."
        ),
        "formula": "y[t] += scale · x[t] · W[token_lora[t]]ᵀ where token_lora[t] ≥ 0",
        "shapes": (
            "x [T, R], b [L, N, R], token_lora [T], y [T, N], any strides; y is written. In "
            "Python, tokens may have more leading dimensions."
        ),
        "dtypes": (
            "x is f32, f16 or bf16; b has x's dtype, f16 or bf16; token_lora is i32 or i64; y has "
            "b's dtype or f32."
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
    "x": "result of lora_shrink",
    "b": "second matrix of each adapter",
    "token_lora": "adapter of each token; −1: none",
    "y": "the layer's result, which the update is added to",
    "scale": "factor of each product",
}
