"""Docstring pieces of sample_rows. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "sample_rows": {
        "summary": "Draws one token per row of logits or probabilities.",
        "formula": (
            "p = softmax(x / temperature), or x; kept = top-k, then top-p and min-p of it; ids = "
            "the first column whose running sum of kept p is above the fraction u of the total"
        ),
        "shapes": (
            "x [*T, V]; temperature, top_k, top_p, min_p, seeds, offsets [*T] or None -> ids [*T, "
            "1]."
        ),
        "dtypes": (
            "x is f32, f16 or bf16; temperature, top_p and min_p are f32; top_k is i32 or i64; "
            "seeds and offsets are i64; ids is i32."
        ),
        "aliasing": "The result shares no memory with inputs.",
        "numerics": (
            "Exponentials are f32, sums are integers: the same ids on any number of threads. u is "
            "Philox4x32-10 of seed, offset and row. A row with NaN or +inf, or without any mass, "
            "gives −1."
        ),
        "errors": "ShapeMismatchError, UnsupportedDtypeError, DeviceError.",
        "source": "Salmon et al., 2011 (Philox); Holtzman et al., 2020 (top-p); as in FlashInfer.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "temperature": "divisor of the logits; 0 picks the first of the largest; unused with probs",
    "top_k": "keeps this many of the largest elements, and ties with the last; 0 or less: all",
    "top_p": "keeps elements while the strictly larger ones have less than this share of the mass",
    "min_p": "keeps elements with at least this fraction of the largest probability",
    "seeds": "one per row, added to seed; the row's number is then left out",
    "offsets": "one per row, added to offset",
    "seed": "key of the generator",
    "offset": "counter of the generator; use another one for each draw",
    "probs": "if true, x holds probabilities, with any sum",
}
