"""Third-party kernels on a GPU, as contestants: PyTorch's copy and Inductor, QuACK, Liger,
FlashInfer. One that cannot be loaded yields a reason in words, never an error.

Out: name → (version, a function of the problem's arrays that makes a ``Run``). What each needs and
where it is searched for: benchmarks/README.md. Used by: gpu.py. Read next: gpu_timing.py.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
import os
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from .gpu_timing import Run, one_line

EPS = 1e-6
COPY = "copy"  # stands beside the peers, as a ceiling
_QUACK_WIDTH = 1 << 20  # beyond: seen failing on an H200 with 0.6.5, November 2026


class NormArrays(NamedTuple):
    """Sets of arrays stacked along the first dimension: set i has x[i]. No residual: rms_norm."""

    x: torch.Tensor  # [sets, T, C]
    weight: torch.Tensor  # [C]
    residual: torch.Tensor | None
    y: torch.Tensor
    residual_out: torch.Tensor | None


class Peer(NamedTuple):
    name: str
    version: str
    make: Callable[[NormArrays], Run]


class Missing(NamedTuple):
    name: str
    why: str


def eager_rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    wide = x.float()
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPS)
    return (wide * scale * weight.float()).to(x.dtype)


def eager_add_rms_norm(
    x: torch.Tensor, weight: torch.Tensor, residual: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    total = x + residual
    return eager_rms_norm(total, weight), total


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


# --- PyTorch's own --------------------------------------------------------------------------------


def _copy(arrays: NormArrays) -> Run:
    """The bytes that the operator needs, moved by cudaMemcpy."""
    pairs = [(arrays.y, arrays.x)]
    if arrays.residual is not None and arrays.residual_out is not None:
        pairs.append((arrays.residual_out, arrays.residual))

    def run(i: int) -> None:
        for to, source in pairs:
            to[i].copy_(source[i])

    return run


def _inductor(arrays: NormArrays, mode: str | None) -> Run:
    # Each problem is compiled separately, with static sizes: Inductor's best case.
    x, w, residual = arrays.x, arrays.weight, arrays.residual
    if residual is None:
        norm = torch.compile(eager_rms_norm, dynamic=False, mode=mode)
        return lambda i: norm(x[i], w)
    add_norm = torch.compile(eager_add_rms_norm, dynamic=False, mode=mode)
    return lambda i: add_norm(x[i], w, residual[i])


# --- packages -------------------------------------------------------------------------------------


def _quack() -> Peer | Missing:
    try:
        from quack.rmsnorm import _rmsnorm_fwd
    except Exception as error:
        return Missing("quack", one_line(error))

    def make(arrays: NormArrays) -> Run:
        x, w, residual, y, total = arrays
        if x.shape[-1] > _QUACK_WIDTH:
            raise NotImplementedError("fails on rows of this width, after compiling for 30 s")
        if residual is None or total is None:

            def run(i: int) -> Any:
                _rmsnorm_fwd(x[i], w, y[i], None, None, None, None, None, EPS)
                return y[i]
        else:

            def run(i: int) -> Any:
                _rmsnorm_fwd(x[i], w, y[i], None, None, None, residual[i], total[i], EPS)
                return y[i], total[i]

        return run

    return Peer("quack", _version("quack-kernels"), make)


def _liger() -> Peer | Missing:
    try:
        from liger_kernel.ops.fused_add_rms_norm import fused_add_rms_norm_forward
        from liger_kernel.ops.rms_norm import rms_norm_forward
    except Exception as error:
        return Missing("liger", one_line(error))

    def make(arrays: NormArrays) -> Run:
        x, w, residual, _, _ = arrays
        if residual is None:
            return lambda i: rms_norm_forward(x[i], w, EPS, 0.0, "llama", None)[0]
        return lambda i: fused_add_rms_norm_forward(x[i], residual[i], w, EPS, 0.0, "llama")[:2]

    return Peer("liger", _version("liger-kernel"), make)


@functools.cache
def _flashinfer_library() -> ctypes.CDLL:
    """FlashInfer's header-only norms behind C entry points; see benchmarks/README.md."""
    name = "libflashinfer_norm.so"
    paths = [os.path.join(folder, name) for folder in sys.path]
    found = next((p for p in paths if os.path.exists(p)), name)
    library = ctypes.CDLL(found)
    pointer, unsigned = ctypes.c_void_p, ctypes.c_uint
    tail: list[Any] = [unsigned, unsigned, ctypes.c_float, ctypes.c_int, pointer]
    library.flashinfer_rms_norm.argtypes = [pointer, pointer, pointer, *tail]
    library.flashinfer_fused_add_rms_norm.argtypes = [pointer, pointer, pointer, *tail]
    return library


