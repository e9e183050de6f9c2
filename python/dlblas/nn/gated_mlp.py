"""GatedMLP: a feed-forward layer of three projections, and FusedGatedMLP, its gated part in the
form of Triton Fused Operators.

Read next: ../../../ops/mlp/api.py.
"""

from __future__ import annotations

from typing import Any

import torch

from .._arguments import hinted
from .._faces import fused_gated_mlp, gated_mlp
from ._autocast import cast
from ._offered import check_offered
from ._shape import check_sizes
from .linear import Linear


@hinted
class GatedMLP(torch.nn.Module):
    """``y = (act(x · gateᵀ) ⊙ (x · upᵀ)) · downᵀ`` of x ``[*T, hidden_dim]``.

    ``gate_proj``, ``up_proj`` and ``down_proj`` hold only weights, under the names of Hugging
    Face's Llama, Mistral and Qwen. ``activation``: ``silu``, ``gelu`` (erf), ``gelu_tanh`` or
    ``relu``, applied to the gate, or with ``activate="up"`` to the other branch. Without ``down``
    y is ``[*T, intermediate_dim]``, and there is no ``down_proj``. Inside torch.autocast, x and
    the weights are cast as in torch's linear layers.
    """

    def __init__(
        self,
        hidden_dim: int,
        intermediate_dim: int,
        activation: str = "silu",
        *,
        activate: str = "gate",
        down: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_sizes("GatedMLP", hidden_dim=hidden_dim, intermediate_dim=intermediate_dim)
        check_offered("GatedMLP", "activation", activation, ("silu", "gelu", "gelu_tanh", "relu"))
        check_offered("GatedMLP", "activate", activate, ("gate", "up"))
        self.hidden_dim, self.intermediate_dim = hidden_dim, intermediate_dim
        self.activation, self.activate = activation, activate
        options: dict[str, Any] = {"bias": False, "device": device, "dtype": dtype}
        self.gate_proj = Linear(hidden_dim, intermediate_dim, **options)
        self.up_proj = Linear(hidden_dim, intermediate_dim, **options)
        self.down_proj = Linear(intermediate_dim, hidden_dim, **options) if down else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        down = None if self.down_proj is None else self.down_proj.weight
        x, gate, up, down = cast(x, self.gate_proj.weight, self.up_proj.weight, down)
        y: torch.Tensor = gated_mlp(
            x, gate, up, activation=self.activation, activate=self.activate, w_down=down
        )
        return y

    def extra_repr(self) -> str:
        return f"activation={self.activation!r}, activate={self.activate!r}"


@hinted
class FusedGatedMLP(torch.nn.Module):
    """``fused_gated_mlp(x, gate_weight, up_weight, activation)`` of x ``[*T, hidden_dim]``: the
    activation, ``silu`` or ``gelu``, acts on the *up* branch; y is ``[*T, intermediate_dim]``.

    ``gate_weight`` and ``up_weight`` are ``[intermediate_dim, hidden_dim]``, initialised like the
    weights of torch.nn.Linear.
    """

    gate_weight: torch.nn.Parameter
    up_weight: torch.nn.Parameter

    def __init__(
        self,
        hidden_dim: int,
        intermediate_dim: int,
        activation: str = "silu",
        *,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_sizes("FusedGatedMLP", hidden_dim=hidden_dim, intermediate_dim=intermediate_dim)
        check_offered("FusedGatedMLP", "activation", activation, ("silu", "gelu"))
        self.hidden_dim, self.intermediate_dim = hidden_dim, intermediate_dim
        self.activation = activation
        shape = (intermediate_dim, hidden_dim)
        self.gate_weight = torch.nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        self.up_weight = torch.nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for weight in (self.gate_weight, self.up_weight):
            torch.nn.init.kaiming_uniform_(weight, a=5**0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x, gate, up = cast(x, self.gate_weight, self.up_weight)
        y: torch.Tensor = fused_gated_mlp(x, gate, up, self.activation)
        return y

    def extra_repr(self) -> str:
        return f"{self.hidden_dim}, {self.intermediate_dim}, activation={self.activation!r}"
