"""Docstring pieces of topk_sigmoid. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "topk_sigmoid": {
        "summary": "Chooses the topk experts of each token and their weights.",
        "formula": (
            "ids = the topk largest logits, in descending order, ties in order of expert number; "
            "weights = sigmoid(logits)[ids], divided by their sum if renormalize"
        ),
        "shapes": "logits [*T, E] -> weights, ids [*T, topk]; topk is at most E.",
        "dtypes": "logits is f32, f16 or bf16; weights is f32, ids is i32.",
        "aliasing": "Results share no memory with logits.",
        "numerics": (
            "Computes in f32. Logits are compared exactly, so rounding never changes a choice, "
            "even where sigmoids are equal. NaN ranks above everything; it makes its weight NaN, "
            "and all weights of its row if renormalised, as does a row of −inf alone. Renormalised "
            "weights do not underflow for small logits. Inside deterministic(), results have the "
            "same bits in any batch."
        ),
        "errors": "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError.",
        "source": "DeepSeek-AI, DeepSeek-V3, 2024; as in vLLM and SGLang.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "logits": "router score per expert",
    "topk": "experts per token",
    "renormalize": "if true, the weights of a token sum to 1",
}

AUTOGRAD = {
    "topk_sigmoid": {"formula": "moe_gradient", "second": "formula", "keeps": ("weights", "ids")}
}
