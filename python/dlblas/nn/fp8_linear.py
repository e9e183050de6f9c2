"""FP8Linear: a linear layer that keeps its weight as f8 codes and one scale, and nothing else of
it.

Read next: ../../../ops/gemm/api.py (the product), ../triton_ops/kernels/fp8_gemm.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from .._arguments import hinted
from .._faces import quantize
from .._functions import FUNCTIONS
from .._given import as_matrix
from ..errors import ArgumentError, ShapeMismatchError
from ._autocast import cast

_scaled_mm_channel = FUNCTIONS["scaled_mm_channel"].call
_F8 = torch.float8_e4m3fn


@hinted
class FP8Linear(torch.nn.Module):
    """``y = x · weightᵀ / weight_scale + bias`` of x ``[…, in_features]``, in x's dtype.

    ``weight`` ``[out_features, in_features]`` is float8_e4m3fn, ``weight_scale`` the f32 number
    that *multiplied* it (``448 / max |weight|``): buffers, a quarter of the memory of f32. Rows of
    x are quantised when they come, each with its own scale; products as ``dlblas.scaled_mm``, one
    rounding. Without gradient: for inference.

    ``state_dict`` holds weight and weight_scale. A float weight is quantised when it is loaded, so
    the state of a ``torch.nn.Linear`` loads as it is; ``FP8Linear.from_linear`` takes the layer
    itself. ``.half()``, ``.to(dtype)`` and the like change the bias alone.
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
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        codes = torch.zeros(out_features, in_features, device=device, dtype=torch.uint8)
        self.register_buffer("weight", codes.view(_F8))
        self.register_buffer("weight_scale", torch.ones((), device=device))
        self.bias = None
        if bias:
            given = torch.zeros(out_features, device=device, dtype=dtype)
            self.bias = torch.nn.Parameter(given)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As torch.nn.Linear draws them."""
        if self.weight.is_meta:
            return
        bound = 1 / math.sqrt(self.in_features) if self.in_features else 0.0
        drawn = torch.empty(self.weight.shape, device=self.weight.device)
        self.quantize_weights(drawn.uniform_(-bound, bound))
        if self.bias is not None:
            torch.nn.init.uniform_(self.bias, -bound, bound)

    @torch.no_grad()
    def quantize_weights(self, weight: torch.Tensor | None = None) -> None:
        """Takes this float weight in place of its own, quantised; without one there is nothing to
        do, for it is quantised already."""
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
        """A layer with this one's weight, quantised, and a copy of its bias."""
        has_bias, weight = linear.bias is not None, linear.weight
        layer = cls(linear.in_features, linear.out_features, has_bias, device="meta")
        layer.weight = torch.empty(weight.shape, device=weight.device, dtype=_F8)
        layer.weight_scale = torch.ones((), device=weight.device)
        layer.quantize_weights(weight)
        if has_bias:
            layer.bias = torch.nn.Parameter(linear.bias.detach().clone())
        return layer.train(linear.training)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        (x,) = cast(x)
        rows = as_matrix(x)
        codes, steps = quantize(rows, "token", _F8)
        y: torch.Tensor = _scaled_mm_channel(
            codes, self.weight.t(), steps, (1 / self.weight_scale).reshape(1),
            bias=None if self.bias is None else self.bias.detach(), out_dtype=x.dtype,
        )  # fmt: skip
        return y.reshape(*x.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, bias={self.bias is not None}"

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> FP8Linear:
        """Codes and their scale keep their dtypes, whatever the others become."""
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
