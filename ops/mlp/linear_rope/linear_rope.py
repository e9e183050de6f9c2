"""Docstring pieces of linear_rope. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "linear_rope": {
        "summary": "A projection of q, k and v together whose first heads are rotated.",
        "formula": (
            "z = x · weightᵀ + bias; y_l = z_l · cos_l − z_h · sin_l; y_h = z_h · cos_h + z_l · "
            "sin_h in the first heads · 2Dh columns, y = z in the rest"
        ),
        "shapes": (
            "x [*T, K], weight [N, K], cos and sin [S, 2Dh], bias [N] -> y [*T, N], where N is "
            "heads · 2Dh + V. Row t of x reads row t mod S of the tables. Of more dimensions, the "
            "leading ones of x are rows, at one stride."
        ),
        "dtypes": (
            "x f32, f16 or bf16; weight and y x's dtype; tables and bias x's dtype or f32, both "
            "tables the same."
        ),
        "aliasing": "y overlaps no input; inputs are never written.",
        "numerics": (
            "Products and sums in f32; bias and rotation act on the f32 sums, and there is one "
            "rounding, at the store. Pair i of a head of style neox is channels i and i + Dh, of "
            "interleaved 2i and 2i + 1; of tables it reads columns i and i + Dh. Inside "
            "deterministic() a row has the same bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError for more heads than weight has rows for; ArgumentError for tables "
            "without rows or columns; UnsupportedDtypeError, DeviceError; nothing is written then."
        ),
        "source": "Su et al., RoFormer, 2021.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "weight": "rows of q's heads, of k's, and the rest: v's",
    "cos": "cosines of the angles, a row for a token",
    "sin": "sines of the same angles",
    "heads": "heads that are rotated: q's and k's",
    "style": "which channels are a pair: neox or interleaved",
    "bias": "added to every row before the rotation",
}

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "K": "terms of each sum of products: the width of x",
    "heads": "heads that are rotated",
    "Dh": "pairs of channels of a head",
    "V": "columns that are not rotated",
    "S": "rows of the tables",
}
