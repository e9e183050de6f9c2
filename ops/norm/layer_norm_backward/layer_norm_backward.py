"""Docstring pieces of layer_norm_backward. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "layer_norm_backward": {
        "summary": "Gradients of layer_norm with respect to x, the weight and the bias.",
        "formula": "n = (x − mean_C(x)) · r; r = rsqrt(var_C(x) + eps); g = dy · weight; "
        "dx = r · (g − mean_C(g) − n · mean_C(g · n)); dweight = sum_T(dy · n); dbias = sum_T(dy)",
        "shapes": "dy, x [*T, C], weight [C] or None -> dx [*T, C], dweight, dbias [C].",
        "dtypes": "dy, x and dx have one dtype of f32, f16 and bf16; weight has it too, or f32; "
        "dweight and dbias have weight's dtype, f32 without a weight.",
        "aliasing": "Results share no memory with inputs: any overlap is refused.",
        "numerics": "Mean and variance as in layer_norm. dx is computed in f32; dweight and dbias "
        "are summed in f32 over 256 rows and in f64 across these; each is rounded once, at the "
        "store. No atomics: the same bits in every run, on any number of threads; dx the same in "
        "any batch inside deterministic(). Sums that f32 cannot hold are undefined.",
        "errors": "On ShapeMismatchError, UnsupportedDtypeError, DeviceError or ArgumentError "
        "nothing is written.",
        "source": "Derivative of Ba, Kiros and Hinton, 2016; not from a paper.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dy": "gradient with respect to y",
    "x": "rows to normalise; for gradients, the rows that the forward call normalised",
}

AUTOGRAD: dict[str, dict[str, str | dict[str, str]]] = {
    "layer_norm": {
        "backward": "layer_norm_backward",
        "saves": {"x": "x", "weight": "weight"},
        "takes": {"dy": "y"},
        "gives": {"x": "dx", "weight": "dweight", "bias": "dbias"},
    },
}
