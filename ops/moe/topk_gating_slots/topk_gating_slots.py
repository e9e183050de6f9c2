"""Docstring pieces of topk_gating_slots. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "topk_gating_slots": {
        "summary": "Capacity gating: experts, slots and weights of each token, and the load loss.",
        "formula": (
            "g = softmax_E(logits); the k largest logits of a token are its choices, equal ones "
            "from the lower expert up; first choices in the order of tokens, then second ones, …, "
            "take the slots of their experts, capacity of each, and are dropped where none is "
            "left; D = Σ g of a token's kept choices, weight = g / max(D, eps), eps that of the "
            "results' dtype; l_aux = E · Σ_e mean_T(g)_e · mean_T(first choice is e)"
        ),
        "shapes": (
            "logits [T, E], any strides -> l_aux [], token_rearranged_ec_idx [k·T], "
            "token_exp_weights [k·T], expert_select_token_idx [E·capacity], kept [k·T], "
            "first_choices [E]. Choice j of token t is j·T + t: its slot is e·capacity + place (0 "
            "where dropped, with weight 0), and kept is e, −1 where dropped. "
            "expert_select_token_idx is the token of each slot, 0 of empty ones; first_choices "
            "counts a choice whether or not it was dropped."
        ),
        "dtypes": (
            "logits f32, f16 or bf16; l_aux and weights dtype, f32 or none (logits'); "
            "expert_select_token_idx i64, the others i32."
        ),
        "aliasing": "Results share no memory with logits.",
        "numerics": (
            "In f32, one rounding at the store; means over tokens end in f64. Logits are compared "
            "exactly. No atomics: the same bits in every run. NaN ranks above all, and the weights "
            "of a row with NaN or inf, or of −inf alone, are NaN, and so is l_aux. Without tokens "
            "l_aux is 0. Choices beyond E are dropped."
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
    "logits": "a router's score of each expert",
    "k": "experts a token goes to",
    "capacity": "tokens an expert takes",
    "dtype": "of l_aux and the weights; none: logits'",
}
