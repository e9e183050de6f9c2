"""Docstring pieces of gated_delta_rule_packed. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "gated_delta_rule_packed": {
        "summary": "Linear attention by the gated delta rule, of sequences side by side.",
        "formula": (
            "of each token in turn: S = e^g · S; S = S + k · (beta · (v − Sᵀ · k))ᵀ; o = scale · "
            "Sᵀ · q; with qk_l2norm of q and k over sqrt(Σ x² + 1e-6)"
        ),
        "shapes": (
            "q, k [T, H, K], v [T, H·R, V], g, beta [T, H·R], state [S, H·R, K, V], cu_seqlens [S "
            "+ 1] -> o [T, H·R, V]; R heads of v to each of q; any strides."
        ),
        "dtypes": (
            "q, k, v f32, f16 or bf16; g, beta, state theirs or f32; cu_seqlens i32 or i64; o q's "
            "dtype."
        ),
        "aliasing": "state is written: what it holds is where each sequence begins.",
        "numerics": (
            "In f32; o is rounded at its store, the state where a sequence ends. Tokens of no "
            "sequence are not written; an empty sequence keeps its state."
        ),
        "errors": "ShapeMismatchError, UnsupportedDtypeError, DeviceError; nothing is written.",
        "source": "Yang et al., Gated Delta Networks, 2024; as in flash-linear-attention.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "g": "the logarithm of what a token leaves of the state: 0 and below",
    "beta": "how much of what k finds is replaced by v: 0 … 1",
    "state": "S of each sequence and head, before it and then after it",
    "cu_seqlens": "where sequences begin, ascending, and the last one's end",
    "scale": "of o",
    "qk_l2norm": "q and k are normalised to length 1 first",
}
# Letters that have another meaning in this operator.
LETTERS: dict[str, str] = {
    "H": "heads of q and k",
    "K": "elements of a head of q and k",
    "V": "elements of a head of v",
    "S": "sequences side by side",
}
