"""Registration as in DLBlas: ``register_dlblas_op(name, space, args, call, bench_fn, kernel)`` with
symbolic arguments. A thin layer over ``register``; the library does the measuring.

In DLBlas, a call returns its results and the tuner passes a configuration to the Triton kernel
inside it. It is the same here; the results are then copied into the caller's tensors. Read next:
../utils.py.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from .. import _dims, _dtypes, _native, spaces
from .._arguments import hinted
from . import _source
from ._problem import Operator, Problem, operator
from ._register import register
from ._words import refuse, refuse_type

_LAUNCH = ("num_warps", "num_stages", "num_ctas", "maxnreg")


@hinted
@dataclass(frozen=True)
class SymVar:
    """A size that may have any value."""

    name: str


@hinted
@dataclass(frozen=True)
class Tensor:
    """A tensor argument without data: the rank, dtype and device that a call must have."""

    shape: tuple[Any, ...]
    device: Any = None
    dtype: Any = None

    def __init__(self, shape: Any, *, device: Any, dtype: Any) -> None:
        object.__setattr__(self, "shape", tuple(shape))
        object.__setattr__(self, "device", device)
        object.__setattr__(self, "dtype", dtype)


@hinted
@dataclass
class AutotuneConfig:
    """Length and strategy of a search: ``get_op(name, args, AutotuneConfig(…))``."""

    total_iteration: int = 5
    tunner: str = "enumeration"

    def options(self) -> dict[str, Any]:
        """The options of ``dlblas.tune``."""
        strategies = {"enumeration": "exhaustive"}
        strategy = strategies.get(self.tunner, self.tunner)
        return {"max_evaluations": self.total_iteration, "strategy": strategy}


@hinted
def register_dlblas_op(
    name: str, space: Any, args: Any, call: Callable[..., Any], bench_fn: Any, kernel: Any
) -> None:
    """Adds ``call`` as an implementation of the operator ``name``.

    ``args``: one entry per argument of ``call``: ``Tensor`` for a tensor, a text for a fixed value,
    anything else (``SymVar``, ``torch.SymFloat``) for a scalar. Tensors match the operator's
    tensors in order, scalars its scalars. ``space``: None, a ``ChoiceSpace`` of Triton
    configurations or of mappings, or a ``DictSpace``; a knob that ``call`` names is passed to it,
    any other to each launch of ``kernel``. ``bench_fn`` is not called. For an unknown operator,
    register schema and reference first: ``dlblas.register_operator``.
    """
    facts = operator(name)
    if not isinstance(args, tuple):
        raise refuse_type(facts.name, "args", "a tuple of symbolic arguments", args, "write (x,)")
    if not callable(call):
        raise refuse_type(facts.name, "call", "a function", call, "pass one")
    plan = _Plan(facts, args)
    domains = _read_space(facts.name, space)
    devices = {str(t.device).partition(":")[0] for t in plan.tensors.values()} or {"cpu"}
    for device in devices:
        if device not in ("cpu", "cuda") or len(devices) > 1:
            raise refuse(
                facts.name, "args", "is on an unknown device", "cpu or cuda, all the same",
                ", ".join(sorted(devices)), "name one",
            )  # fmt: skip
    device = next(iter(devices))
    for name, dtype in plan.dtypes.items():
        if dtype is None:
            raise refuse(
                facts.name, "args", f"gives {name} an unknown dtype", "a dtype or its name",
                repr(plan.tensors[name].dtype), "pass for example torch.bfloat16",
            )  # fmt: skip
    words = f"{_called(call)}_{plan.words(device)}"
    run = _runner(facts, plan, call, kernel, domains)
    _source.made_of(run, _source.text_of(call), _source.text_of(kernel), repr(args))
    register(
        facts.name,
        re.sub(r"\W", "_", words),
        run,
        device,
        supports=functools.partial(_supports, plan),
        space=domains,
        arrays="torch",
    )


def _called(call: Any) -> str:
    """Its module and name; for a callable object, those of its class."""
    while isinstance(call, functools.partial):
        call = call.func
    name = getattr(call, "__name__", type(call).__name__)
    return f"{_source.module_of(call).rpartition('.')[2]}_{name}"


class _Plan:
    """Maps the arguments of ``call`` to the operator's."""

    def __init__(self, facts: Operator, args: tuple[Any, ...]) -> None:
        self.facts = facts
        self.places: list[str] = []
        self.tensors: dict[str, Tensor] = {}
        self.fixed: dict[str, Any] = {}
        row = _native.operator_row(facts.name)
        self.dims = {t["name"]: [*map(_dims.of_json, t["dims"])] for t in row["tensors"]}
        self.bucketed = {letter["name"] for letter in row["letters"] if letter["bucketed"]}
        labels = {p["name"]: p["values"] for p in row["forms"][0]["params"] if p["kind"] == "enum"}
        inputs, scalars = list(facts.inputs), list(facts.scalars)
        for arg in args:
            if isinstance(arg, Tensor):
                self.tensors[self._take(inputs, "tensors")] = arg
            elif isinstance(arg, str):
                fits = [n for n in scalars if arg in labels.get(n, ())]
                if not fits:
                    raise refuse(
                        facts.name, "args", "holds a text that no argument takes",
                        ", ".join(v for row in labels.values() for v in row) or "none", arg,
                        "use one of these",
                    )  # fmt: skip
                scalars.remove(fits[0])
                self.fixed[fits[0]] = arg
                self.places.append(fits[0])
            else:
                self._take(scalars, "scalars")
        self.dtypes = {n: _dtypes.name_of(t.dtype) for n, t in self.tensors.items()}

    def words(self, device: str) -> str:
        """Distinguishes the registrations of one call, all of which DLBlas keeps."""
        dtypes = list(map(str, self.dtypes.values()))
        one = len(set(dtypes)) == 1
        other = [n for n in self.places if n in self.facts.scalars and n not in self.fixed]
        sizes = [str(s) for t in self.tensors.values() for s in t.shape if isinstance(s, int)]
        fixed = [str(value) for value in self.fixed.values()]
        gpu = [device] if device != "cpu" else []
        return "_".join([*(dtypes[:1] if one else dtypes), *fixed, *other, *sizes, *gpu])

    def sizes(self) -> Iterator[tuple[Any, str]]:
        """Yields each symbol or integer of a shape with the letter that it stands for."""
        for name, tensor in self.tensors.items():
            for size, dim in zip(reversed(tensor.shape), reversed(self.dims[name]), strict=False):
                if dim.plain and not dim.may_be_one:
                    yield size, dim.plain

    def _take(self, names: list[str], what: str) -> str:
        if not names:
            raise refuse(
                self.facts.name, "args", f"has more {what} than the operator",
                ", ".join(self.facts.inputs + self.facts.scalars), "one more", "drop it",
            )  # fmt: skip
        self.places.append(names.pop(0))
        return str(self.places[-1])


