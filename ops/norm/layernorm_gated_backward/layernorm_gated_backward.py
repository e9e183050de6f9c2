"""Docstring pieces of layernorm_gated_backward. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "layernorm_gated_backward": {
        "summary": "Gradients of layernorm_gated with respect to x, z, the weight and the bias.",
        "formula": (
            "n = (v − mean_C(v)) · r, with is_rms_norm v · r, of v = x, without norm_before_gate "
            "x · silu(z); h = dy · silu(z) with norm_before_gate, else dy; g = h · weight; "
            "dv = r · (g − mean_C(g) − n · mean_C(g · n)), with is_rms_norm without mean_C(g); "
            "dx = dv, dz = dy · (n · weight + bias) · silu′(z) with norm_before_gate, else "
            "dx = dv · silu(z), dz = dv · x · silu′(z); dweight = sum(h · n), dbias = sum(h) over "
            "the rows with the same t % groups"
        ),
        "shapes": (
            "dy, x and z [*T, C], weight and bias [groups, C] -> dx, dz [*T, C], dweight, dbias "
            "[groups, C]; zeros for an absent z, weight or bias. T's last dimension is a multiple "
            "of groups, or the only one."
        ),
        "dtypes": (
            "dy, x, z, dx and dz have one dtype of f32, f16 and bf16; weight and bias have it too, "
            "or f32; dweight and dbias have theirs, f32 where they are absent."
        ),
        "aliasing": "Results share no memory with inputs: any overlap is refused.",
        "numerics": (
            "Mean, variance and gate as in layernorm_gated_rows. dx and dz are computed in f32; "
            "dweight and dbias are summed in f32 over 256 rows and in f64 across these; each is "
            "rounded once, at the store. No atomics: the same bits in every run, on any number of "
            "threads; dx and dz the same in any batch inside deterministic(). Sums that f32 cannot "
            "hold are undefined."
        ),
        "errors": "On ShapeMismatchError, UnsupportedDtypeError, DeviceError or ArgumentError "
        "nothing is written.",
        "source": "Derivative of Dao and Gu, Transformers are SSMs, 2024 (Mamba-2's norm).",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dy": "gradient with respect to y",
    "z": "gate, before its silu",
    "norm_before_gate": "if true, the gate multiplies normalised values, else it comes first",
    "is_rms_norm": "if true, divides by the root mean square and subtracts no mean",
}
