"""Docstring pieces of topk_gating_slots. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "topk_gating_slots": {
        "summary": "Capacity gating: experts, slots and weights of each token, and the load loss.",
        "formula": (
            "g = softmax_E(logits); the k largest logits of a token are its choices, ties in order "
            "of expert number; first choices in token order, then second ones, …, take the slots "
            "of their experts, capacity per expert, and are dropped where none is left; D = Σ g of "
            "a token's kept choices, weight = g / max(D, eps), eps that of the results' dtype; "
            "l_aux = E · Σ_e mean_T(g)_e · mean_T(first choice is e)"
        ),
        "shapes": (
            "logits [T, E], any strides -> l_aux [], token_rearranged_ec_idx [k·T], "
            "token_exp_weights [k·T], expert_select_token_idx [E·capacity], kept [k·T], "
            "first_choices [E]. Choice j of token t is j·T + t: its slot is e·capacity + place (0 "
            "where dropped, with weight 0), and kept is e, −1 where dropped. "
            "expert_select_token_idx is the token of each slot, 0 for empty ones; first_choices "
            "counts a choice whether or not it was dropped."
        ),
        "dtypes": (
            "logits is f32, f16 or bf16; l_aux and weights have dtype: f32, or none for logits' "
            "dtype; expert_select_token_idx is i64, the others are i32."
        ),
        "aliasing": "Results share no memory with logits.",
        "numerics": (
            "Computes in f32 and rounds once, at the store; means over tokens are completed in "
            "f64. Logits are compared exactly. No atomics: every run gives the same bits. NaN "
            "ranks above everything; for a row with NaN or inf, or of −inf alone, the weights are "
            "NaN, and so is l_aux. Without tokens, l_aux is 0. Choices beyond E are dropped."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError; ArgumentError above 2^31 − 1 "
            "choices or slots."
        ),
        "source": "Lepikhin et al., GShard, 2020; the tables are those of DLBlas.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "logits": "router score per expert",
    "k": "experts per token",
    "capacity": "tokens per expert, at most",
    "dtype": "dtype of l_aux and the weights; logits' if not given",
}
