"""Docstring pieces of moe_sum. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "moe_sum": {
        "summary": "Sums the outputs of each token's experts.",
        "formula": "y = Σ_k x",
        "shapes": "x [*T, k, C] -> y [*T, C]; any leading dimensions, any strides.",
        "dtypes": "x is f32, f16 or bf16; y has x's dtype.",
        "aliasing": "y shares no memory with x.",
        "numerics": (
            "Adds in f32 from the first expert to the last and rounds once, at the store. Without "
            "experts (k = 0), y is 0. Results have the same bits in any batch."
        ),
        "errors": "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError.",
        "source": (
            "Shazeer et al., Outrageously Large Neural Networks, 2017; as in vLLM and SGLang."
        ),
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {"x": "outputs of each token's k experts, already weighted"}

AUTOGRAD = {"moe_sum": {"formula": "moe_gradient", "second": "formula", "reads": ()}}
