"""Docstring pieces of filter_rows. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "filter_rows": {
        "summary": "Leaves of each row what top-k, top-p and min-p keep.",
        "formula": (
            "y = x where it is kept, −inf (of probabilities 0) elsewhere; with renorm p / Σ kept "
            "p, 0 elsewhere, p = softmax(x), or x"
        ),
        "shapes": "x [*T, V]; top_k, top_p, min_p [*T] or None -> y [*T, V].",
        "dtypes": "x f32, f16 or bf16; top_k i32 or i64; top_p, min_p f32; y x's dtype.",
        "aliasing": "The result shares no memory with inputs.",
        "numerics": (
            "What top-k keeps is exact. Exponentials in f32, sums in integers, one rounding. A row "
            "with NaN or +inf, or without a number, is NaN."
        ),
        "errors": "ShapeMismatchError, UnsupportedDtypeError, DeviceError.",
        "source": "Holtzman et al., 2020 (top-p); as in FlashInfer.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "top_k": "how many of the largest stay, and ties with the last; 0 and below: all",
    "top_p": "elements stay while those strictly larger have less of the mass",
    "min_p": "elements stay that have this part of the largest one's probability",
    "probs": "x holds probabilities, of any sum",
    "renorm": "y is a distribution",
}
