"""Runs Hugging Face models on the operators: ``patch`` replaces parts of them, ``kernel_mapping``
offers layers to the ``kernels`` package.

In: a model of transformers, or none for all of a process. Out: a ``Patch``, which can undo itself.
Each replacement is first compared with the original, which stays if it computes something else.
transformers is imported by ``patch()`` and ``kernel_mapping()``, never before. Read next:
nn/llama_rms_norm.py, docs/torch.md.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import typing as _typing
from collections import Counter
from collections.abc import Callable, Iterator
from types import MethodType, ModuleType
from typing import Any

import torch

from . import _unknown
from ._arguments import hinted
from ._functions import FUNCTIONS
from .errors import ArgumentTypeError

__all__ = ["Patch", "kernel_mapping", "patch"]

_rms_norm, _scale_rows = FUNCTIONS["rms_norm"].call, FUNCTIONS["scale_rows"].call
_silu_mul = FUNCTIONS["silu_mul"].call
_apply_rotary = FUNCTIONS["apply_rotary_pos_emb"].call

_MODELING = re.compile(r"transformers\.models\.(llama|mistral|ministral|mixtral|qwen)\w*\.modeling")
_FAMILIES = (
    "llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "qwen3_next",
    "qwen3_5", "qwen3_5_moe",
)  # fmt: skip
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
_MLP_NAMES = {"down_proj", "act_fn", "gate_proj", "up_proj"}
_SILU = ("SiLU", "SiLUActivation")
# Classes that a report counts if they stay as they are; docs/torch.md says why they do.
_NAMED = re.compile(r"(RMSNorm(Gated)?|MLP|Experts|Router)$")
_MISSING = object()

Forward = Callable[..., Any]


def _ours(x: torch.Tensor) -> bool:
    return x.device.type in ("cpu", "cuda") and x.dtype in _DTYPES


def _normed(
    x: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    exact: bool,
    offset: float = 0.0,
    cast: bool = True,
) -> torch.Tensor:
    """``cast``: rounds before the weight, as Hugging Face's Llama does. ``exact``: torch computes
    the mean, in whatever order it sums; the rest, which has only one possible result, is ours."""
    options = {"weight_offset": offset, "cast_before_weight": cast}
    if exact:
        mean = x.to(torch.float32).pow(2).mean(-1, keepdim=True)
        y: torch.Tensor = _scale_rows(x, torch.rsqrt(mean + eps), weight, **options)
    elif torch.compiler.is_compiling():  # a graph holds operators, not functions of ours
        y = torch.ops.dlblas.rms_norm(x, weight, eps, offset, cast)
    else:
        y = _rms_norm(x, weight, eps, **options)
    return y


def _centred(x: torch.Tensor, weight: torch.Tensor, eps: float, exact: bool) -> torch.Tensor:
    """For weights that are added to 1, rounded once, as in Qwen3-Next."""
    return _normed(x, weight, eps, exact, 1.0, False)


def _gated(
    x: torch.Tensor, gate: torch.Tensor, weight: torch.Tensor, eps: float, exact: bool
) -> torch.Tensor:
    """The norm times silu(gate) in f32, with the roundings of Qwen3-Next."""
    y = _normed(x, weight, eps, exact) * torch.nn.functional.silu(gate.to(torch.float32))
    return y.to(x.dtype)


def _served(norm: Any, x: torch.Tensor, exact: bool) -> bool:
    """Whether our norm serves the call. A weight of another dtype is refused, because a wider one
    makes Llama's result wider. ``exact`` is refused with gradients, which it does not have, and
    under torch.compile, where torch sums in another order."""
    if norm.weight.dtype != x.dtype or not _ours(x):
        return False
    recorded = torch.is_grad_enabled() and (x.requires_grad or norm.weight.requires_grad)
    return not (exact and (recorded or torch.compiler.is_compiling()))


def _norm_forward(theirs: Any, exact: bool = False) -> Forward:
    def forward(self: Any, hidden_states: torch.Tensor) -> Any:
        if not _served(self, hidden_states, exact):
            return theirs(self, hidden_states)
        return _normed(hidden_states, self.weight, self.variance_epsilon, exact)

    return forward


def _centred_forward(theirs: Any, exact: bool = False) -> Forward:
    def forward(self: Any, x: torch.Tensor) -> Any:
        if not _served(self, x, exact) or getattr(self, "group_size", None) is not None:
            return theirs(self, x)
        return _centred(x, self.weight, self.eps, exact)

    return forward


def _gated_forward(theirs: Any, exact: bool = False) -> Forward:
    def forward(self: Any, hidden_states: torch.Tensor, gate: torch.Tensor) -> Any:
        silu = getattr(self, "activation", "silu") == "silu"
        if not _served(self, hidden_states, exact) or not silu:
            return theirs(self, hidden_states, gate)
        return _gated(hidden_states, gate, self.weight, self.variance_epsilon, exact)

    return forward


def _gated_product(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """silu(gate) · up, with silu and the product both rounded."""
    if torch.compiler.is_compiling():
        y: torch.Tensor = torch.ops.dlblas.silu_mul(gate, up, True)
        return y
    y = _silu_mul(gate, up, cast_before_mul=True)
    return y


def _mlp_forward(theirs: Any, exact: bool = False) -> Forward:
    def forward(self: Any, x: torch.Tensor) -> Any:
        if type(self.act_fn).__name__ not in _SILU or not _ours(x):
            return theirs(self, x)
        gate, up = self.gate_proj(x), self.up_proj(x)
        same = _ours(gate) and gate.dtype == up.dtype
        same = same and not (exact and gate.dtype == torch.float32)
        return self.down_proj(_gated_product(gate, up) if same else self.act_fn(gate) * up)

    return forward


def _rotated(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotates [B, S, H, D] by tables [B or 1, S, D]; the products and their sum are all rounded."""
    shape = (q.shape[0], q.shape[1], cos.shape[-1])
    tables = (cos.expand(shape), sin.expand(shape))
    made: tuple[torch.Tensor, torch.Tensor]
    if torch.compiler.is_compiling():
        made = torch.ops.dlblas.apply_rotary_pos_emb(q, k, *tables, "neox", True)
    else:
        made = _apply_rotary(q, k, *tables, cast_before_sum=True)
    return made


