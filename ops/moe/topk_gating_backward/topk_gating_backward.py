"""Docstring pieces of topk_gating_backward. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "topk_gating_backward": {
        "summary": (
            "Gradient of topk_gating_slots with respect to the logits, from those of l_aux and the "
            "weights."
        ),
        "formula": (
            "g = softmax_E(logits); D = Σ g of a token's kept choices, D' = max(D, eps); dg = "
            "dl_aux · E · first_choices / T², plus, for a kept choice, dw / D' − [D ≥ eps] · Σ dw "
            "· g / D'²; dlogits = g · (dg − Σ_E g · dg)"
        ),
        "shapes": (
            "dl_aux [], dweights [k·T], logits [T, E], kept [k·T], first_choices [E], any strides "
            "-> dlogits [T, E]; kept and first_choices are topk_gating_slots'."
        ),
        "dtypes": (
            "dl_aux is f32, f16 or bf16, dweights has its dtype; logits is f32, f16 or bf16, "
            "dlogits has its dtype; kept and first_choices are i32."
        ),
        "aliasing": "dlogits shares no memory with inputs.",
        "numerics": (
            "Computes in f32 and rounds once, at the store; eps is that of dweights' dtype. "
            "Gradients of dropped choices are not read. An id in kept that is not an expert, or "
            "that repeats an earlier choice of the token, counts as −1."
        ),
        "errors": "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError.",
        "source": "Derivative of Lepikhin et al., GShard, 2020.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dl_aux": "gradient with respect to l_aux",
    "dweights": "gradient with respect to the weights",
    "logits": "logits as passed to topk_gating_slots",
    "kept": "expert of each choice, −1 where dropped",
    "first_choices": "number of tokens whose first choice is each expert",
    "k": "experts per token",
}

AUTOGRAD: dict[str, dict[str, str | dict[str, str]]] = {
    "topk_gating_slots": {
        "backward": "topk_gating_backward",
        "saves": {"logits": "logits", "kept": "kept", "first_choices": "first_choices"},
        "takes": {"dl_aux": "l_aux", "dweights": "token_exp_weights"},
        "gives": {"logits": "dlogits"},
    },
}
