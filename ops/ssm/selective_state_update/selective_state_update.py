"""Docstring pieces of selective_state_update. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "selective_state_update": {
        "summary": "One token of a state-space model for each sequence: Mamba's decode step.",
        "formula": (
            "dt' = softplus(dt + dt_bias), or dt + dt_bias without dt_softplus; "
            "state = e^(dt'·A)·state + dt'·x·B; y = (Σ_N C·state + D·x)·silu(z)"
        ),
        "shapes": (
            "state [batch, H, P, N], x, dt and z [batch, H, P], A [H, P, N], B and C [batch, G, "
            "N], D and dt_bias [H, P] -> y [batch, H, P]. H = G·R heads of P channels; head h "
            "takes group h // R of B and C. Any strides, 0 too: A, dt, D and dt_bias expanded over "
            "channels and states (Mamba-2) are read as they are."
        ),
        "dtypes": (
            "state f32, f16 or bf16, x too; dt, A, B, C, D and dt_bias x's dtype or f32; z and y "
            "x's."
        ),
        "aliasing": "state is written; it shares no memory with anything else.",
        "numerics": (
            "In f32; y is of the state before that is rounded, and each is rounded once. "
            "softplus has no threshold. Where what f32 makes on the way leaves it, an element is "
            "undefined; NaN propagates. The same bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError; nothing is "
            "written then."
        ),
        "source": "Gu and Dao, Mamba, 2023; mamba_ssm's selective_state_update, its arguments.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "state": "what each sequence remembers, updated",
    "x": "the tokens",
    "dt": "the time step of each channel",
    "A": "the rate of the state, mostly below 0",
    "B": "how x enters the state",
    "C": "how the state is read",
    "D": "what of x goes past the state",
    "z": "the gate, before its silu",
    "dt_bias": "added to dt",
    "dt_softplus": "takes softplus of dt + dt_bias",
}
