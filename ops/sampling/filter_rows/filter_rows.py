"""Docstring pieces of filter_rows. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "filter_rows": {
        "summary": "Keeps the elements of each row that top-k, top-p and min-p select.",
        "formula": (
            "y = x where it is kept, −inf (0 for probabilities) elsewhere; with renorm p / Σ kept "
            "p, 0 elsewhere, p = softmax(x), or x"
        ),
        "shapes": "x [*T, V]; top_k, top_p, min_p [*T] or None -> y [*T, V].",
        "dtypes": (
            "x is f32, f16 or bf16; top_k is i32 or i64; top_p and min_p are f32; y has x's dtype."
        ),
        "aliasing": "The result shares no memory with inputs.",
        "numerics": (
            "The top-k selection is exact. Exponentials are f32, sums are integers, with one "
            "rounding. A row with NaN or +inf, or without any mass, is NaN."
        ),
        "errors": "ShapeMismatchError, UnsupportedDtypeError, DeviceError.",
        "source": "Holtzman et al., 2020 (top-p); as in FlashInfer.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "top_k": "keeps this many of the largest elements, and ties with the last; 0 or less: all",
    "top_p": "keeps elements while the strictly larger ones have less than this share of the mass",
    "min_p": "keeps elements with at least this fraction of the largest probability",
    "probs": "if true, x holds probabilities, with any sum",
    "renorm": "if true, y is a distribution",
}
