"""Docstring pieces of swiglu_oai_and_mul. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "swiglu_oai_and_mul": {
        "summary": "Gates with clamped SwiGLU, as gpt-oss does.",
        "formula": "y = (u + 1) · g · σ(alpha · g), g = min(gate, limit), u = clamp(up, ±limit)",
        "shapes": "x [*T, 2F] -> y [*T, F]; any leading dimensions, any strides.",
        "dtypes": "x f32, f16 or bf16; y x's dtype.",
        "aliasing": "The result shares no memory with x: any overlap is refused.",
        "numerics": (
            "In f32, one rounding, at the store. NaN stays NaN. Inside deterministic(), the same "
            "bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError (an odd last dimension), ArgumentError (alpha outside 1e-6 … 1e6, "
            "limit below 1e-6), UnsupportedDtypeError, DeviceError; nothing is written then."
        ),
        "source": "OpenAI, gpt-oss model card, 2025.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "x": "gate and up projection: columns 2i and 2i + 1, or the halves, as interleaved says",
    "alpha": "the slope of the sigmoid: 1e-6 … 1e6",
    "limit": "what gate and up are clamped to, in x's unit; inf: they are not",
    "interleaved": "gate and up alternate; else the first half is the gate",
}
