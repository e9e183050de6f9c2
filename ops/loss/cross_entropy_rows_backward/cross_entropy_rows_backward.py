"""Docstring pieces of cross_entropy_rows_backward. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "cross_entropy_rows_backward": {
        "summary": "The gradient of cross_entropy_rows in its logits.",
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
            "logits f32, f16 or bf16; dlogits logits' dtype; target i32 or i64; all others f32."
        ),
        "aliasing": (
            "cross_entropy_rows_backward_(...) or out=logits writes over logits; other overlaps "
            "are refused."
        ),
        "numerics": (
            "In f32, one read and one write, one rounding, at the store. Rows whose target is "
            "ignore_index get p · dlse, zeros where dlse is 0 or absent; a target below 0 or from "
            "C on gives NaN. Inside deterministic(), the same bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError; "
            "nothing is written then."
        ),
        "source": "The derivative of cross_entropy_rows; no paper's kernel.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dloss": "the gradient that arrives at loss",
    "dlse": "the gradient that arrives at lse; none: 0",
    "lse": "what cross_entropy_rows returned",
}
