"""Docstring pieces of causal_conv1d_varlen. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "causal_conv1d_varlen": {
        "summary": "causal_conv1d_batch over concatenated sequences.",
        "formula": (
            "y_t = act(bias + Σ_K weight_k · x_(t − K + 1 + k)); inputs before a sequence come "
            "from state, or are 0; state then holds the sequence's last K − 1 inputs"
        ),
        "shapes": (
            "x [C, T], weight [C, K], bias [C], state [S, C, K − 1], cu_seqlens [S + 1] -> y [C, "
            "T]; any strides."
        ),
        "dtypes": (
            "x is f32, f16 or bf16; weight, bias and state have x's dtype or f32; y has x's dtype."
        ),
        "aliasing": "state is written; y shares no memory with inputs.",
        "numerics": (
            "Computes in f32 and rounds once. Tokens outside all sequences are not written; an "
            "empty sequence keeps its state."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError. On error nothing is written."
        ),
        "source": "Gu and Dao, Mamba, 2023; causal-conv1d; as in vLLM and SGLang.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "state": "the K − 1 inputs before each sequence, oldest first",
    "activation": "applied to the sum; empty: none",
    "cu_seqlens": "start of each sequence, ascending, then the end of the last",
}
