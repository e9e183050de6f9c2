"""Docstring pieces of group_norm_rows. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "group_norm_rows": {
        "summary": "Normalises rows whose weights belong to groups of neighbouring columns.",
        "formula": (
            "y = (x − mean_C(x)) · rsqrt(var_C(x) + eps) · weight + bias, weight and bias of the "
            "row and of the column's group of inner columns; with activation silu(y)"
        ),
        "shapes": (
            "x [*T, C], weight and bias [*T, C/inner] -> y [*T, C]. Rows are groups of channels, "
            "inner is a channel's places: group_norm views its tensors so, without a copy."
        ),
        "dtypes": "x f32, f16 or bf16; weight and bias x's dtype or f32; y x's dtype.",
        "aliasing": "group_norm_rows_(x, …) or out=x writes y over x; other overlaps are refused.",
        "numerics": (
            "In f32, the variance from differences to the mean, biased; one rounding, at the "
            "store. Inside deterministic(), the same bits in any batch. "
            "Rows whose sums f32 cannot hold are undefined, as layer_norm's."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError; "
            "nothing is written then."
        ),
        "source": "Wu and He, Group Normalization, 2018.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "inner": "columns that share a weight",
    "activation": "silu: applied to what is normalised, before it is stored",
}

# Written in torch's operators: gradient.py.
AUTOGRAD = {"group_norm_rows": {"formula": "gradient", "second": "formula"}}
