"""Docstring pieces of topk_sigmoid. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "topk_sigmoid": {
        "summary": "The topk experts of each token, and their weights.",
        "formula": (
            "ids = the topk largest logits, in descending order, equal ones from the lower expert "
            "up; weights = sigmoid(logits)[ids], divided by their sum if renormalize"
        ),
        "shapes": "logits [*T, E] -> weights, ids [*T, topk]; topk is at most E.",
        "dtypes": "logits f32, f16 or bf16; weights f32, ids i32.",
        "aliasing": "Results share no memory with logits.",
        "numerics": (
            "In f32; logits are compared exactly, so no rounding moves an expert, also where "
            "sigmoids are equal. NaN ranks above all, and makes its weight NaN, and all of its row "
            "that are renormalised; so do −inf alone. Renormalised weights do not underflow for "
            "small logits. Inside deterministic(), the same bits in any batch."
        ),
        "errors": "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError.",
        "source": "DeepSeek-AI, DeepSeek-V3, 2024; as in vLLM, SGLang.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "logits": "a router's score of each expert",
    "topk": "experts a token goes to",
    "renormalize": "weights of a token sum up to 1",
}
