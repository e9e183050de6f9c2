"""Docstring pieces of lora_expand. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "lora_expand": {
        "summary": "LoRA's second half: adds each token's low-rank part back, by its own adapter.",
        "formula": "y[t] += scale · x[t] · W[token_lora[t]]ᵀ where token_lora[t] ≥ 0",
        "shapes": "x [T, R], b [L, N, R], token_lora [T], y [T, N], any strides; y is written.",
        "dtypes": (
            "x f32, f16 or bf16; b x's dtype, f16 or bf16; token_lora i32 or i64; y b's dtype or "
            "f32."
        ),
        "aliasing": "y is written; it shares no memory with anything else.",
        "numerics": (
            "In f32, one rounding, at the store. A token whose adapter is −1, or none of L, keeps "
            "its y. The same results in every run."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, AliasError; nothing is "
            "written then."
        ),
        "source": "Hu et al., LoRA, 2021; Chen et al., Punica, 2023.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "x": "what lora_shrink gave",
    "b": "the second matrix of each adapter",
    "token_lora": "the adapter of each token; −1 is none",
    "y": "what is added to: a layer's result",
    "scale": "the factor of each product",
}
