"""Offers operators to vLLM: ``register`` adds implementations called ``dlblas``, which vLLM uses
where a priority list names them.

In: a vLLM with operators of its own (``vllm.ir``: 0.20 to 0.33). Out: the names of those that are
offered now; nothing is replaced. vLLM is imported by ``register()`` and ``plug_in()`` alone. Entry
point of ``vllm.general_plugins``: ``plug_in``. Read next: docs/torch.md, hf.py.
"""

from __future__ import annotations

import importlib
import inspect
import logging
from collections.abc import Callable
from typing import Any

import torch

from ._torch_bridge import attach_torch
from .errors import UnsupportedError

__all__ = ["plug_in", "register"]

PROVIDER = "dlblas"

_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


# ---- what is offered -----------------------------------------------------------------------------
# vLLM compares annotations, names and defaults with its own. Calls go through torch.ops: they are
# traced with fake tensors outside torch.compile too, where a function of ours would compute.


def _rounds_first(x: torch.Tensor, weight: torch.Tensor | None) -> bool:
    """Whether to round before the weight: vLLM rounds to the weight's dtype, so not at all if that
    is f32."""
    return weight is not None and weight.dtype == x.dtype


def _rms_norm(
    x: torch.Tensor, weight: torch.Tensor | None, epsilon: float, variance_size: int | None = None
) -> torch.Tensor:
    first = _rounds_first(x, weight)
    y: torch.Tensor = torch.ops.dlblas.rms_norm(x, weight, epsilon, 0.0, first)
    return y


def _takes_rms_norm(
    x: torch.Tensor, weight: torch.Tensor | None, epsilon: float, variance_size: int | None = None
) -> bool:
    return (
        variance_size is None
        and x.device.type in ("cpu", "cuda")
        and x.dtype in _DTYPES
        and x.dim() > 0
        and x.stride(-1) == 1
        and (
            weight is None
            or (
                weight.dtype in (x.dtype, torch.float32)
                and weight.device == x.device
                and weight.shape == x.shape[-1:]
                and weight.stride(0) == 1
            )
        )
    )


