"""Docstring pieces of gated_delta_rule_packed. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "gated_delta_rule_packed": {
        "summary": "Linear attention by the gated delta rule, over concatenated sequences.",
        "formula": (
            "for each token in turn: S = e^g · S; S = S + k · (beta · (v − Sᵀ · k))ᵀ; o = scale · "
            "Sᵀ · q; with qk_l2norm, q and k are first divided by sqrt(Σ x² + 1e-6)"
        ),
        "shapes": (
            "q, k [T, H, K], v [T, H·R, V], g, beta [T, H·R], state [S, H·R, K, V], cu_seqlens [S "
            "+ 1] -> o [T, H·R, V]; R heads of v per head of q; any strides."
        ),
        "dtypes": (
            "q, k and v are f32, f16 or bf16; g, beta and state have their dtype or f32; "
            "cu_seqlens is i32 or i64; o has q's dtype."
        ),
        "aliasing": "state is written; on entry it holds the state in which each sequence begins.",
        "numerics": (
            "Computes in f32; o is rounded at the store, the state at the end of a sequence. "
            "Tokens outside all sequences are not written; an empty sequence keeps its state."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError. On error nothing is written."
        ),
        "source": "Yang et al., Gated Delta Networks, 2024; as in flash-linear-attention.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "g": "log of the fraction of the state that a token keeps: 0 or less",
    "beta": "fraction of what k retrieves that v replaces: 0 … 1",
    "state": "S of each sequence and head: before the sequence on entry, after it on return",
    "cu_seqlens": "start of each sequence, ascending, then the end of the last",
    "scale": "factor of o",
    "qk_l2norm": "if true, first normalises q and k to length 1",
}
# Letters that have another meaning in this operator.
LETTERS: dict[str, str] = {
    "H": "heads of q and k",
    "K": "elements per head of q and k",
    "V": "elements per head of v",
    "S": "concatenated sequences",
}
