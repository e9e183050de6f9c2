"""Cross entropy of a linear layer's rows, with the logits of only a few rows in memory at a time.

For each part of the rows: logits = x · weightᵀ + bias, the losses and, if a gradient will be
needed, dlogits in the same memory and its products. The forward pass thus computes the gradients,
for a loss with the factor 1; backward scales them. With reduction "none" each row has its own
factor, and backward recomputes the logits. Nothing waits for the device.

How many parts there are depends on the number of rows, so torch.compile sees a pass as one operator
(``OPERATORS``): traced, the loop would be compiled again for each number. In: torch tensors. Out:
torch tensors. Used by: api.py, torch/_made_of.py. Read next: cross_entropy_rows/.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from .._functions import FUNCTIONS
from .._given import as_matrix, asks_for_gradients, grad_error

_matmul = FUNCTIONS["matmul"].call
_losses = FUNCTIONS["cross_entropy_rows"].call
_dlogits = FUNCTIONS["cross_entropy_rows_backward_"].call

_LOGITS = 256 << 20  # bytes of logits at a time
_MIN_ROWS = 128  # however many classes there are: products of fewer rows are slow
_PRODUCT = 64 << 20  # bytes of f32 that are added to the weight's gradient at a time


class Call(NamedTuple):
    """The options of a call: everything but its tensors."""

    ignore_index: int
    lse_square_scale: float
    label_smoothing: float
    reduction: str
    softcap: float


def parts_of(rows: int, classes: int, size: int) -> list[tuple[int, int]]:
    """The rows as (first, last) of parts of about equal size, each computed at once."""
    most = max(_MIN_ROWS, _LOGITS // max(1, classes * size))
    count = max(1, -(-rows // most))
    each = max(1, -(-rows // count))
    return [(first, min(rows, first + each)) for first in range(0, rows, each)]


class _WeightGradient:
    """Σ dᵀ · x over the parts of the rows: in f32 if there are several, rounded once at the end."""

    def __init__(self, weight: torch.Tensor, parts: int) -> None:
        self.dtype, self.shape, self.several = weight.dtype, weight.shape, parts > 1
        self.sum: torch.Tensor | None = None
        self.step = max(1, _PRODUCT // max(1, 4 * weight.shape[1]))

    def add(self, d: torch.Tensor, x: torch.Tensor) -> None:
        if not self.several:
            self.sum = _matmul(d.t(), x)
            return
        begun = self.sum is not None
        if self.sum is None:
            self.sum = torch.empty(self.shape, dtype=torch.float32, device=x.device)
        for first in range(0, self.shape[0], self.step):
            rows = self.sum[first : first + self.step]
            product = d[:, first : first + self.step].t()
            if begun:
                rows += _matmul(product, x, out_dtype="f32")
            else:
                _matmul(product, x, out_dtype="f32", out=rows)

    def result(self, like: torch.Tensor) -> torch.Tensor:
        """With the shape and dtype of the weight, ``like``; 0 if there were no rows."""
        return self.sum.to(self.dtype) if self.sum is not None else like.new_zeros(like.shape)


class _Work:
    """One call's tensors: x [T, H], weight [V, H], target [T]."""

    def __init__(
        self, x: Any, weight: Any, target: Any, bias: Any, ce_weight: Any, call: Call
    ) -> None:
        self.x, self.weight, self.target, self.bias = x, weight, target, bias
        self.ce_weight, self.call = ce_weight, call
        smooth = ce_weight is not None and call.label_smoothing != 0
        self.total = ce_weight.sum() if smooth else None
        self.counts = target != call.ignore_index
        self.parts = parts_of(x.shape[0], weight.shape[0], x.element_size())

    def shares(self) -> tuple[Any, Any]:
        """The factors of a row's loss and of its z-loss in the result, each []."""
        one = torch.ones((), dtype=torch.float32, device=self.x.device)
        if self.call.reduction != "mean":
            return one, one
        rows = self.counts.sum()
        if self.ce_weight is None:
            return one / rows, one / rows
        # A target that is not a class reads an arbitrary weight: its loss is NaN anyway.
        weight, classes = self.ce_weight, self.ce_weight.shape[0]
        each = weight[self.target.clamp(0, classes - 1)] if classes else weight.sum()
        return one / (each * self.counts).sum(), one / rows

    def rows(
        self, dloss: Any = None, dz: Any = None, wanted: tuple[bool, ...] = (False, False, False)
    ) -> tuple[Any, Any, tuple[Any, ...]]:
        """(losses, lse) of all rows, [T] f32, and the ``wanted`` gradients of x, weight and bias.
        dloss and dz come from ``counted``: dloss [T, 1] is the factor of a row's loss, and dz · lse
        the gradient of its z-loss."""
        x, c = self.x, self.call
        loss = torch.empty(x.shape[0], 1, dtype=torch.float32, device=x.device)
        lse = torch.empty_like(loss)
        dx = torch.empty_like(x) if wanted[0] else None
        dweight = _WeightGradient(self.weight, len(self.parts)) if wanted[1] else None
        dbias = None
        for first, last in self.parts:
            of, target = x[first:last], self.target[first:last]
            logits = _matmul(of, self.weight.t(), bias=self.bias)
            options = (self.ce_weight, self.total, c.ignore_index, c.label_smoothing, c.softcap)
            _losses(logits, target, *options, out=(loss[first:last], lse[first:last]))
            if not any(wanted):
                continue
            log = lse[first:last]
            # Only for rows that count: a product with 0 would keep the NaN of one that does not.
            dlse = (
                None if dz is None
                else torch.where(self.counts[first:last, None], dz[first:last] * log, 0.0)
            )  # fmt: skip
            d = _dlogits(dloss[first:last], logits, target, log, dlse, *options)
            d = logits if d is None else d
            if dx is not None:
                _matmul(d, self.weight, out=dx[first:last])
            if dweight is not None:
                dweight.add(d, of)
            if wanted[2]:
                part = d.sum(0, dtype=torch.float32)
                dbias = part if dbias is None else dbias + part
        if wanted[2]:
            dbias = self.bias.new_zeros(self.bias.shape) if dbias is None else dbias
            dbias = dbias.to(self.bias.dtype)
        made = dweight.result(self.weight) if dweight is not None else None
        return loss[:, 0], lse[:, 0], (dx, made, dbias)

    def gradients(self, dloss: Any, dz: Any, wanted: tuple[bool, ...]) -> tuple[Any, ...]:
        return self.rows(*self.counted(dloss, dz), wanted)[2]

    def counted(self, dloss: Any, dz: Any) -> tuple[Any, Any]:
        """As [T, 1]: the factors of the losses, and 2 · scale · the factors of the z-losses."""
        rows = self.x.shape[0]
        scale = self.call.lse_square_scale
        dloss = dloss.reshape(-1, 1).expand(rows, 1).contiguous()
        if not scale:
            return dloss, None
        return dloss, 2 * scale * dz.reshape(-1, 1).expand(rows, 1)


