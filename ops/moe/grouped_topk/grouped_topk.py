"""Docstring pieces of grouped_topk. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "grouped_topk": {
        "summary": "The topk experts of each token, out of its best groups, and their weights.",
        "formula": (
            "s = σ(logits) or softmax_E(logits), b = s + bias; a group's score is the sum of its "
            "two largest b; ids = the topk largest b in the topk_groups groups of largest score, "
            "in descending order, equal ones from the lower number up; weights = scale · s[ids], "
            "divided by Σ s[ids] if renormalize"
        ),
        "shapes": (
            "logits [*T, E], bias [E] or None -> weights, ids [*T, topk + "
            "num_fused_shared_experts]; num_groups divides E; topk is at most "
            "topk_groups · E / num_groups. Shared experts come last: E, E + 1, …, each with "
            "Σ weights / scale; they are not counted in topk, in which vLLM and SGLang include "
            "them: pass theirs less num_fused_shared_experts."
        ),
        "dtypes": "logits f32, f16 or bf16; bias its dtype or f32; weights f32, ids i32.",
        "aliasing": "Results share no memory with logits or bias.",
        "numerics": (
            "In f32; scores that differ by less than its roundings may change places, those of "
            "equal logits and bias never do. NaN ranks above all; a softmax of NaN or inf is NaN. "
            "With renormalize, powers are over the chosen ones' largest: no sum underflows. "
            "Inside deterministic(), the same bits in any batch."
        ),
        "errors": "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError.",
        "source": "DeepSeek-AI, DeepSeek-V3 Technical Report, 2024; as vLLM, SGLang, but for topk.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "logits": "a router's score of each expert",
    "bias": "added to scores to choose, not to weigh",
    "topk": "experts that a token goes to, without shared ones",
    "num_groups": "groups of neighbouring experts, all of one size",
    "topk_groups": "groups of which experts may be taken",
    "renormalize": "weights of a token sum up to scale",
    "scale": "what weights are multiplied with: 1e-6 … 1e6",
    "scoring": "how logits become scores",
    "num_fused_shared_experts": "experts that every token goes to, after the others",
}
