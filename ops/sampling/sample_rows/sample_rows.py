"""Docstring pieces of sample_rows. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "sample_rows": {
        "summary": "Draws a token of each row of logits or probabilities.",
        "formula": (
            "p = softmax(x / temperature), or x; kept = top-k, then top-p and min-p of it; ids = "
            "the first column whose running sum of kept p is above u of all of it"
        ),
        "shapes": (
            "x [*T, V]; temperature, top_k, top_p, min_p, seeds, offsets [*T] or None -> ids [*T, "
            "1]."
        ),
        "dtypes": (
            "x f32, f16 or bf16; temperature, top_p, min_p f32; top_k i32 or i64; seeds, offsets "
            "i64; ids i32."
        ),
        "aliasing": "The result shares no memory with inputs.",
        "numerics": (
            "Exponentials in f32, sums in integers: the same ids on any number of threads. u: "
            "Philox4x32-10 of seed, offset and row. −1 for a row with NaN or +inf, or without a "
            "number."
        ),
        "errors": "ShapeMismatchError, UnsupportedDtypeError, DeviceError.",
        "source": "Salmon et al., 2011 (Philox); Holtzman et al., 2020 (top-p); as in FlashInfer.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "temperature": "what logits are divided by; 0: the first of the largest; with probs unused",
    "top_k": "how many of the largest stay, and ties with the last; 0 and below: all",
    "top_p": "elements stay while those strictly larger have less of the mass",
    "min_p": "elements stay that have this part of the largest one's probability",
    "seeds": "added to seed, of each row; the row's number is left out then",
    "offsets": "added to offset, of each row",
    "seed": "the generator's key",
    "offset": "its counter: another one for each draw",
    "probs": "x holds probabilities, of any sum",
}
