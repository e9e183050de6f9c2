"""Docstring pieces of linear_rope. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "linear_rope": {
        "summary": "A projection of q, k and v together whose first heads are rotated.",
        "formula": (
            "z = x · weightᵀ + bias; y_l = z_l · cos_l − z_h · sin_l; y_h = z_h · cos_h + z_l · "
            "sin_h in the first heads · head_dim columns, y = z in the rest"
        ),
        "shapes": (
            "x [*T, K], weight [N, K], cos and sin [S, R], bias [N] -> y [*T, N]. Row t of x reads "
            "row t mod S of the tables; R is head_dim, or half of it for tables with one column a "
            "pair. Of more dimensions, the leading ones of x are rows, at one stride."
        ),
        "dtypes": (
            "x f32, f16 or bf16; weight and y x's dtype; tables and bias x's dtype or f32, both "
            "tables the same."
        ),
        "aliasing": "y overlaps no input; inputs are never written.",
        "numerics": (
            "Products and sums in f32; bias and rotation act on the f32 sums, and there is one "
            "rounding, at the store. Pair i of a head of style neox is channels i and i + "
            "head_dim / 2, of interleaved 2i and 2i + 1; of tables with head_dim columns it reads "
            "i and i + head_dim / 2. Inside deterministic() a row has the same bits in any batch."
        ),
        "errors": (
            "ArgumentError for an odd head_dim, for more heads than weight has rows, for tables of "
            "other columns or without rows; ShapeMismatchError, UnsupportedDtypeError, "
            "DeviceError; nothing is written then."
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
    "head_dim": "channels of a head",
    "style": "which channels are a pair: neox or interleaved",
    "bias": "added to every row before the rotation",
}

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "K": "terms of each sum of products: the width of x",
    "N": "columns of the result",
    "S": "rows of the tables",
    "R": "columns of the tables",
}
