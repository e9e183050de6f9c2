"""Docstring pieces of selective_scan. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "selective_scan": {
        "summary": "A state-space model over whole sequences: Mamba's prefill.",
        "formula": (
            "δ_t = softplus(delta_t + delta_bias), or without softplus; h_t = e^(δ_t·A)·h_{t−1} + "
            "δ_t·u_t·B_t from h_0 = initial_state or 0; y_t = (Σ_N C_t·h_t + D·u_t)·silu(z_t); "
            "state = h_L"
        ),
        "shapes": (
            "u, delta and z [batch, Dim, L], A [Dim, N], B and C [batch, G, N, L], D and "
            "delta_bias [Dim], initial_state [batch, Dim, N] -> y [batch, Dim, L], state [batch, "
            "Dim, N]. Dim = G·R channels; channel d uses group d // R of B and C. Any strides."
        ),
        "dtypes": (
            "u is f32, f16 or bf16, z and y have u's dtype; delta, A, B, C, D, initial_state and "
            "delta_bias have u's dtype or f32; state is f32."
        ),
        "aliasing": "Results share no memory with arguments.",
        "numerics": (
            "Computes in f32 and rounds once, at the store. With A < 0, errors decay as the state "
            "does; where nothing decays, they grow with L. A GPU scans in chunks, a CPU step by "
            "step. What follows an infinity, or an intermediate that f32 cannot hold, is "
            "undefined; NaN propagates. Results have the same bits in any batch."
        ),
        "errors": "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError.",
        "source": "Gu and Dao, Mamba, 2023; with the shapes of mamba_ssm's selective_scan_fn.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "u": "tokens of each channel",
    "delta": "time step of each token and channel",
    "A": "rate of the state, usually negative",
    "B": "how u enters the state",
    "C": "how y reads the state",
    "D": "how much of u bypasses the state",
    "initial_state": "state before the first token; zeros if not given",
    "z": "gate, before its silu",
    "delta_bias": "added to delta",
    "delta_softplus": "if true, takes the softplus of delta + delta_bias",
}
