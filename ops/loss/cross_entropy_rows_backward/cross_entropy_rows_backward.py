"""Docstring pieces of cross_entropy_rows_backward. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "cross_entropy_rows_backward": {
        "summary": "Gradient of cross_entropy_rows with respect to the logits.",
        "formula": (
            "p = exp(x − lse); dlogits = p · (dloss · ((1 − ε) · w_t + ε/C · sum(w)) + dlse) − "
            "dloss · ε/C · w − [c = t] · dloss · (1 − ε) · w_t, times 1 − (x / softcap)² of the "
            "capped logit x"
        ),
        "shapes": (
            "dloss, lse, dlse [*T, 1], logits [*T, C], target [*T], class_weight [C], weight_sum "
            "[] -> dlogits [*T, C]. Any leading dimensions, any strides."
        ),
        "dtypes": (
            "logits is f32, f16 or bf16; dlogits has logits' dtype; target is i32 or i64; all "
            "others are f32."
        ),
        "aliasing": (
            "cross_entropy_rows_backward_(...) or out=logits writes over logits; other overlaps "
            "are refused."
        ),
        "numerics": (
            "Computes in f32 with one read and one write, and rounds once, at the store. Rows "
            "whose target is ignore_index get p · dlse: zeros where dlse is 0 or absent; any other "
            "target below 0, or C and above, gives NaN. Inside deterministic(), results have the "
            "same bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written."
        ),
        "source": "Derivative of cross_entropy_rows; not from a paper.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dloss": "gradient with respect to loss",
    "dlse": "gradient with respect to lse; 0 if not given",
    "lse": "lse as returned by cross_entropy_rows",
}
