"""Docstring pieces of silu_and_mul_quant_masked. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "silu_and_mul_quant_masked": {
        "summary": "silu_and_mul in 8 bits for the rows that each expert has.",
        "formula": (
            "y = silu(x[:F]) · x[F:] in rows below masked_m; scale = max |y| / largest of each "
            "group; q = round(y / scale)"
        ),
        "shapes": (
            "x [E, M, 2F], masked_m [E] -> q [E, M, F], scale [E, M, ceil(F / group)]; any strides."
        ),
        "dtypes": (
            "x f32, f16 or bf16; masked_m i32 or i64; q f8e4m3 (none, the default: largest 448), "
            "f8e5m2 (57344) or i8 (127); scale f32."
        ),
        "aliasing": "Results share no memory with inputs: any overlap is refused.",
        "numerics": (
            "As silu_and_mul_quant_group. Rows masked_m[e] … M - 1 of expert e are not read, and "
            "what q and scale hold there is not written: anything."
        ),
        "errors": (
            "ShapeMismatchError (an odd last dimension), UnsupportedDtypeError, DeviceError, "
            "ArgumentError (another group); nothing is written then. masked_m is not looked at: "
            "negative counts are 0, those beyond M are M."
        ),
        "source": "DeepGEMM's masked grouped products: the activation between the two.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "x": "gate and up projection side by side: the first half is the gate",
    "masked_m": "rows that each expert has, the first ones",
    "group": "columns that share a scale: 1, 2, 4 … 128",
    "dtype": "of q; none: f8e4m3",
}
