"""Docstring pieces of silu_and_mul_quant_masked. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "silu_and_mul_quant_masked": {
        "summary": "silu_and_mul in 8 bits for the valid rows of each expert.",
        "formula": (
            "y = silu(x[:F]) · x[F:] in rows below masked_m; scale = max |y| / largest of each "
            "group; q = round(y / scale)"
        ),
        "shapes": (
            "x [E, M, 2F], masked_m [E] -> q [E, M, F], scale [E, M, ceil(F / group)]; any strides."
        ),
        "dtypes": (
            "x is f32, f16 or bf16; masked_m is i32 or i64; q is f8e4m3 (none, the default; "
            "largest value 448), f8e5m2 (57344) or i8 (127); scale is f32."
        ),
        "aliasing": "Results share no memory with inputs: any overlap is refused.",
        "numerics": (
            "As silu_and_mul_quant_group. Rows masked_m[e] … M - 1 of expert e are not read, and q "
            "and scale are not written there: their contents are undefined."
        ),
        "errors": (
            "ShapeMismatchError (an odd last dimension), UnsupportedDtypeError, DeviceError, "
            "ArgumentError (another group; on CPUs a count outside 0 … M, which GPUs clamp). On "
            "error nothing is written."
        ),
        "source": "DeepGEMM's masked grouped products: the activation between the two.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "x": "gate and up projections, concatenated; the first half is the gate",
    "masked_m": "number of rows of each expert, its first ones",
    "group": "columns that share a scale: 1, 2, 4 … 128",
    "dtype": "dtype of q; f8e4m3 if not given",
}