def _rotary(theirs: Callable[..., Any], exact: bool = False) -> Callable[..., Any]:
    def apply_rotary_pos_emb(
        q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor,
        unsqueeze_dim: int = 1,
    ) -> Any:  # fmt: skip
        """With the original's roundings, in one kernel."""
        tensors = (q, k, cos, sin)
        plain = q.dim() == 4 and cos.dim() == 3 and cos.shape[-1] == q.shape[-1]
        alike = all(t.dtype == q.dtype for t in tensors) and _ours(q)
        alike = alike and not (exact and q.dtype == torch.float32 and q.is_cuda)
        grad = torch.is_grad_enabled() and (cos.requires_grad or sin.requires_grad)
        if not (plain and alike and not grad and unsqueeze_dim in (1, 2)):
            return theirs(q, k, cos, sin, unsqueeze_dim=unsqueeze_dim)
        if unsqueeze_dim == 1:
            q, k = q.transpose(1, 2), k.transpose(1, 2)
        q, k = _rotated(q, k, cos, sin)
        return (q.transpose(1, 2), k.transpose(1, 2)) if unsqueeze_dim == 1 else (q, k)

    return apply_rotary_pos_emb


# ---- is it the same? -----------------------------------------------------------------------------

_tried: dict[Any, bool] = {}
_norms: dict[type, Callable[..., Forward] | None] = {}


def _norm_of(cls: type) -> Callable[..., Forward] | None:
    """Recognises a norm by name and by value: a gain that is added to 1, or another rounding, shows
    in bf16."""
    if not (re.search(r"RMSNorm(Gated)?$", cls.__name__) and _MODELING.match(cls.__module__)):
        return None
    if cls not in _norms:
        kinds = (_norm_forward, _centred_forward, _gated_forward)
        _norms[cls] = next((kind for kind in kinds if _agrees(cls, kind)), None)
    return _norms[cls]


def _agrees(cls: Any, kind: Callable[..., Forward]) -> bool:
    inputs = 2 if kind is _gated_forward else 1
    with torch.device("cpu"), torch.no_grad():
        x = (torch.arange(64 * 64).sin() * torch.arange(1, 65).repeat_interleave(64)).view(64, 64)
        given = (x.bfloat16(), x.T.bfloat16())[:inputs]
        try:
            norm = cls(64).to(torch.bfloat16)
            norm.weight.copy_(torch.arange(64).cos())
            expected = norm(*given)
            got = kind(None)(norm, *given)
        except Exception:  # whatever a class of another kind raises
            return False
    # Sums are in another order, so a value near a rounding tie occasionally rounds the other way.
    return got.dtype == expected.dtype and int((got != expected).sum()) <= 4


