"""Docstring pieces of l2_norm. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "l2_norm": {
        "summary": "Divides rows by their Euclidean norm.",
        "formula": "y = x / max(sqrt(sum_C(x²)), eps)",
        "shapes": (
            "x [*T, C] -> y [*T, C]; any leading dimensions, any strides. In Python l2_norm(x, "
            "dim=d) is over another dimension than the last, by a transposed view; y lies as x "
            "does."
        ),
        "dtypes": "x f32, f16 or bf16; y x's dtype.",
        "aliasing": "l2_norm_(x) or out=x writes y over x; other overlaps are refused.",
        "numerics": (
            "torch.nn.functional.normalize over the last dimension. Squares are summed in f32, "
            "blocks of 4096 in f64, rows that leave f32 in f64; one rounding, at the store. No "
            "gradient. Inside deterministic(), the same bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError (eps below 0 "
            "or above 1e30); nothing is written then."
        ),
        "source": "The Euclidean norm; torch.nn.functional.normalize(x, dim=-1).",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "x": "rows to normalise",
    "eps": "the least norm to divide by: x's unit",
}
