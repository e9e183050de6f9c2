"""Schema letters of the gated and plain activations, and their row of docs/all_operators.md.

Pure data: no imports, nothing computed.
"""

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "F": "elements of the feed-forward width",
    "E": "experts",
    "M": "row slots per expert",
    "group": "columns that share a scale",
}

# Rows of docs/all_operators.md: names, what they compute, on CPUs, on GPUs.
OVERVIEW: list[tuple[str, str, str, str]] = [
    (
        "`silu_and_mul`, `gelu_and_mul`, `gelu_tanh_and_mul`, `silu_mul`, `silu`, `gelu`, "
        "`gelu_tanh`, `…_backward`; `swiglu_oai_and_mul`; `silu_and_mul_quant`, also masked per "
        "expert",
        "`act(gate) · up` of `x = [gate, up]` or of two tensors, `act(x)`; gradients; `(u + 1) · g "
        "· σ(α · g)`, clamped, interleaved or not; f8 or i8 codes in one pass",
        "AVX-512, AVX2, baseline",
        "registers; any layout",
    ),
]
