"""Docstring pieces of dequantize_nvfp4. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "dequantize_nvfp4": {
        "summary": "Converts the codes and scales of quantize_nvfp4 to floats.",
        "formula": "y = q · scale of its 16 columns · global_scale",
        "shapes": "q [*T, P], scale [*T, ceil(P / 8)], global_scale [] -> y [*T, 2P]; any strides.",
        "dtypes": (
            "q is u8: two e2m1 codes, the first in the low half, as quantize_nvfp4 returns them; "
            "scale is f8e4m3; global_scale is f32; y is f32 (none, the default), f16 or bf16."
        ),
        "aliasing": "The result shares no memory with inputs: any overlap is refused.",
        "numerics": "Multiplies in f32 and rounds once, at the store. A scale of NaN gives NaN.",
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written."
        ),
        "source": "NVIDIA, Pretraining Large Language Models with NVFP4, 2025.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "out_dtype": "dtype of y; f32 if not given",
    "global_scale": "factor of all scales",
}
