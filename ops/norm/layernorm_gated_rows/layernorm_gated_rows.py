"""Docstring pieces of layernorm_gated_rows. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "layernorm_gated_rows": {
        "summary": "Normalises rows, each with its own weight, gated by silu before or after.",
        "formula": (
            "n(v) = (v − mean_C(v)) · rsqrt(var_C(v) + eps) · weight + bias, with is_rms_norm "
            "v · rsqrt(mean_C(v²) + eps) · weight + bias; y = n(x) · silu(z) with "
            "norm_before_gate, else n(x · silu(z)); without z, n(x)"
        ),
        "shapes": (
            "x, weight, bias and z [*T, C] -> y [*T, C]. Rows are groups of channels: "
            "layernorm_gated views its tensors so, without a copy."
        ),
        "dtypes": "x f32, f16 or bf16; z and y x's dtype; weight and bias x's dtype or f32.",
        "aliasing": (
            "layernorm_gated_rows_(x, ...) or out=x writes y over x; other overlaps are refused."
        ),
        "numerics": (
            "In f32, the gate included; the variance from differences to the mean, biased; one "
            "rounding, at the store. Inside deterministic(), the same bits in any batch. "
            "Rows whose sums f32 cannot hold are undefined, as layer_norm's."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError; "
            "nothing is written then."
        ),
        "source": "Dao and Gu, Transformers are SSMs, 2024 (Mamba-2's norm).",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "z": "the gate, before silu",
    "norm_before_gate": "the gate multiplies what is normalised; else it is normalised",
    "is_rms_norm": "the root of the mean square, and no mean is subtracted",
}

# Written in torch's operators: gradient.py.
AUTOGRAD = {"layernorm_gated_rows": {"formula": "gradient", "second": "formula"}}
