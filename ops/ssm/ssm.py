"""Schema letters of the state-space models, and their row of docs/all_operators.md.

Pure data: no imports, nothing computed.
"""

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "batch": "sequences in the batch",
    "G": "groups of channels or heads that share B and C",
    "R": "channels or heads per group",
    "P": "elements per head",
    "N": "state elements per channel",
    "L": "tokens per sequence",
    "C": "channels",
    "K": "taps of a convolution",
    "S": "concatenated sequences",
}

# Rows of docs/all_operators.md: names, what they compute, on CPUs, on GPUs.
OVERVIEW: list[tuple[str, str, str, str]] = [
    (
        "`selective_state_update`, `selective_scan`",
        "a state-space model (Mamba, Mamba-2): one token, updating the state in place; a whole "
        "sequence and its last state",
        "AVX-512, AVX2, baseline",
        "rows of the state; chunks, scanned by a block; any layout",
    ),
    (
        "`causal_conv1d`, `causal_conv1d_update` (`causal_conv1d_batch`, `causal_conv1d_varlen`)",
        "convolves each channel over its last K inputs, in a batch or in concatenated sequences; "
        "updates the state in place",
        "AVX-512, AVX2, baseline",
        "tiles of channels and tokens; any layout",
    ),
    (
        "`gated_delta_rule` (`gated_delta_rule_packed`)",
        "linear attention whose state forgets and corrects itself (Qwen3-Next), over a batch or "
        "concatenated sequences; updates the state in place",
        "one implementation for every CPU",
        "columns of the state in shared memory; any layout",
    ),
]
