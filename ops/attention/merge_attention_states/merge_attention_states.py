"""Docstring pieces of merge_attention_states. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "merge_attention_states": {
        "summary": "Merges attention over two sets of keys into attention over both.",
        "formula": (
            "w_i = e^(lse_i − max(lse1, lse2)), o = (w1 · o1 + w2 · o2) / (w1 + w2), "
            "lse = log(e^lse1 + e^lse2): natural logarithms of the sums of e^score"
        ),
        "shapes": (
            "o1 and o2 [T, H, D], lse1 and lse2 [T, H] -> o [T, H, D], lse [T, H]. Any number of "
            "leading dimensions, at least one (in Python, none); any strides."
        ),
        "dtypes": "o1 is f32, f16 or bf16; o2 and o have o1's dtype; lse1, lse2 and lse are f32.",
        "aliasing": "Results share no memory with arguments.",
        "numerics": (
            "Computes in f32 and rounds once, at the store. A state whose lse is −inf, or whose "
            "weight is below 2^-126, is ignored, whatever its o holds; where both lse are −inf, o "
            "is 0 and lse is −inf. NaN or +inf in either lse makes o and lse NaN; NaN in an o that "
            "is not ignored stays NaN. Results have the same bits in any batch. In torch all four "
            "inputs have gradients, in torch's operators and f32; those of an ignored state are 0."
        ),
        "errors": "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError.",
        "source": (
            "Dao et al., FlashAttention, 2022; as in FlashInfer, whose lse has base 2: multiply it "
            "by log 2 to get this one."
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
    "D": "elements per head",
}

# Its gradient, in torch's operators: gradient.py.
AUTOGRAD = {"merge_attention_states": {"formula": "gradient", "second": "formula"}}
