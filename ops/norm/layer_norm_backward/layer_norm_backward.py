"""Docstring pieces of layer_norm_backward. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "layer_norm_backward": {
        "summary": "Gradients of layer_norm, in x, in the weight and in the bias.",
        "formula": "n = (x − mean_C(x)) · r; r = rsqrt(var_C(x) + eps); g = dy · weight; "
        "dx = r · (g − mean_C(g) − n · mean_C(g · n)); dweight = sum_T(dy · n); dbias = sum_T(dy)",
        "shapes": "dy, x [*T, C], weight [C] or None -> dx [*T, C], dweight, dbias [C].",
        "dtypes": "dy f32, f16 or bf16; x, dx dy's dtype; weight that or f32; dweight and dbias "
        "weight's, f32 without one.",
        "aliasing": "Results share no memory with inputs: any overlap is refused.",
        "numerics": "Mean and variance as layer_norm's. dx in f32; dweight and dbias in f32 over "
        "256 rows and f64 over those; one rounding, at the store. No atomics: the same bits in "
        "every run, on any number of threads; inside deterministic() dx has them in any batch. "
        "Rows and columns whose sums f32 cannot hold are undefined.",
        "errors": "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError; "
        "nothing is written then.",
        "source": "The derivative of Ba, Kiros and Hinton, 2016; no paper's kernel.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dy": "the gradient that arrives at y",
    "x": "what layer_norm was given",
}

AUTOGRAD: dict[str, dict[str, str | dict[str, str]]] = {
    "layer_norm": {
        "backward": "layer_norm_backward",
        "saves": {"x": "x", "weight": "weight"},
        "takes": {"dy": "y"},
        "gives": {"x": "dx", "weight": "dweight", "bias": "dbias"},
    },
}
