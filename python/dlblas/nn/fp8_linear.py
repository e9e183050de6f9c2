"""FP8Linear: a linear layer that stores its weight only as f8 codes and one scale. Gradients flow
to x and to bias.

Read next: ../../../ops/gemm/api.py (the product), ../triton_ops/kernels/fp8_gemm.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from .._arguments import hinted
from .._faces import dequantize, quantize
from .._functions import FUNCTIONS
from .._given import as_matrix, asks_for_gradients, no_array
from ..errors import ArgumentError, ShapeMismatchError
from ._autocast import cast
from ._offered import check_offered
from ._shape import check_sizes
from .linear import Linear

_matmul = FUNCTIONS["matmul"].call
_scaled_mm_channel = FUNCTIONS["scaled_mm_channel"].call
_F8 = torch.float8_e4m3fn
_ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": torch.nn.functional.relu,
    "leaky_relu": torch.nn.functional.leaky_relu,
    "gelu": torch.nn.functional.gelu,
    "silu": torch.nn.functional.silu,
}


def _product(
    rows: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor | None,
    out_dtype: torch.dtype,
) -> torch.Tensor:  # fmt: skip
    codes, steps = quantize(rows, "token", _F8)
    y: torch.Tensor = _scaled_mm_channel(
        codes, weight.t(), steps, (1 / scale).reshape(1), bias=bias, out_dtype=out_dtype
    )
    return y


class _Product(torch.autograd.Function):
    """Its gradients are those of x · weightᵀ + bias with the dequantised weight: a straight-through
    estimate for the rounding of x, whose derivative is 0 or undefined."""

    @staticmethod
    def forward(
        ctx: Any, rows: Any, weight: Any, scale: Any, bias: Any, out_dtype: torch.dtype
    ) -> Any:
        ctx.save_for_backward(weight, scale)
        ctx.dtype, ctx.bias_dtype = rows.dtype, None if bias is None else bias.dtype
        flat = None if bias is None else bias.detach()
        return _product(rows.detach(), weight, scale, flat, out_dtype)

    @staticmethod
    def backward(ctx: Any, dy: Any) -> tuple[Any, ...]:
        weight, scale = ctx.saved_tensors
        drows = dbias = None
        if ctx.needs_input_grad[0]:
            drows = _matmul(dy.to(ctx.dtype), dequantize(weight, 1 / scale, ctx.dtype))
        if ctx.needs_input_grad[3]:
            dbias = dy.sum(0, dtype=torch.float32).to(ctx.bias_dtype)
        return drows, None, None, dbias, None


@hinted
class FP8Linear(torch.nn.Module):
    """``y = act(x · weightᵀ / weight_scale + bias)`` of x ``[…, in_features]``, in x's dtype.

    ``weight`` ``[out_features, in_features]`` is float8_e4m3fn, ``weight_scale`` the f32 number
    that *multiplied* it (``448 / max |weight|``): buffers, a quarter of the memory of f32. Rows of
    x are quantised in each call, each with its own scale; products as in ``dlblas.scaled_mm``, with
    one rounding. ``activation`` is that of ``dlblas.nn.Linear``, applied to the f32 sums in a
    separate pass.

    x and bias have gradients: those of the product of the unquantised x with the dequantised
    weight. weight has none. Errors: ShapeMismatchError for x of another width; those of
    ``dlblas.quantize``.

    ``state_dict`` holds weight and weight_scale. A float weight is quantised on loading, so the
    state of a ``torch.nn.Linear`` loads unchanged; ``FP8Linear.from_linear`` converts the layer
    itself. ``.half()``, ``.to(dtype)`` and the like change only the bias.
    """

    weight: torch.Tensor
    weight_scale: torch.Tensor
    bias: torch.nn.Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = False,
        *,
        activation: str = "",
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_sizes("FP8Linear", in_features=in_features, out_features=out_features)
        check_offered("FP8Linear", "activation", activation, ("", *_ACTIVATIONS))
        self.in_features, self.out_features = in_features, out_features
        self.activation = activation
        codes = torch.zeros(out_features, in_features, device=device, dtype=torch.uint8)
        self.register_buffer("weight", codes.view(_F8))
        self.register_buffer("weight_scale", torch.ones((), device=device))
        self.bias = None
        if bias:
            given = torch.zeros(out_features, device=device, dtype=dtype)
            self.bias = torch.nn.Parameter(given)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws weight and bias as torch.nn.Linear does."""
        if self.weight.is_meta:
            return
        bound = 1 / math.sqrt(self.in_features) if self.in_features else 0.0
        drawn = torch.empty(self.weight.shape, device=self.weight.device)
        self.quantize_weights(drawn.uniform_(-bound, bound))
        if self.bias is not None:
            torch.nn.init.uniform_(self.bias, -bound, bound)

    @torch.no_grad()
    def quantize_weights(self, weight: torch.Tensor | None = None) -> None:
        """Quantises this float ``weight`` and replaces the current one; without an argument does
        nothing, since the current weight is already quantised."""
        if weight is None:
            return
        if tuple(weight.shape) != (self.out_features, self.in_features):
            expected, got = (self.out_features, self.in_features), tuple(weight.shape)
            raise ShapeMismatchError.from_library(
                f"FP8Linear: weight has another shape; expected {expected}, got {got}",
                "FP8Linear", "weight", str(expected), str(got),
            )  # fmt: skip
        codes, step = quantize(weight.detach().to(self.weight.device), "tensor", _F8)
        self.weight, self.weight_scale = codes, 1 / step

    @classmethod
    def from_linear(cls, linear: torch.nn.Linear) -> FP8Linear:
        """Converts ``linear``: quantises its weight, copies its bias, and takes the activation of a
        ``dlblas.nn.Linear``."""
        has_bias, weight = linear.bias is not None, linear.weight
        activation = linear.activation if isinstance(linear, Linear) else ""
        layer = cls(
            linear.in_features, linear.out_features, has_bias, activation=activation, device="meta"
        )
        layer.weight = torch.empty(weight.shape, device=weight.device, dtype=_F8)
        layer.weight_scale = torch.ones((), device=weight.device)
        layer.quantize_weights(weight)
        if has_bias:
            layer.bias = torch.nn.Parameter(linear.bias.detach().clone())
        return layer.train(linear.training)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not isinstance(x, torch.Tensor):
            raise no_array("FP8Linear", "x", x, "a torch tensor")
        if tuple(x.shape[-1:]) != (self.in_features,):
            expected, got = f"[…, {self.in_features}]", str(tuple(x.shape))
            raise ShapeMismatchError.from_library(
                f"FP8Linear: x has another width; expected {expected}, got {got}",
                "FP8Linear", "x", expected, got,
            )  # fmt: skip
        (x,) = cast(x)
        product: Callable[..., torch.Tensor] = _product
        if asks_for_gradients(x, self.bias):
            product = _Product.apply
        made = torch.float32 if self.activation else x.dtype
        y = product(as_matrix(x), self.weight, self.weight_scale, self.bias, made)
        if self.activation:
            y = _ACTIVATIONS[self.activation](y).to(x.dtype)
        return y.reshape(*x.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        text = f"{self.in_features}, {self.out_features}, bias={self.bias is not None}"
        return text + (f", activation={self.activation!r}" if self.activation else "")

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> FP8Linear:
        """The codes and their scale keep their dtypes, whatever ``fn`` does to the others."""
        weight, scale = self.weight, self.weight_scale
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self.weight.dtype != _F8:
            self.weight = weight.to(self.weight.device)
        if self.weight_scale.dtype != torch.float32:
            self.weight_scale = scale.to(self.weight_scale.device)
        return self

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        key, scale_key = f"{prefix}weight", f"{prefix}weight_scale"
        given = state_dict.get(key)
        if given is not None and given.dtype != _F8:
            if not given.is_floating_point():
                raise ArgumentError.from_library(
                    f"FP8Linear: weight has another dtype; expected floats or {_F8}, got "
                    f"{given.dtype}",
                    "FP8Linear", "weight", f"floats or {_F8}", str(given.dtype),
                )  # fmt: skip
            codes, step = quantize(given.detach(), "tensor", _F8)
            state_dict = {**state_dict, key: codes, scale_key: 1 / step}
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