def _forward(
    x: Any, weight: Any, target: Any, bias: Any, ce_weight: Any, call: Call,
    wanted: tuple[bool, ...],
) -> tuple[Any, Any, tuple[Any, ...]]:  # fmt: skip
    """(loss, z_loss) and the ``wanted`` gradients, which a reduction of "none" does not have."""
    work = _Work(x, weight, target, bias, ce_weight, call)
    share, z_share = work.shares()
    factors = work.counted(share, z_share) if any(wanted) else (None, None)
    loss, lse, made = work.rows(*factors, wanted)
    lse = torch.where(work.counts, lse, 0.0)
    z_loss = call.lse_square_scale * lse * lse
    if call.reduction != "none":
        loss, z_loss = loss.sum() * share, z_loss.sum() * z_share
    return (loss + z_loss if call.lse_square_scale else loss), z_loss, made


def _backward(
    dloss: Any, x: Any, weight: Any, target: Any, bias: Any, ce_weight: Any, call: Call,
    wanted: tuple[bool, ...],
) -> tuple[Any, ...]:  # fmt: skip
    """The ``wanted`` gradients where every row has its own factor dloss [T]."""
    return _Work(x, weight, target, bias, ce_weight, call).gradients(dloss, dloss, wanted)


_NO_GRADIENTS = (False, False, False)
# x, weight, target, bias, ce_weight, the fields of Call, which of the gradients of x, weight and
# bias are wanted. A gradient that is not is an empty tensor.
_ARGUMENTS = (
    "Tensor x, Tensor weight, Tensor target, Tensor? bias, Tensor? ce_weight, int ignore_index, "
    "float lse_square_scale, float label_smoothing, str reduction, float softcap, bool[] wanted"
)


