"""Docstring pieces of layer_norm. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "layer_norm": {
        "summary": "Layer normalisation of the last dimension.",
        "formula": "y = (x − mean_C(x)) · rsqrt(var_C(x) + eps) · weight + bias",
        "shapes": "x [*T, C], weight, bias [C] -> y [*T, C]; any leading dimensions, any strides.",
        "dtypes": "x is f32, f16 or bf16, y alike; weight and bias each have x's dtype or f32.",
        "aliasing": "layer_norm_(x, ...) or out=x writes y over x; other overlaps are refused.",
        "numerics": (
            "Computes in f32 and rounds once, at the store. The variance is biased and computed "
            "from differences to the mean, corrected by their sum: a large mean costs no accuracy. "
            "Rows with NaN or inf are NaN; rows whose sums f32 cannot hold are undefined: from C · "
            "max |x| of 2^126, or Σ (x − mean)² of 2^208 with eps = 1e-5 (less with a smaller "
            "eps). Inside deterministic(), results have the same bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written."
        ),
        "source": "Ba, Kiros and Hinton, Layer Normalization, 2016; torch's layer_norm.",
    },
}

HINTS: dict[str, str] = {"weight": "leave normalized_shape out: layer_norm(x, weight)"}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {"bias": "added after the weight, one value per column; 0 if absent"}
