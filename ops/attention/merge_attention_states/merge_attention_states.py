"""Docstring pieces of merge_attention_states. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "merge_attention_states": {
        "summary": "Merges attention over two sets of keys into attention over both.",
        "formula": (
            "w_i = e^(lse_i − max(lse1, lse2)), o = (w1 · o1 + w2 · o2) / (w1 + w2), "
            "lse = log(e^lse1 + e^lse2): natural logarithms of the sums of e^score"
        ),
        "shapes": (
            "o1 and o2 [T, H, D], lse1 and lse2 [T, H] -> o [T, H, D], lse [T, H]. Any leading "
            "dimensions, one at least; any strides."
        ),
        "dtypes": "o1 f32, f16 or bf16, o2 and o o1's dtype; lse1, lse2 and lse f32.",
        "aliasing": "Results share no memory with arguments.",
        "numerics": (
            "In f32, one rounding, at the store. A state whose lse is −inf, or whose weight is "
            "below 2^-126, counts for nothing, whatever its o holds; where both lse are −inf, o is "
            "0 and lse −inf. A NaN or +inf in a lse makes o and lse NaN; a NaN in an o that counts "
            "stays NaN. The same bits in any batch."
        ),
        "errors": "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError.",
        "source": (
            "Dao et al., FlashAttention, 2022; as in FlashInfer, whose lse is of base 2: times "
            "log 2 is this one's."
        ),
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "o1": "attention over the first keys",
    "lse1": "log Σ e^score over the first keys",
    "o2": "attention over the second keys",
    "lse2": "log Σ e^score over the second keys",
}

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "D": "elements of a head",
}