def _there(x: Any, made: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(x.new_empty(0) if d is None else d for d in made)


@torch.no_grad()
def _forward_kernel(*args: Any) -> tuple[Any, ...]:
    loss, z_loss, made = _forward(*args[:5], Call(*args[5:10]), tuple(args[10]))
    return loss, z_loss, *_there(args[0], made)


@torch.no_grad()
def _backward_kernel(dloss: Any, *args: Any) -> tuple[Any, ...]:
    return _there(args[0], _backward(dloss, *args[:5], Call(*args[5:10]), tuple(args[10])))


def _fake_gradients(x: Any, weight: Any, bias: Any, wanted: list[bool]) -> tuple[Any, ...]:
    made = (
        torch.empty_like(x) if wanted[0] else None,
        weight.new_empty(weight.shape) if wanted[1] else None,
        bias.new_empty(bias.shape) if wanted[2] else None,
    )
    return _there(x, made)


def _forward_fake(*args: Any) -> tuple[Any, ...]:
    x, weight, target, bias, ce_weight = args[:5]
    call = Call(*args[5:10])
    of = torch.ops.dlblas
    with torch.no_grad():  # the operators' own fakes check all rows at once
        logits = of.matmul.default(x, weight.t(), bias=bias)
        options = (ce_weight, None, call.ignore_index, call.label_smoothing, call.softcap)
        loss, _ = of.cross_entropy_rows.default(logits, target, *options)
    shape = tuple(target.shape) if call.reduction == "none" else ()
    results = (loss.new_empty(shape), loss.new_empty(shape))
    return *results, *_fake_gradients(x, weight, bias, args[10])


def _backward_fake(dloss: Any, *args: Any) -> tuple[Any, ...]:
    return _fake_gradients(args[0], args[1], args[3], args[10])


# Schema -> kernel, fake: the passes as torch.compile sees them.
OPERATORS = {
    f"_linear_cross_entropy({_ARGUMENTS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)": (
        _forward_kernel, _forward_fake,
    ),
    f"_linear_cross_entropy_backward(Tensor dloss, {_ARGUMENTS}) -> (Tensor, Tensor, Tensor)": (
        _backward_kernel, _backward_fake,
    ),
}  # fmt: skip


def _wanted_of(made: Any, wanted: tuple[bool, ...]) -> tuple[Any, ...]:
    return tuple(d if here else None for d, here in zip(made, wanted, strict=True))


def _forward_whole(*args: Any) -> tuple[Any, Any, tuple[Any, ...]]:
    """``_forward`` as one operator."""
    *tensors, call, wanted = args
    of = torch.ops.dlblas._linear_cross_entropy.default
    loss, z_loss, *made = of(*tensors, *call, wanted)
    return loss, z_loss, _wanted_of(made, wanted)


def _backward_whole(*args: Any) -> tuple[Any, ...]:
    """``_backward`` as one operator."""
    *tensors, call, wanted = args
    of = torch.ops.dlblas._linear_cross_entropy_backward.default
    return _wanted_of(of(*tensors, *call, wanted), wanted)


class _Inputs(torch.autograd.Function):
    """An empty result: a node of the graph that depends on the inputs. Gradients computed in the
    forward pass depend on this node, and keep nothing else of the inputs."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Any:
        ctx.count = len(inputs)
        return inputs[0].new_empty(0)

    @staticmethod
    def backward(ctx: Any, _: Any) -> tuple[Any, ...]:
        return (*(None for _ in range(ctx.count)),)


class _LinearCrossEntropy(torch.autograd.Function):
    """(loss, z_loss). z_loss itself is not differentiable; what it adds to the loss is."""

    @staticmethod
    def forward(
        ctx: Any, x: Any, weight: Any, target: Any, bias: Any, ce_weight: Any, call: Call,
        graph: tuple[Any, ...],
    ) -> tuple[Any, Any]:  # fmt: skip
        if ce_weight is not None and ce_weight.requires_grad:
            raise grad_error("fused_linear_cross_entropy", "ce_weight")
        wanted = (*ctx.needs_input_grad[:2], bias is not None and ctx.needs_input_grad[3])
        ctx.wanted, ctx.call, ctx.graph = wanted, call, graph
        each = call.reduction == "none"
        run = _forward_whole if torch.compiler.is_compiling() else _forward
        now = _NO_GRADIENTS if each else wanted
        loss, z_loss, ctx.made = run(x, weight, target, bias, ce_weight, call, now)
        if each and any(wanted):
            ctx.save_for_backward(x, weight, target, bias, ce_weight)
        ctx.mark_non_differentiable(z_loss)
        return loss, z_loss

    @staticmethod
    def backward(ctx: Any, dloss: Any, _: Any) -> tuple[Any, ...]:
        if not torch.is_grad_enabled():
            return _LinearCrossEntropy.gradients(ctx, dloss)
        from ..torch._autograd import once

        made = once(
            "fused_linear_cross_entropy", lambda: _LinearCrossEntropy.gradients(ctx, dloss),
            (dloss, *ctx.graph),
        )  # fmt: skip
        return made

    @staticmethod
    def gradients(ctx: Any, dloss: Any) -> tuple[Any, ...]:
        if ctx.call.reduction == "none":
            run = _backward_whole if torch.compiler.is_compiling() else _backward
            dx, dweight, dbias = run(dloss, *ctx.saved_tensors, ctx.call, ctx.wanted)
        else:
            dx, dweight, dbias = (d if d is None else d * dloss for d in ctx.made)
        return dx, dweight, None, dbias, None, None, None


def linear_cross_entropy(
    x: Any, weight: Any, target: Any, bias: Any, ce_weight: Any, call: Call
) -> tuple[Any, Any]:
    """(loss, z_loss), for any leading dimensions; with "none", one loss per row."""
    flat = as_matrix(x)
    graph: tuple[Any, ...] = ()
    if asks_for_gradients(flat, weight, bias) and not torch.compiler.is_compiling():
        graph = (_Inputs.apply(flat, weight, bias),)
    loss, z_loss = _LinearCrossEntropy.apply(
        flat, weight, target.reshape(-1), bias, ce_weight, call, graph
    )
    if call.reduction == "none":
        return loss.reshape(target.shape), z_loss.reshape(target.shape)
    return loss, z_loss
