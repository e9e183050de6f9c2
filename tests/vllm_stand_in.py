"""A small stand-in for what dlblas.vllm uses of vLLM: modules ``vllm``, ``vllm.ir`` and
``vllm.envs`` with the rules of vLLM 0.33 for implementations, dispatch, priorities and in-place
forms.

Left out: vLLM's own torch operators, logging, compilation passes. Used by: test_vllm.py, which also
runs its tests on a real ``vllm.ir`` where there is one.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch.library import infer_schema


class Implementation:
    def __init__(
        self, op: Op, provider: str, function: Any, supported: bool, takes: Any, inplace: bool
    ) -> None:
        self.provider, self.impl_fn, self.supported = provider, function, supported
        self.takes, self.inplace, self.op = takes, inplace, op

    def supports_args(self, *args: Any) -> bool:
        return self.takes is None or bool(self.takes(*args))

    def func_impl_fn(self, *args: Any) -> Any:
        """Out of place: an implementation that overwrites activations gets copies of them."""
        if not self.inplace:
            return self.impl_fn(*args)
        places = self.op.activations
        return self.impl_fn(*(a.clone() if i in places else a for i, a in enumerate(args)))


class Op:
    """An operator; parameters whose names begin with x are activations."""

    def __init__(self, native: Callable[..., Any], allow_inplace: bool = False) -> None:
        self.schema = infer_schema(native, mutates_args=())
        self.parameters = inspect.signature(native).parameters
        self.activations = [i for i, name in enumerate(self.parameters) if name.startswith("x")]
        self.allow_inplace = allow_inplace
        self.impls = {"native": Implementation(self, "native", native, True, None, False)}
        self.priority: list[Implementation] = []

    def register_impl(
        self,
        provider: str,
        *,
        supported: bool = True,
        supports_args: Callable[..., bool] | None = None,
        inplace: bool = False,
    ) -> Callable[[Callable[..., Any]], Implementation]:
        assert provider not in self.impls and provider not in ("native", "unfused")
        assert self.allow_inplace or not inplace

        def register(function: Callable[..., Any]) -> Implementation:
            schema = infer_schema(function, mutates_args=())
            if schema != self.schema:
                raise ValueError(f"schema {schema}; the native one is {self.schema}")
            if supports_args is not None:
                theirs = inspect.signature(supports_args).parameters
                if [(p.name, p.default) for p in theirs.values()] != [
                    (p.name, p.default) for p in self.parameters.values()
                ]:
                    raise ValueError(f"supports_args has the parameters {list(theirs)}")
            made = Implementation(self, provider, function, supported, supports_args, inplace)
            self.impls[provider] = made
            return made

        return register

    @contextlib.contextmanager
    def set_priority(self, names: list[str]) -> Iterator[None]:
        before = self.priority
        self.priority = [self.impls[name] for name in names if self.impls[name].supported]
        try:
            yield
        finally:
            self.priority = before

    def get_priority(self) -> list[str]:
        return [one.provider for one in self.priority]

    def dispatch(self, *args: Any) -> Implementation:
        native = self.impls["native"]
        return next((one for one in self.priority if one.supports_args(*args)), native)

    def __call__(self, *args: Any) -> Any:
        return self.dispatch(*args).func_impl_fn(*args)

    def maybe_inplace(self, *args: Any) -> Any:
        return self.dispatch(*args).impl_fn(*args)


def rms_norm(
    x: torch.Tensor, weight: torch.Tensor | None, epsilon: float, variance_size: int | None = None
) -> torch.Tensor:
    wide = x.float()
    y = wide * torch.rsqrt(wide[..., :variance_size].square().mean(-1, keepdim=True) + epsilon)
    return (y if weight is None else y.to(weight.dtype) * weight).to(x.dtype)


def fused_add_rms_norm(
    x: torch.Tensor,
    x_residual: torch.Tensor,
    weight: torch.Tensor | None,
    epsilon: float,
    variance_size: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Statistics of the sum before rounding: vLLM's definition, not its CUDA kernel's."""
    total = x.float() + x_residual.float()
    return rms_norm(total, weight, epsilon, variance_size).to(x.dtype), total.to(x.dtype)


def modules(*, ops: dict[str, Any] | None = None, plugins: list[str] | None = None) -> Any:
    """For ``sys.modules``. ``ops`` replaces the two operators; ``plugins`` is VLLM_PLUGINS."""
    vllm, ir, envs = ModuleType("vllm"), ModuleType("vllm.ir"), ModuleType("vllm.envs")
    given = {"rms_norm": Op(rms_norm), "fused_add_rms_norm": Op(fused_add_rms_norm, True)}
    vars(vllm).update(__version__="0.33.0 in small", __path__=[], ir=ir, envs=envs)
    vars(ir).update(ops=SimpleNamespace(**(given if ops is None else ops)))
    vars(envs).update(VLLM_PLUGINS=plugins)
    return {"vllm": vllm, "vllm.ir": ir, "vllm.envs": envs}
