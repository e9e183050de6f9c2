"""Docstring pieces of lora_shrink. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "lora_shrink": {
        "summary": "LoRA's first half: adds each token's low-rank projection, by its own adapter.",
        "formula": "y[t] += scale · x[t] · W[token_lora[t]]ᵀ where token_lora[t] ≥ 0",
        "shapes": "x [T, C], a [L, R, C], token_lora [T], y [T, R], any strides; y is written.",
        "dtypes": "x f32, f16 or bf16; a x's dtype; token_lora i32 or i64; y x's dtype or f32.",
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
    "x": "a row of each token",
    "a": "the first matrix of each adapter",
    "token_lora": "the adapter of each token; −1 is none",
    "y": "what is added to: zeros, for the projection alone",
    "scale": "the factor of each product",
}

# Rows of docs/all_operators.md: names, what they compute, on CPUs, on GPUs.
OVERVIEW: list[tuple[str, str, str, str]] = [
    (
        "`lora_shrink`, `lora_expand`",
        "`y[t] += scale · x[t] · W[token_lora[t]]ᵀ`: adapters of each token",
        "baseline",
        "lanes of a warp; any layout",
    ),
]
