"""Docstring pieces of group_norm_rows. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "group_norm_rows": {
        "summary": "Normalises rows whose weights are shared by groups of adjacent columns.",
        "formula": (
            "y = (x − mean_C(x)) · rsqrt(var_C(x) + eps) · weight + bias, weight and bias of row "
            "t % groups, per group of inner columns; with activation silu(y)"
        ),
        "shapes": (
            "x [*T, C], weight and bias [groups, C/inner] -> y [*T, C]. A row is a group of "
            "channels, inner the positions per channel: group_norm views its tensors this way, "
            "without a copy. T's last dimension is a multiple of groups, or the only one."
        ),
        "dtypes": "x is f32, f16 or bf16; weight and bias have x's dtype or f32; y has x's dtype.",
        "aliasing": "group_norm_rows_(x, …) or out=x writes y over x; other overlaps are refused.",
        "numerics": (
            "Computes in f32 and rounds once, at the store; the variance is biased and computed "
            "from differences to the mean. Inside deterministic(), results have the same bits in "
            "any batch. Rows whose sums f32 cannot hold are undefined, as in layer_norm."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written."
        ),
        "source": "Wu and He, Group Normalization, 2018.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "inner": "columns that share a weight",
    "activation": "silu: applied to the normalised values before the store; empty: none",
}

# By the backward operator, or, to be differentiated again, in torch's operators: gradient.py.
AUTOGRAD = {"group_norm_rows": {"formula": "gradient", "second": "formula"}}