def _supports(plan: _Plan, problem: Problem) -> str | None:
    for name, dtype in problem.dtypes.items():
        wanted = plan.dtypes.get(name)
        if name in plan.facts.inputs and wanted is None:
            return f"takes no {name}"
        if wanted not in (None, dtype):
            return f"takes {name} in {wanted}, and it is {dtype}"
    for name in plan.tensors:
        if name not in problem.dtypes:
            return f"needs {name}"
    for name, value in problem.scalars.items():
        wanted = plan.fixed.get(name, plan.facts.keys[name])
        if name not in plan.places and value != wanted:
            return f"takes no {name}"
        if name in plan.fixed and value != wanted:
            return f"was registered for {name}={wanted!r}"
    same: dict[Any, str] = {}  # symbol → the first letter that it stood for
    for size, letter in plan.sizes():
        if isinstance(size, int) and problem.letters[letter] != size:
            return f"was registered for {letter} = {size}"
        first = same.setdefault(size, letter) if not isinstance(size, int) else letter
        if first != letter and {first, letter} & plan.bucketed:
            return f"was registered for {first} = {letter}, and sizes in between are chosen as one"
        if first != letter and problem.letters[first] != problem.letters[letter]:
            return f"was registered for {first} = {letter}"
    return None


def _read_space(op: str, space: Any) -> Any:
    """What ``register`` takes: a mapping, or a list of configurations."""
    if space is None or (isinstance(space, Mapping) and not space):
        return None
    if isinstance(space, Mapping):
        return space
    if not isinstance(space, spaces.ChoiceSpace):
        raise refuse_type(op, "space", "ChoiceSpace, DictSpace or None", space, "use one")
    configs = []
    for config in space.values:
        kwargs: Any = getattr(config, "kwargs", config)
        if not isinstance(kwargs, Mapping):
            raise refuse_type(
                op, "space", "configurations: Triton's, or mappings of knobs", config,
                "name the knob: DictSpace(BLOCK=…)",
            )  # fmt: skip
        launch = {n: getattr(config, n, None) for n in _LAUNCH}
        configs.append({**kwargs, **{n: v for n, v in launch.items() if v is not None}})
    return configs


_current: ContextVar[Mapping[str, Any]] = ContextVar("dlblas_configuration")


def _inject(kernel: Any) -> None:
    """Adds the configuration's knobs to each launch of the kernel, unless the launch sets them."""
    plain = getattr(kernel, "run", None)
    if plain is None or hasattr(plain, "dlblas"):
        return

    @functools.wraps(plain)
    def run(*args: Any, **kwargs: Any) -> Any:
        return plain(*args, **{**_current.get({}), **kwargs})

    run.dlblas = True  # type: ignore[attr-defined]
    kernel.run = run


def _parameters(call: Callable[..., Any]) -> Iterable[str]:
    try:
        return inspect.signature(call).parameters
    except (TypeError, ValueError):  # of some builtins, which tell nothing
        return ()


def _runner(
    facts: Operator, plan: _Plan, call: Callable[..., Any], kernel: Any, domains: Any
) -> Callable[..., None]:
    knobs = list(domains[0]) if isinstance(domains, list) else list(domains or ())
    named = set(_parameters(call)) & set(knobs)
    if set(knobs) - named:
        if kernel is None or not hasattr(kernel, "run"):
            raise refuse(
                facts.name, "kernel", "cannot be given its knobs", "a Triton kernel",
                type(kernel).__name__, "let call take them by name",
            )  # fmt: skip
        _inject(kernel)
    ranks = {name: len(tensor.shape) for name, tensor in plan.tensors.items()}

    def flat(name: str, value: Any) -> Any:
        extra = value.dim() - ranks[name] if name in ranks else 0
        return value.flatten(0, extra) if extra > 0 else value

    def run(**given: Any) -> None:
        config = {n: given[n] for n in knobs}
        token = _current.set({n: v for n, v in config.items() if n not in named})
        try:
            made = call(*(flat(n, given[n]) for n in plan.places), **{n: config[n] for n in named})
        finally:
            _current.reset(token)
        results = made if isinstance(made, (tuple, list)) else (made,)
        for name, result in zip(facts.results, results, strict=True):
            given[name].copy_(result.reshape(given[name].shape))

    return run