def _fused_add_rms_norm(
    x: torch.Tensor,
    x_residual: torch.Tensor,
    weight: torch.Tensor | None,
    epsilon: float,
    variance_size: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Writes over its inputs. Statistics are those of the rounded sum, as in vLLM's own CUDA
    kernel."""
    first = _rounds_first(x, weight)
    torch.ops.dlblas.add_rms_norm_(x, x_residual, weight, epsilon, 0.0, first)
    return x, x_residual


def _takes_fused_add_rms_norm(
    x: torch.Tensor,
    x_residual: torch.Tensor,
    weight: torch.Tensor | None,
    epsilon: float,
    variance_size: int | None = None,
) -> bool:
    return (
        _takes_rms_norm(x, weight, epsilon, variance_size)
        and x_residual is not x  # both are written
        and x_residual.dtype == x.dtype
        and x_residual.device == x.device
        and x_residual.shape == x.shape
        and x_residual.stride(-1) == 1
        and not _wants_gradient(x, x_residual, weight)  # nothing is kept for a backward pass
    )


def _wants_gradient(*tensors: torch.Tensor | None) -> bool:
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


# Name -> the implementation, which calls it takes, and whether it writes over its inputs.
_OFFERED: dict[str, tuple[Callable[..., Any], Callable[..., bool], bool]] = {
    "rms_norm": (_rms_norm, _takes_rms_norm, False),
    "fused_add_rms_norm": (_fused_add_rms_norm, _takes_fused_add_rms_norm, True),
}


# ---- is it the same? -----------------------------------------------------------------------------


def _expected(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    y = x.float()
    y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + epsilon)
    return (y.to(weight.dtype) * weight).to(x.dtype)


def _check(name: str, native: Callable[..., Any]) -> None:
    """Refuses an operator of this name that computes something else: a rounding in another place
    shows in bf16. Small, and with torch alone: vLLM may fork later."""
    with torch.device("cpu"), torch.no_grad():
        x = (torch.arange(64 * 64).sin() * torch.arange(1, 65).repeat_interleave(64)).view(64, 64)
        x, weight = x.bfloat16(), torch.arange(64).cos()
        nothing = (torch.zeros_like(x),) if "add" in name else ()
        for w in (weight.bfloat16(), weight):
            expected = _expected(x, w, 1e-6)
            got = native(x, *nothing, w, 1e-6)
            got = got[0] if nothing else got
            off = 1.0 if got.dtype != x.dtype else (got != expected).float().mean().item()
            if off > 1e-3:
                raise _refusal(
                    f"{name} computes something else with a weight of {w.dtype}",
                    "x · rsqrt(mean(x²) + eps), rounded to the weight's dtype, times the weight",
                    f"{off:.1%} of other values",
                )


def _refusal(problem: str, expected: str, got: str) -> UnsupportedError:
    text = f"vllm: {problem}; expected {expected}, got {got}; leave dlblas out of its priorities"
    error = UnsupportedError.from_library(text, "vllm", "", expected, got)
    assert isinstance(error, UnsupportedError)
    return error


# ---- registration --------------------------------------------------------------------------------


def _import_ops() -> tuple[Any, str]:
    """vLLM's operators, and its version."""
    expected = "a vLLM with operator priorities (0.20 to 0.33)"
    try:
        version = str(getattr(importlib.import_module("vllm"), "__version__", "without a version"))
    except ImportError as why:
        raise _refusal("it cannot be imported", expected, repr(why)) from why
    try:
        return importlib.import_module("vllm.ir").ops, version
    except (ImportError, AttributeError) as why:
        raise _refusal("it has no vllm.ir.ops", expected, f"vllm {version}: {why!r}") from why


def register() -> tuple[str, ...]:
    """Offers ``rms_norm`` and ``fused_add_rms_norm`` to vLLM, as implementations called ``dlblas``.

    Returns the names of those that this vLLM has; a second call changes nothing. vLLM's behaviour
    changes only once a priority list names ``dlblas``: ``--ir-op-priority.rms_norm=dlblas``,
    ``LLM(…, ir_op_priority={"rms_norm": ["dlblas"]})``. The roundings are vLLM's, except that the
    norm after a sum is computed from the rounded sum, as in vLLM's own kernel. Calls with
    ``variance_size``, other dtypes or rows that are not dense go to the next entry of the list.
    Raises UnsupportedError if there is no vLLM, if it has no ``vllm.ir``, or if its operators take
    or compute something else.
    """
    ops, version = _import_ops()
    unusable = attach_torch()
    if unusable:
        raise _refusal("torch has no operators of dlblas", "torch ≥ 2.10", unusable)
    offered = tuple(name for name in _OFFERED if hasattr(ops, name))
    if not offered:
        wanted = " or ".join(_OFFERED)
        raise _refusal("it has no operator that is offered here", wanted, f"vllm {version}")
    for name in offered:
        _offer(name, getattr(ops, name), version)
    return offered


def _offer(name: str, op: Any, version: str) -> None:
    ours, takes, in_place = _OFFERED[name]
    try:
        if PROVIDER in op.impls:
            return
        native = op.impls["native"].impl_fn
        expected, got = (str(tuple(inspect.signature(f).parameters)) for f in (ours, native))
        if got != expected:
            raise _refusal(f"{name} has other parameters", expected, f"{got} of vllm {version}")
        _check(name, native)
        more = {"inplace": True} if in_place else {}
        # ROCm's tensors report the device type cuda, too.
        supported = torch.version.hip is None
        op.register_impl(PROVIDER, supported=supported, supports_args=takes, **more)(ours)
    except UnsupportedError:
        raise
    except Exception as why:  # whatever another interface raises
        wanted = "IrOp.register_impl(provider, supported=, supports_args=, inplace=)"
        raise _refusal(
            f"{name} takes no implementation", wanted, f"vllm {version}: {why!r}"
        ) from why


def plug_in() -> None:
    """Calls ``register()`` for vLLM, which loads every installed plug-in. If the plug-in cannot
    serve, it says so in the log ``dlblas``, at INFO; it raises only if ``VLLM_PLUGINS`` names
    it."""
    try:
        register()
    except UnsupportedError as why:
        allowed = getattr(importlib.import_module("vllm.envs"), "VLLM_PLUGINS", None)
        if allowed and PROVIDER in allowed:
            raise
        logging.getLogger("dlblas").info("%s", why)
