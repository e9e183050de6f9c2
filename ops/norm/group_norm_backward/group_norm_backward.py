"""Docstring pieces of group_norm_backward. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "group_norm_backward": {
        "summary": "Gradients of group_norm with respect to x, the weight and the bias.",
        "formula": (
            "n = (x − mean_C(x)) · r; r = rsqrt(var_C(x) + eps); h = dy, with activation dy · "
            "silu′(n · weight + bias); g = h · weight; dx = r · (g − mean_C(g) − n · mean_C(g · "
            "n)); dweight = sum(h · n), dbias = sum(h) over the rows with the same t % groups and "
            "inner columns"
        ),
        "shapes": (
            "dy and x [*T, C], weight and bias [groups, C/inner] -> dx [*T, C], dweight, dbias "
            "[groups, C/inner]; zeros for an absent weight or bias. A row is a group of channels, "
            "inner the positions per channel. T's last dimension is a multiple of groups, or the "
            "only one."
        ),
        "dtypes": (
            "dy, x and dx have one dtype of f32, f16 and bf16; weight and bias have it too, or "
            "f32; dweight and dbias have theirs, f32 where they are absent."
        ),
        "aliasing": "Results share no memory with inputs: any overlap is refused.",
        "numerics": (
            "Mean and variance as in group_norm_rows. dx is computed in f32; dweight and dbias are "
            "summed in f32 over at most 256 values and in f64 across these; each is rounded once, "
            "at the store. No atomics: the same bits in every run, on any number of threads; dx "
            "the same in any batch inside deterministic(). Sums that f32 cannot hold are undefined."
        ),
        "errors": "On ShapeMismatchError, UnsupportedDtypeError, DeviceError or ArgumentError "
        "nothing is written.",
        "source": "Derivative of Wu and He, Group Normalization, 2018; not from a paper.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dy": "gradient with respect to y",
    "inner": "columns that share a weight",
    "activation": "silu: the forward call applied it before its store; empty: none",
}
