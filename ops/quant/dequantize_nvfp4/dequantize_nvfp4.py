"""Docstring pieces of dequantize_nvfp4. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "dequantize_nvfp4": {
        "summary": "Floats out of the codes and scales of quantize_nvfp4.",
        "formula": "y = q · scale of its 16 columns · global_scale",
        "shapes": "q [*T, P], scale [*T, ceil(P / 8)], global_scale [] -> y [*T, 2P]; any strides.",
        "dtypes": (
            "q u8: two e2m1 codes, the first in the low half, as quantize_nvfp4 gives them; "
            "scale f8e4m3; global_scale f32; y f32 (none, the "
            "default), f16 or bf16."
        ),
        "aliasing": "The result shares no memory with inputs: any overlap is refused.",
        "numerics": "Products in f32, one rounding at the store. NaN of a scale is NaN.",
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError; nothing is "
            "written then."
        ),
        "source": "NVIDIA, Pretraining Large Language Models with NVFP4, 2025.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "out_dtype": "of y; none: f32",
    "global_scale": "what all scales are multiplied with",
}
