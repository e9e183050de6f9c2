"""Gradients of the operators, from a declaration in ops/<family>/<op>/<op>.py (AUTOGRAD): an
operator of the library; or GRADIENTS of the room's gradient.py or of a family's file, in torch's
operators; or both, if some inputs rarely need a gradient ("formulas"). A tensor with neither, and
one that a formula only "reads", is refused. A gradient can be differentiated again only if it is a
formula that says so ("second"); others refuse it.

In: torch.ops.dlblas.{x, _x, x_backward}, already defined. Out: ``register()``, which registers the
formula of every differentiable torch.ops.dlblas.x (torch.compile and torch.export use it), and
``FUNCTIONS``, which dlblas.x() calls if an input requires grad: an old-style autograd.Function
costs 5 µs per call, the formula 25. Both run the same two functions of a ``_Formula``.
No file here names an operator. Read next: ops/norm/rms_norm/rms_norm.py.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from operator import itemgetter
from typing import Any, NamedTuple

import torch

from .. import _functions
from .._given import grad_error
from ..errors import InternalError, UnsupportedError
from ._operations import operator

FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""Operator -> the call on torch tensors of which one requires grad, under grad mode. Arguments as
torch.ops.dlblas.x takes them, positional; defaults may be left out at the end."""


class _Formula(NamedTuple):
    """A declaration with its names resolved to positions, so that a call looks up no name."""

    op: str
    num_inputs: int
    num_results: int
    saves: Callable[[tuple[Any, ...]], tuple[Any, ...]]  # of inputs + results: the tensors
    scalars: Callable[[tuple[Any, ...]], tuple[Any, ...]]  # of inputs + results
    arguments: Callable[[tuple[Any, ...]], tuple[Any, ...]]  # of saved + scalars + gradients
    needed: tuple[int, ...]  # the results whose gradient the backward operator cannot do without
    gradients: Callable[[tuple[Any, ...]], tuple[Any, ...]]  # of (None, results of backward)
    optional: tuple[int, ...]  # inputs with a gradient that a call may leave out
    backward: Callable[..., Any]
    formulas: tuple[tuple[int, Callable[..., Any]], ...]  # of inputs that backward gives nothing
    passes: tuple[tuple[int, int], ...]  # (input, result): its gradient is added to the input's
    without: tuple[tuple[int, str], ...]  # inputs that have no gradient

    def save(self, ctx: Any, inputs: tuple[Any, ...], results: tuple[torch.Tensor, ...]) -> None:
        for i, name in self.without:
            if i < len(inputs) and inputs[i] is not None and inputs[i].requires_grad:
                raise grad_error(self.op, name)
        values = inputs + results
        ctx.save_for_backward(*self.saves(values))
        ctx.scalars = self.scalars(values)
        ctx.set_materialize_grads(False)  # a result that was not used has no gradient to read
        if self.num_results > 1:  # with one, backward has its gradient, or nothing to do
            ctx.results = [(r.shape, r.dtype, r.device) for r in results]

    def grad(self, ctx: Any, *grads: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        if all(g is None for g in grads):
            return (None,) * self.num_inputs
        there = [g if g is None or _has_plain_rows(g) else g.contiguous() for g in grads]
        for i in self.needed:
            if there[i] is None:
                shape, dtype, device = ctx.results[i]
                there[i] = torch.zeros(shape, dtype=dtype, device=device)
        saved = ctx.saved_tensors
        arguments = self.arguments((None, *saved, *ctx.scalars, *there))
        if not torch.is_grad_enabled():
            return self.passed(self.given(ctx, self.made(ctx, arguments)), grads)
        made = once(self.op, lambda: self.made(ctx, arguments), (*saved, *grads))
        return self.passed(self.given(ctx, made), grads)

    def made(self, ctx: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """The backward operator's results, then those of the formulas; None if not needed."""
        made = _tuple(self.backward(*arguments))
        needed = ctx.needs_input_grad  # shorter where the last arguments were left out
        for i, formula in self.formulas:
            made += (formula(*arguments) if i < len(needed) and needed[i] else None,)
        return made

    def given(self, ctx: Any, made: tuple[Any, ...]) -> tuple[torch.Tensor | None, ...]:
        """The inputs' gradients; None for an absent optional input."""
        gradients = self.gradients((None, *made))
        needed = ctx.needs_input_grad  # shorter where the last arguments were left out
        absent = [i for i in self.optional if i >= len(needed) or not needed[i]]
        if not absent:
            return gradients
        return tuple(None if i in absent else g for i, g in enumerate(gradients))

    def passed(
        self, gradients: tuple[torch.Tensor | None, ...], grads: tuple[torch.Tensor | None, ...]
    ) -> tuple[torch.Tensor | None, ...]:
        """The inputs' gradients, with those of results that are a sum of inputs added once for all
        of them."""
        if all(grads[r] is None for _, r in self.passes):
            return gradients
        sums: dict[tuple[int, int], torch.Tensor] = {}
        made = [*gradients]
        for i, r in self.passes:
            own, more = gradients[i], grads[r]
            if own is not None and more is not None:
                key = id(own), r
                made[i] = sums[key] = sums[key] if key in sums else own + more
        return tuple(made)


class _OfTorch(NamedTuple):
    """A gradient in torch's operators: gradient(*inputs, *kept results, *result gradients) ->
    tensor gradients. Of a tensor that is not saved, it gets the shape."""

    op: str
    tensors: tuple[int, ...]  # positions of the inputs that are tensors
    others: tuple[int, ...]
    gradient: Callable[..., tuple[torch.Tensor | None, ...]]
    again: bool  # torch's autograd may follow it, for a second derivative
    saves: tuple[int, ...]  # of tensors
    keeps: tuple[int, ...]  # of results
    without: tuple[tuple[int, str], ...]  # inputs that have no gradient

    def save(self, ctx: Any, inputs: tuple[Any, ...], results: tuple[torch.Tensor, ...]) -> None:
        for i, name in self.without:
            if inputs[i].requires_grad:
                raise grad_error(self.op, name)
        kept = (*(inputs[i] for i in self.saves), *(results[i] for i in self.keeps))
        ctx.save_for_backward(*kept)
        ctx.scalars = tuple(inputs[i] for i in self.others)
        ctx.shapes = tuple(inputs[i].shape for i in self.tensors if i not in self.saves)

    def grad(self, ctx: Any, *grads: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        tensors, inputs = ctx.saved_tensors, len(self.saves)
        saved = dict(zip(self.saves, tensors[:inputs], strict=True))
        saved.update(zip(self.others, ctx.scalars, strict=True))
        saved.update(zip((i for i in self.tensors if i not in self.saves), ctx.shapes, strict=True))
        arguments = (*(saved[i] for i in sorted(saved)), *tensors[inputs:], *grads)
        if self.again or not torch.is_grad_enabled():
            made = self.gradient(*arguments)
        else:
            graph = (*tensors, *grads)
            made = once(self.op, lambda: self.gradient(*arguments), graph)
        given = dict(zip(self.tensors, made, strict=True))
        needed = ctx.needs_input_grad  # shorter where the last arguments were left out
        return tuple(
            given.get(i) if i < len(needed) and needed[i] else None for i in range(len(saved))
        )


def once(
    op: str, make: Callable[[], tuple[Any, ...]], graph: tuple[torch.Tensor | None, ...]
) -> tuple[Any, ...]:
    """The gradients that ``make`` returns. With create_graph=True they require grad if a tensor of
    ``graph``, on which they depend, does, and they refuse a second derivative."""
    if not torch.is_grad_enabled():
        return make()
    with torch.no_grad():
        made = make()
    depends = [t for t in graph if t is not None and t.requires_grad]
    return _tuple(_Once.apply(op, len(made), *made, *depends))


class _Once(torch.autograd.Function):
    """Returns gradients unchanged, as results of the tensors that they depend on; has no gradient
    itself."""

    @staticmethod
    def forward(ctx: Any, op: str, count: int, *tensors: torch.Tensor) -> Any:
        ctx.op = op
        return tensors[:count]

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise UnsupportedError.from_library(
            f"{ctx.op}: gradient is not differentiable; expected backward() once, got a second "
            "derivative; use a formula of torch operators where you need one",
            ctx.op, "gradient", "backward() once", "a second derivative",
        )  # fmt: skip


def _has_plain_rows(t: torch.Tensor) -> bool:
    """Whether rows are contiguous and at one stride, which every kernel takes. Other gradients, as
    from .sum(), a broadcast or a transpose, are copied, as in torch's own formulas."""
    if t.is_contiguous():
        return True
    sizes, strides, rank = t.shape, t.stride(), t.dim()
    if rank < 2 or strides[-1] != 1 or strides[-2] < sizes[-1]:
        return False
    return all(strides[i] == strides[i + 1] * sizes[i + 1] for i in range(rank - 2))


def _tuple(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


def _pick(positions: list[int]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """itemgetter, but a tuple also for a single position."""
    if len(positions) > 1:
        return itemgetter(*positions)
    return lambda values: tuple(values[i] for i in positions)


def _formula(op: str, declaration: dict[str, Any]) -> _Formula | _OfTorch:
    """Resolves names to positions; an unknown name is our bug, reported at import."""
    forward = _schema(op)
    if "formula" in declaration:
        file = declaration["formula"]  # of the operator's room, or a family's, with its name
        shared = f"{_functions.FUNCTIONS[op].family}_"
        module = import_module(f"dlblas.ops.{file if file.startswith(shared) else f'{op}_{file}'}")
        those = tuple(i for i, a in enumerate(forward.arguments) if _is_tensor(a))
        others = tuple(i for i in range(len(forward.arguments)) if i not in those)
        again = declaration.get("second") == "formula"
        read = declaration.get("reads")  # these alone are saved, and have no gradient
        names = {a.name: i for i, a in enumerate(forward.arguments)}
        without = tuple((names[name], name) for name in read or ())
        saves = those if read is None else tuple(i for i, _ in without)
        results = list(_functions.FUNCTIONS[op].results)
        keeps = tuple(results.index(name) for name in declaration.get("keeps", ()))
        formula = module.GRADIENTS[op]
        return _OfTorch(op, those, others, formula, again, saves, keeps, without)
    backward = _schema(declaration["backward"])
    saves, takes, gives = (declaration[part] for part in ("saves", "takes", "gives"))
    inputs = [a.name for a in forward.arguments]
    results = list(_functions.FUNCTIONS[op].results)  # torch's schemas do not name them
    values = inputs + results
    tensors = list(dict.fromkeys(saves.values()))
    # Scalars of the backward operator are matched by name with those of the forward one.
    same = [a.name for a in backward.arguments if not _is_tensor(a)]
    scalars = [name for name in same if name in inputs]
    there = [None, *tensors, *scalars, *(("gradient", r) for r in results)]

    def source(argument: Any) -> int:
        if argument.name in saves:
            return there.index(saves[argument.name])
        if argument.name in takes:
            return there.index(("gradient", takes[argument.name]))
        if argument.name in scalars:
            return there.index(argument.name)
        if _is_optional(argument):
            return 0
        raise ValueError(f"nothing is said of {backward.name}'s {argument.name}")

    formulas: dict[str, Callable[..., Any]] = {}
    if "formulas" in declaration:
        formulas = import_module(f"dlblas.ops.{op}_{declaration['formulas']}").GRADIENTS
    with_gradient = gives.keys() | formulas.keys()
    try:
        made = [*_functions.FUNCTIONS[declaration["backward"]].results, *formulas]
        gives = {**gives, **{name: name for name in formulas}}
        needed = [a for a in backward.arguments if a.name in takes]
        return _Formula(
            op,
            len(inputs),
            len(results),
            _pick([values.index(name) for name in tensors]),
            _pick([inputs.index(name) for name in scalars]),
            _pick([source(a) for a in backward.arguments]),
            tuple(results.index(takes[a.name]) for a in needed if not _is_optional(a)),
            _pick([1 + made.index(gives[name]) if name in gives else 0 for name in inputs]),
            tuple(
                i for i, a in enumerate(forward.arguments) if a.name in gives and _is_optional(a)
            ),
            operator(declaration["backward"]),
            tuple((inputs.index(name), formula) for name, formula in formulas.items()),
            tuple(
                (inputs.index(name), results.index(result))
                for name, result in declaration.get("passes", {}).items()
            ),
            tuple(
                (i, a.name) for i, a in enumerate(forward.arguments)
                if _is_tensor(a) and a.name not in with_gradient
            ),
        )  # fmt: skip
    except ValueError as reason:
        raise InternalError.from_library(
            f"{op}: AUTOGRAD is wrong; expected names of its own and of "
            f"{declaration['backward']}'s schema, got {reason}; please report it",
            op,
        ) from reason


def _is_optional(argument: Any) -> bool:
    return bool(argument.type.kind() == "OptionalType")


def _is_tensor(argument: Any) -> bool:
    kind = argument.type.getElementType() if _is_optional(argument) else argument.type
    return bool(kind.kind() == "TensorType")


def _schema(name: str) -> Any:
    return operator(name)._schema


def _function(formula: _Formula | _OfTorch, plain: Any) -> Callable[..., Any]:
    """dlblas.x() under autograd: the private operator inside an old-style Function."""
    defaults = tuple(a.default_value for a in _schema(formula.op).arguments)
    save = formula.save

    def forward(ctx: Any, *inputs: Any) -> Any:
        results = plain(*inputs)
        save(ctx, inputs, _tuple(results))
        return results

    methods = {"forward": staticmethod(forward), "backward": staticmethod(formula.grad)}
    function: Any = type(f"dlblas_{formula.op}", (torch.autograd.Function,), methods)
    apply = function.apply
    return lambda *inputs: apply(*inputs, *defaults[len(inputs) :])


def register(declarations: dict[str, dict[str, Any]]) -> None:
    """Called once the operators are defined: registers their formulas, and fills FUNCTIONS."""
    for op, declaration in declarations.items():
        formula = _formula(op, declaration)

        def setup(
            ctx: Any,
            inputs: tuple[Any, ...],
            output: Any,
            formula: _Formula | _OfTorch = formula,
        ) -> None:
            formula.save(ctx, inputs, _tuple(output))

        torch.library.register_autograd(f"dlblas::{op}", formula.grad, setup_context=setup)
        FUNCTIONS[op] = _function(formula, operator(f"_{op}"))