def _same_rotary(theirs: Callable[..., Any]) -> bool:
    """Whether ours agrees bit for bit in bf16, with heads before tokens and after them, on tables
    with unequal halves. Products and sums round alike on every device. A function that takes
    narrower tables is a partial rotation (Qwen3-Next's), which we would leave to the original in
    every call."""
    if list(inspect.signature(theirs).parameters) != ["q", "k", "cos", "sin", "unsqueeze_dim"]:
        return False
    ours = _rotary(theirs)
    with torch.device("cpu"), torch.no_grad():
        numbers = (torch.arange(2 * 3 * 5 * 16) * 0.7).sin().bfloat16()
        q, k = numbers.view(2, 3, 5, 16), numbers[160:320].view(2, 1, 5, 16)
        cos, sin = numbers[:160].view(2, 5, 16), numbers[-160:].view(2, 5, 16)
        for dim, heads in ((1, (q, k)), (2, (q.transpose(1, 2), k.transpose(1, 2)))):
            try:
                expected = theirs(*heads, cos, sin, unsqueeze_dim=dim)
                got = ours(*heads, cos, sin, unsqueeze_dim=dim)
                same = all(torch.equal(*pair) for pair in zip(got, expected, strict=True))
            except Exception:  # whatever a function of another kind raises
                return False
            if not same:
                return False
        try:
            theirs(q, k, cos[..., :8], sin[..., :8])
        except RuntimeError:
            return True
    return False


