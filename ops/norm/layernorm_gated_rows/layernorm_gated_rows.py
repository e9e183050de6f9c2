"""Docstring pieces of layernorm_gated_rows. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "layernorm_gated_rows": {
        "summary": "Normalises rows, in turn with some weights, with a silu gate before or after.",
        "formula": (
            "n(v) = (v − mean_C(v)) · rsqrt(var_C(v) + eps) · weight + bias, with is_rms_norm "
            "v · rsqrt(mean_C(v²) + eps) · weight + bias, weight and bias of row t % groups; "
            "y = n(x) · silu(z) with norm_before_gate, else n(x · silu(z)); without z, n(x)"
        ),
        "shapes": (
            "x and z [*T, C], weight and bias [groups, C] -> y [*T, C]. A row is a group of "
            "channels: layernorm_gated views its tensors this way, without a copy. T's last "
            "dimension is a multiple of groups, or the only one."
        ),
        "dtypes": (
            "x is f32, f16 or bf16; z and y have x's dtype; weight and bias have x's dtype or f32."
        ),
        "aliasing": "layernorm_gated_rows_(x, ...) or out=x writes y over x; no other overlap.",
        "numerics": (
            "Computes in f32, including the gate, and rounds once, at the store; the variance is "
            "biased and computed from differences to the mean. Inside deterministic(), results "
            "have the same bits in any batch. Rows whose sums f32 cannot hold are undefined, as in "
            "layer_norm."
        ),
        "errors": "On ShapeMismatchError, UnsupportedDtypeError, DeviceError or ArgumentError "
        "nothing is written.",
        "source": "Dao and Gu, Transformers are SSMs, 2024 (Mamba-2's norm).",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "z": "gate, before its silu",
    "norm_before_gate": "if true, the gate multiplies normalised values, else it comes first",
    "is_rms_norm": "if true, divides by the root mean square and subtracts no mean",
}

# By the backward operator, or, to be differentiated again, in torch's operators: gradient.py.
AUTOGRAD = {"layernorm_gated_rows": {"formula": "gradient", "second": "formula"}}
