"""Docstring pieces of causal_conv1d_batch. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "causal_conv1d_batch": {
        "summary": "A convolution of each channel with its last K inputs.",
        "formula": (
            "y_t = act(bias + Σ_K weight_k · x_(t − K + 1 + k)); what lies before a sequence is in "
            "state, or 0; state then holds the sequence's last K − 1 inputs"
        ),
        "shapes": (
            "x [batch, C, L], weight [C, K], bias [C], state [batch, C, K − 1] -> y [batch, C, L]; "
            "any strides."
        ),
        "dtypes": "x f32, f16 or bf16; weight, bias, state x's dtype or f32; y x's dtype.",
        "aliasing": "state is written; y shares no memory with inputs.",
        "numerics": "In f32, one rounding. An update is a call with L = 1.",
        "errors": "ShapeMismatchError, UnsupportedDtypeError, DeviceError; nothing is written.",
        "source": "Gu and Dao, Mamba, 2023; causal-conv1d; as in vLLM and SGLang.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "state": "the K − 1 inputs before each sequence, from the oldest on",
    "activation": "of the sum",
}