def _same_silu(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether our silu agrees: for 16-bit types on every value; for f32 up to the last places."""
    if (device, dtype) not in _tried:
        with torch.no_grad():
            bits = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32, device=device)
            x = bits.to(torch.int16).view(dtype) if dtype.itemsize == 2 else bits / 1024
            got, expected = _gated_product(x, torch.ones_like(x)), torch.nn.functional.silu(x)
            same = got == expected if dtype.itemsize == 2 else torch.isclose(got, expected)
            _tried[device, dtype] = bool((same | (got.isnan() & expected.isnan())).all())
    return _tried[device, dtype]


def _is_silu_mlp(cls: type) -> bool:
    code = getattr(cls.__dict__.get("forward"), "__code__", None)
    return bool(
        cls.__name__.endswith("MLP")
        and _MODELING.match(cls.__module__)
        and code
        and set(code.co_names) == _MLP_NAMES
    )


# ---- patching ------------------------------------------------------------------------------------


class Patch:
    """What ``patch`` has ``replaced``, and what it ``left`` of norms, MLPs, experts and rotations;
    ``undo()``, or the end of a ``with``, restores the originals."""

    def __init__(self) -> None:
        self.replaced: Counter[str] = Counter()
        self.left: Counter[str] = Counter()
        self._before: list[tuple[Any, str, Any, Any]] = []  # owner, name, what was there, ours

    def undo(self) -> None:
        """Restores the originals, except where something else has been installed since. Once
        undone, it does nothing."""
        for owner, name, before, ours in reversed(self._before):
            if vars(owner).get(name) is not ours:
                continue  # replaced by somebody else since
            if before is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
        self._before.clear()

    def __enter__(self) -> Patch:
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()

    def __repr__(self) -> str:
        words, left = _counted(self.replaced), _counted(self.left)
        undone = "" if self._before or not words else ", undone"
        left = left and f"; left as they are: {left}"
        return f"<dlblas.hf.Patch: {words or 'nothing'} replaced{undone}{left}>"

    def _put(self, owner: Any, name: str, ours: Any, what: str) -> None:
        self._before.append((owner, name, vars(owner).get(name, _MISSING), ours))
        setattr(owner, name, ours)
        self.replaced[what] += 1


def _counted(names: Counter[str]) -> str:
    return ", ".join(
        name if count == 1 else f"{count} {name}" for name, count in sorted(names.items())
    )


@hinted
def patch(
    model: torch.nn.Module | None = None, *, rotary: bool = True, exact: bool = False
) -> Patch:
    """Runs Hugging Face's Llama, Mistral and Qwen on the operators here.

    With ``model``, patches the modules of that model; without, the classes of these families, for
    every present and future model of this process. Parameters, ``state_dict`` and hooks stay. The
    result, ``<Patch: 5 LlamaRMSNorm, …>``, is undone by ``undo()``, or used as a context manager.

    - Norms that compute what ``LlamaRMSNorm`` does become ``rms_norm`` with ``cast_before_weight``,
      with gradients and with the same roundings. Sums are in another order, which moves about one
      bf16 element in 100,000 by one step. Norms whose weight is added to 1 (Qwen3-Next, Qwen3.5),
      rounded once, and the gated norms of these models are replaced in the same way.
    - The product of gated MLPs, silu(gate) · up, becomes ``silu_mul`` with ``cast_before_mul`` and
      with gradients. In 16 bits the results have the same bits: it is replaced only if silu agrees
      on all 65,536 values, which is tested on the device. In f32 they agree to the last places.
    - ``apply_rotary_pos_emb`` becomes the operator of that name with ``cast_before_sum``, with the
      same bits, and with gradients except in compiled graphs. It is a function of the family's
      file, so the patch holds for all models of the family until it is undone; ``rotary=False``
      leaves it.
    - ``exact=True``: a forward pass gives the original's bits. For a norm, torch then computes the
      mean, and ``scale_rows`` the rest; with gradients or compiled, norms stay as they are. So do,
      in f32, the products of MLPs and, on GPUs, rotations.
    - Routers and experts stay as they are, and are counted in ``left``: see docs/torch.md.
    """
    if not isinstance(model, torch.nn.Module | None):
        expected, got = "a torch.nn.Module, or None for all", type(model).__name__
        raise ArgumentTypeError.from_library(
            f"patch: model has the wrong type; expected {expected}, got {got}",
            "patch", "model", expected, got,
        )  # fmt: skip
    done = Patch()
    if model is None:
        for module in _modeling():
            _patch_classes(done, module, exact)
    else:
        _patch_modules(done, model, exact)
    modules = _modeling() if model is None else _files_of(model)
    for module in modules if rotary else ():
        theirs = vars(module).get("apply_rotary_pos_emb")
        if not callable(theirs) or _is_ours(theirs):
            continue
        name = f"apply_rotary_pos_emb of {module.__name__.rpartition('.')[2]}"
        if _same_rotary(theirs):
            done._put(module, "apply_rotary_pos_emb", _rotary(theirs, exact), name)
        else:
            done.left[name] += 1
    return done


def _is_ours(function: Any) -> bool:
    return getattr(function, "__module__", None) == __name__


def _modeling() -> list[ModuleType]:
    """The families' files: the plain ones, which it imports, and those that were imported
    already."""
    for family in _FAMILIES:
        try:
            importlib.import_module(f"transformers.models.{family}.modeling_{family}")
        except ModuleNotFoundError as error:  # an older transformers
            if error.name == "transformers":
                raise
    return [module for name, module in sorted(sys.modules.items()) if _MODELING.match(name)]


def _files_of(model: torch.nn.Module) -> list[ModuleType]:
    names = {type(module).__module__ for module in model.modules()}
    here = (name for name in sorted(names) if _MODELING.match(name) and name in sys.modules)
    return [sys.modules[name] for name in here]


def _forward_of(cls: type) -> tuple[Callable[..., Forward], str] | None:
    norm = _norm_of(cls)
    if norm is not None:
        return norm, cls.__name__
    if _is_silu_mlp(cls):
        return _mlp_forward, f"silu_mul of {cls.__name__}"
    return None


def _devices() -> Iterator[tuple[torch.device, torch.dtype]]:
    kinds = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
    return ((torch.device(kind), dtype) for kind in kinds for dtype in _DTYPES)


def _patch_classes(done: Patch, module: ModuleType, exact: bool) -> None:
    for cls in list(vars(module).values()):
        if not isinstance(cls, type) or cls.__module__ != module.__name__:
            continue
        theirs = cls.__dict__.get("forward")
        if theirs is None or _is_ours(theirs):
            continue
        made = _forward_of(cls)
        if made is None or (
            made[0] is _mlp_forward and not all(_same_silu(*d) for d in _devices())
        ):
            _leave(done, cls)
            continue
        done._put(cls, "forward", made[0](theirs, exact), f"class {made[1]}")


def _patch_modules(done: Patch, model: torch.nn.Module, exact: bool) -> None:
    for module in model.modules():
        cls = type(module)
        # An instance's own forward is a hook's or another patch's; a patched class already serves.
        if "forward" in vars(module) or _is_ours(cls.forward):
            continue
        made = _forward_of(cls)
        if (
            made is None
            or (made[0] is _mlp_forward and not _silu_of(module))
            or (made[0] is _centred_forward and getattr(module, "group_size", None) is not None)
        ):
            _leave(done, cls)
            continue
        ours = MethodType(made[0](cls.forward, exact), module)
        done._put(module, "forward", ours, made[1])


def _leave(done: Patch, cls: type) -> None:
    if _MODELING.match(cls.__module__) and _NAMED.search(cls.__name__):
        done.left[cls.__name__] += 1


def _silu_of(mlp: Any) -> bool:
    """Whether the activation is a SiLU that agrees on this device; a device that is not known yet
    is tested now, if it can be."""
    weight: torch.Tensor = mlp.gate_proj.weight
    return (
        type(mlp.act_fn).__name__ in _SILU
        and _ours(weight)
        and _same_silu(weight.device, weight.dtype)
    )


# ---- the kernels package -------------------------------------------------------------------------


class _Layer(torch.nn.Module):
    """``RMSNorm`` in the form that the ``kernels`` package requires: a forward, and no state."""

    can_torch_compile = True
    has_backward = True

    weight: torch.Tensor
    variance_epsilon: float

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        return _normed(hidden_states, self.weight, self.variance_epsilon, False)


class _CentredLayer(torch.nn.Module):
    can_torch_compile = True
    has_backward = True

    weight: torch.Tensor
    eps: float

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _centred(x, self.weight, self.eps, False)


class _GatedLayer(torch.nn.Module):
    can_torch_compile = True
    has_backward = True

    weight: torch.Tensor
    variance_epsilon: float

    def forward(self, hidden_states: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        return _gated(hidden_states, gate, self.weight, self.variance_epsilon, False)


_LAYERS = {
    "RMSNorm": _Layer,
    "RMSNormZeroCentered": _CentredLayer,
    "RMSNormGated": _GatedLayer,
}


class _Repository:
    """Stands in for a repository of the Hub: ``load()`` returns the layer's class."""

    def __init__(self, layer_name: str) -> None:
        self.layer_name = layer_name

    def load(self) -> type[torch.nn.Module]:
        return _LAYERS[self.layer_name]

    def __repr__(self) -> str:
        return f"<dlblas {self.layer_name}>"


def _warn_of_versions() -> None:
    from importlib.metadata import PackageNotFoundError, version
    from importlib.util import find_spec

    if find_spec("kernels") is None or find_spec("transformers") is None:
        return
    utils = importlib.import_module("transformers.utils.import_utils")
    is_available = getattr(utils, "is_kernels_available", None)
    if is_available is None or is_available():
        return
    least, below = (getattr(utils, f"KERNELS_{end}_VERSION", None) for end in ("MIN", "MAX"))
    try:
        installed = version("kernels")
    except PackageNotFoundError:
        installed = "an unknown version"
    ends = [f">={least}"] * bool(least) + [f"<{below}"] * bool(below)
    wanted = f"kernels{','.join(ends)}" if ends else "another version of kernels"
    import warnings

    warnings.warn(
        f"kernel_mapping: transformers {version('transformers')} wants {wanted}, and {installed} "
        "is installed: its layers take nothing from a mapping; install what it wants, or use "
        "dlblas.hf.patch",
        stacklevel=3,
    )


def kernel_mapping() -> dict[str, dict[str, _Repository]]:
    """A mapping for ``kernels.use_kernel_mapping`` and ``register_kernel_mapping``.

    ``kernelize`` then takes RMSNorm, and Qwen3-Next's RMSNormZeroCentered and RMSNormGated, from
    here, without the Hub. They round as in ``patch``. Warns if transformers does not take the
    installed version of ``kernels``: its layers then name none, and ``kernelize`` leaves them as
    they are.
    """
    _warn_of_versions()
    return {name: {device: _Repository(name) for device in ("cuda", "cpu")} for name in _LAYERS}


if not _typing.TYPE_CHECKING:  # checkers know the names above, and no others
    __getattr__ = _unknown.of(__name__)
