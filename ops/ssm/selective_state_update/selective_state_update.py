"""Docstring pieces of selective_state_update. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "selective_state_update": {
        "summary": "One token of a state-space model per sequence: Mamba's decode step.",
        "formula": (
            "dt' = softplus(dt + dt_bias), or dt + dt_bias without dt_softplus; "
            "state = e^(dt'·A)·state + dt'·x·B; y = (Σ_N C·state + D·x)·silu(z)"
        ),
        "shapes": (
            "state [batch, H, P, N], x, dt and z [batch, H, P], A [H, P, N], B and C [batch, G, "
            "N], D and dt_bias [H, P] -> y [batch, H, P]. H = G·R heads of P channels; head h uses "
            "group h // R of B and C. Any strides, including 0: A, dt, D and dt_bias expanded over "
            "channels and states (Mamba-2) need no copy."
        ),
        "dtypes": (
            "state is f32, f16 or bf16, and so is x; dt, A, B, C, D and dt_bias have x's dtype or "
            "f32; z and y have x's dtype."
        ),
        "aliasing": "state is written; it must not overlap another argument.",
        "numerics": (
            "Computes in f32; y uses the state before it is rounded, and each is rounded once. "
            "softplus has no threshold. An element is undefined where an intermediate leaves f32's "
            "range; NaN propagates. Results have the same bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written."
        ),
        "source": (
            "Gu and Dao, Mamba, 2023; with the arguments of mamba_ssm's selective_state_update."
        ),
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "state": "state of each sequence; updated in place",
    "x": "one token per sequence",
    "dt": "time step of each channel",
    "A": "rate of the state, usually negative",
    "B": "how x enters the state",
    "C": "how y reads the state",
    "D": "how much of x bypasses the state",
    "z": "gate, before its silu",
    "dt_bias": "added to dt",
    "dt_softplus": "if true, takes the softplus of dt + dt_bias",
}
