"""Docstring pieces of swiglu_oai_and_mul. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "swiglu_oai_and_mul": {
        "summary": "Gates with clamped SwiGLU, as gpt-oss does.",
        "formula": "y = (u + 1) · g · σ(alpha · g), g = min(gate, limit), u = clamp(up, ±limit)",
        "shapes": "x [*T, 2F] -> y [*T, F]; any leading dimensions, any strides.",
        "dtypes": "x is f32, f16 or bf16; y has x's dtype.",
        "aliasing": "The result shares no memory with x: any overlap is refused.",
        "numerics": (
            "Computes in f32 and rounds once, at the store. NaN stays NaN. Inside deterministic(), "
            "results have the same bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError (an odd last dimension), ArgumentError (alpha outside 1e-6 … 1e6, "
            "limit below 1e-6), UnsupportedDtypeError, DeviceError. On error nothing is written."
        ),
        "source": "OpenAI, gpt-oss model card, 2025.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "x": "gate and up projections: columns 2i and 2i + 1 if interleaved, otherwise the two halves",
    "alpha": "slope of the sigmoid: 1e-6 … 1e6",
    "limit": "bound that clamps gate and up, in x's units; inf disables clamping",
    "interleaved": "gate and up columns alternate; otherwise the first half is the gate",
}

AUTOGRAD = {"swiglu_oai_and_mul": {"formula": "gradient", "second": "formula"}}