def _flashinfer() -> Peer | Missing:
    try:
        library = _flashinfer_library()
    except OSError as error:
        return Missing("flashinfer", one_line(error))

    def check(code: int) -> None:
        if code != 0:
            raise RuntimeError(f"CUDA error {code}")

    def make(arrays: NormArrays) -> Run:
        x, w, residual, y, _ = arrays
        rows, width = x.shape[1:]

        def stream() -> int:
            return torch.cuda.current_stream().cuda_stream

        if residual is None:

            def run(i: int) -> Any:
                at = (x[i].data_ptr(), w.data_ptr(), y[i].data_ptr())
                check(library.flashinfer_rms_norm(*at, rows, width, EPS, 0, stream()))
                return y[i]
        else:  # in place: on arrays of its own
            own, total = x.clone(), residual.clone()

            def run(i: int) -> Any:
                at = (own[i].data_ptr(), total[i].data_ptr(), w.data_ptr())
                check(library.flashinfer_fused_add_rms_norm(*at, rows, width, EPS, 0, stream()))
                return own[i], total[i]

        return run

    return Peer("flashinfer", "0.7.2", make)


def norm_peers() -> list[Peer | Missing]:
    torch_version = torch.__version__
    return [
        Peer(COPY, torch_version, _copy),
        Peer("inductor", torch_version, functools.partial(_inductor, mode=None)),
        Peer(
            "inductor max-autotune",
            torch_version,
            functools.partial(_inductor, mode="max-autotune-no-cudagraphs"),
        ),
        _quack(),
        _liger(),
        _flashinfer(),
    ]


# --- backward: dx and dweight of rms_norm ---------------------------------------------------------

Backward = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Callable[[], Any]]


def _autograd(norm: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Backward:
    """Maps (x, weight, dy) to a function that runs the backward pass alone."""

    def make(x: torch.Tensor, weight: torch.Tensor, dy: torch.Tensor) -> Callable[[], Any]:
        x, weight = x.detach().requires_grad_(), weight.detach().requires_grad_()
        y = norm(x, weight)
        return lambda: torch.autograd.grad(y, (x, weight), dy, retain_graph=True)

    return make


def _liger_backward(x: torch.Tensor, weight: torch.Tensor, dy: torch.Tensor) -> Callable[[], Any]:
    from liger_kernel.ops.rms_norm import rms_norm_backward, rms_norm_forward

    _, x2, rstd, block, warps, casting = rms_norm_forward(x, weight, EPS, 0.0, "llama", None)
    return lambda: rms_norm_backward(dy, x2, weight, rstd, 0.0, casting, block, warps, False, None)


def _quack_backward(x: torch.Tensor, weight: torch.Tensor, dy: torch.Tensor) -> Callable[[], Any]:
    from quack.rmsnorm import rmsnorm_bwd, rmsnorm_fwd

    rstd = rmsnorm_fwd(x, weight, eps=EPS, store_rstd=True)[2]
    return lambda: rmsnorm_bwd(x, weight, dy, rstd)[:2]


def backward_peers(ours: Callable[..., Any]) -> dict[str, tuple[str, Backward]]:
    """The backward peers, "dlblas" first. Each make() runs on the stream that will be captured:
    autograd runs a backward pass on the stream of its forward pass."""
    torch_version = torch.__version__

    def inductor(mode: str | None) -> Backward:
        return _autograd(torch.compile(eager_rms_norm, dynamic=False, mode=mode))

    def eager(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, EPS)

    return {
        "dlblas": ("", _autograd(ours)),
        "torch": (torch_version, _autograd(eager)),
        "inductor": (torch_version, inductor(None)),
        "inductor max-autotune": (torch_version, inductor("max-autotune-no-cudagraphs")),
        "quack": (_version("quack-kernels"), _quack_backward),
        "liger": (_version("liger-kernel"), _liger_backward),
    }
