"""Docstring pieces of topk_gating_backward. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "topk_gating_backward": {
        "summary": "Gradient of topk_gating_slots, of l_aux and of the weights, in the logits.",
        "formula": (
            "g = softmax_E(logits); D = Σ g of a token's kept choices, D' = max(D, eps); dg = "
            "dl_aux · E · first_choices / T², and for a kept choice dw / D' − [D ≥ eps] · "
            "Σ dw · g / D'² besides; dlogits = g · (dg − Σ_E g · dg)"
        ),
        "shapes": (
            "dl_aux [], dweights [k·T], logits [T, E], kept [k·T], first_choices [E], any strides "
            "-> dlogits [T, E]; kept and first_choices are topk_gating_slots'."
        ),
        "dtypes": (
            "dl_aux f32, f16 or bf16, dweights dl_aux's; logits f32, f16 or bf16, dlogits logits'; "
            "kept and first_choices i32."
        ),
        "aliasing": "dlogits shares no memory with inputs.",
        "numerics": (
            "In f32, one rounding, at the store; eps is that of dweights' dtype. Gradients of "
            "dropped choices are not read. An id in kept that is no expert, or that an earlier "
            "choice of the token has, counts as −1."
        ),
        "errors": "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError.",
        "source": "The derivative of Lepikhin et al., GShard, 2020.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dl_aux": "the gradient that arrives at l_aux",
    "dweights": "the gradient that arrives at the weights",
    "logits": "what topk_gating_slots was given",
    "kept": "the expert of each choice, −1 where dropped",
    "first_choices": "tokens whose first choice is an expert",
    "k": "experts a token goes to",
}

AUTOGRAD: dict[str, dict[str, str | dict[str, str]]] = {
    "topk_gating_slots": {
        "backward": "topk_gating_backward",
        "saves": {"logits": "logits", "kept": "kept", "first_choices": "first_choices"},
        "takes": {"dl_aux": "l_aux", "dweights": "token_exp_weights"},
        "gives": {"logits": "dlogits"},
    },
}
