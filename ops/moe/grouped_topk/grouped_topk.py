"""Docstring pieces of grouped_topk. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "grouped_topk": {
        "summary": (
            "Chooses the topk experts of each token, from its best groups, and their weights."
        ),
        "formula": (
            "s = σ(logits) or softmax_E(logits), b = s + bias; a group's score is the sum of its "
            "two largest b; ids = the topk largest b in the topk_groups groups of largest score, "
            "in descending order, ties in order of expert number; weights = scale · s[ids], "
            "divided by Σ s[ids] if renormalize"
        ),
        "shapes": (
            "logits [*T, E], bias [E] or None -> weights, ids [*T, topk + "
            "num_fused_shared_experts]; num_groups divides E; topk is at most topk_groups · E / "
            "num_groups. Shared experts come last: E, E + 1, …, each with weight Σ weights / "
            "scale. topk does not count them; in vLLM and SGLang it does: pass theirs minus "
            "num_fused_shared_experts."
        ),
        "dtypes": (
            "logits is f32, f16 or bf16; bias has its dtype or f32; weights is f32, ids is i32."
        ),
        "aliasing": "Results share no memory with logits or bias.",
        "numerics": (
            "Computes in f32. Scores that differ by less than its rounding may change places; "
            "those of equal logits and bias never do. NaN ranks above everything; a softmax of NaN "
            "or inf is NaN. With renormalize, powers are relative to the largest chosen one, so no "
            "sum underflows. Inside deterministic(), results have the same bits in any batch."
        ),
        "errors": "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError.",
        "source": (
            "DeepSeek-AI, DeepSeek-V3 Technical Report, 2024; as in vLLM and SGLang, except for "
            "topk."
        ),
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "logits": "router score per expert",
    "bias": "added to the scores for the choice, not for the weights",
    "topk": "experts per token, without shared ones",
    "num_groups": "number of groups of adjacent experts, all of one size",
    "topk_groups": "number of groups that experts may be chosen from",
    "renormalize": "if true, the weights of a token sum to scale",
    "scale": "factor of the weights: 1e-6 … 1e6",
    "scoring": "how logits become scores",
    "num_fused_shared_experts": "experts that every token uses, after the others",
}

AUTOGRAD = {
    "grouped_topk": {"formula": "moe_gradient", "second": "formula", "keeps": ("weights", "ids")}
}
