"""Docstring pieces of linear_rope. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "linear_rope": {
        "summary": "A joint projection to q, k and v that rotates the first heads.",
        "formula": (
            "z = x · weightᵀ + bias; y_l = z_l · cos_l − z_h · sin_l; y_h = z_h · cos_h + z_l · "
            "sin_h in the first heads · 2Dh columns, y = z in the rest"
        ),
        "shapes": (
            "x [*T, K], weight [N, K], cos and sin [S, 2Dh], bias [N] -> y [*T, N], where N is "
            "heads · 2Dh + V. Row t of x uses row t mod S of the tables. With more dimensions, "
            "the leading ones of x are rows; C++ and C need one common stride, Python copies "
            "others."
        ),
        "dtypes": (
            "x is f32, f16 or bf16; weight and y have x's dtype; tables and bias have x's dtype or "
            "f32, both tables the same."
        ),
        "aliasing": "y must not overlap an input; inputs are never written.",
        "numerics": (
            "Products and sums are f32; bias and rotation act on the f32 sums, with one rounding, "
            "at the store. Pair i of a head is channels i and i + Dh in style neox, 2i and 2i + 1 "
            "in interleaved; it reads columns i and i + Dh of the tables. Inside deterministic(), "
            "a row has the same bits in any batch. Gradients, in torch, of all tensors."
        ),
        "errors": (
            "ShapeMismatchError (more heads than weight has rows for), ArgumentError (tables "
            "without rows or columns), UnsupportedDtypeError, DeviceError. On error nothing is "
            "written."
        ),
        "source": "Su et al., RoFormer, 2021.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "weight": "rows of q's heads, then of k's, then the rest: v's",
    "cos": "cosines of the angles, one row per token",
    "sin": "sines of the same angles",
    "heads": "number of rotated heads: q's and k's",
    "style": "which channels form a pair: neox or interleaved",
    "bias": "added to every row before the rotation",
}

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "K": "terms of each dot product: the width of x",
    "heads": "rotated heads",
    "Dh": "pairs of channels per head",
    "V": "columns that are not rotated",
    "S": "rows of the tables",
}

# Its gradient, a transposed rotation and products: gradient.py.
AUTOGRAD = {"linear_rope": {"formula": "gradient", "second": "formula"}}
