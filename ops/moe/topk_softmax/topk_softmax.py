"""Docstring pieces of topk_softmax. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "topk_softmax": {
        "summary": "The topk experts of each token, and their weights.",
        "formula": (
            "ids = the topk largest logits, in descending order, equal ones from the lower expert "
            "up; weights = softmax_E(logits)[ids], divided by their sum if renormalize"
        ),
        "shapes": "logits [*T, E] -> weights, ids [*T, topk]; topk is at most E.",
        "dtypes": "logits f32, f16 or bf16; weights f32, ids i32.",
        "aliasing": "Results share no memory with logits.",
        "numerics": (
            "In f32; logits are compared exactly, so no rounding moves an expert. NaN ranks above "
            "all, and every weight of a row with NaN or inf, or of −inf alone, is NaN. Inside "
            "deterministic(), the same bits in any batch."
        ),
        "errors": "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError.",
        "source": "Shazeer et al., Outrageously Large Neural Networks, 2017; as in vLLM, SGLang.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "logits": "a router's score of each expert",
    "topk": "experts a token goes to",
    "renormalize": "weights of a token sum up to 1",
}
