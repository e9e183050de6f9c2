"""``register``: one entry point for functions, Triton kernels and CUDA source text.

In: an operator's name, a name for the implementation, and its code. Out: an implementation in the
registry. Each argument is checked here, before the library sees it. Read next: _function.py,
_triton.py, _cuda.py, bindings/python/own.cpp.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypedDict, TypeVar, overload

from .. import _functions, _native, _probe
from .._arguments import hinted
from ..errors import ArgumentTypeError
from . import _cuda, _function, _source, _travel, _triton
from ._compiled import is_compiled
from ._function import Supports
from ._problem import Operator, operator
from ._space import Knobs, read_space, read_where
from ._words import refuse, refuse_type, text_of

if TYPE_CHECKING:
    from typing_extensions import Unpack  # checkers bring it along

_DETERMINISTIC, _CAPTURABLE, _LOCAL, _REPEATABLE = 1, 2, 4, 8
_DEVICES = {"cpu": 1, "cuda": 2}

_P = ParamSpec("_P")
_F = TypeVar("_F")


class _Options(TypedDict, total=False):
    """The keywords of ``register``, for editors and type checkers."""

    supports: Supports | None
    space: Any
    default: Mapping[str, Any] | None
    where: Any
    deterministic: bool
    repeatable: bool
    capturable: bool
    grid: Any
    block: Any
    smem: Any
    entry: str | None
    arrays: Literal["numpy", "torch"] | None
    arch: int
    version: str


def _name_comes_second(function: Callable[_P, Any]) -> Callable[_P, Any]:
    """Refuses ``register(op, fn, …)``, with or without ``name=``, and bare ``@register``, before
    Python raises its own less helpful error."""

    @functools.wraps(function)
    def checked(*args: _P.args, **kwargs: _P.kwargs) -> Any:
        if args and not isinstance(args[0], str) and callable(args[0]):
            raise refuse(
                "register", "op", "is not the first argument", "the operator's name",
                repr(args[0])[:60], 'call register(op, "name", fn), or decorate with '
                '@register(op, "name")',
            )  # fmt: skip
        if len(args) > 1 and (not isinstance(args[1], str) or "name" in kwargs):
            raise refuse(
                args[0] if isinstance(args[0], str) else "register",
                "name", "is not the second argument", "an identifier before the function",
                repr(args[1])[:60], 'call register(op, "name", fn), or decorate with '
                '@register(op, "name")',
            )  # fmt: skip
        known = [*_Options.__annotations__, "op", "name", "fn"]
        for word in kwargs.keys() - {*known, *inspect.signature(function).parameters}:
            raise refuse(
                "register", word, "is not an option", ", ".join(_Options.__annotations__), word,
                "see help(dlblas.register)", ArgumentTypeError,
            )  # fmt: skip
        return function(*args, **kwargs)

    return checked


@overload
def register(
    op: str,
    name: str,
    fn: None = None,
    devices: str | Iterable[str] | None = None,
    **options: Unpack[_Options],
) -> Callable[[_F], _F]: ...


@overload
def register(
    op: str,
    name: str,
    fn: _F,
    devices: str | Iterable[str] | None = None,
    **options: Unpack[_Options],
) -> _F: ...


@hinted
@_name_comes_second
def register(
    op: str,
    name: str,
    fn: Any = None,
    devices: str | Iterable[str] | None = None,
    *,
    supports: Supports | None = None,
    space: Any = None,
    default: Mapping[str, Any] | None = None,
    where: Any = None,
    deterministic: bool = False,
    repeatable: bool = False,
    capturable: bool = False,
    grid: Any = None,
    block: Any = None,
    smem: Any = 0,
    entry: str | None = None,
    arrays: str | None = None,
    arch: int = 0,
    version: str = "",
) -> Any:
    """Adds an implementation of ``op``, or replaces your earlier ``name``; returns ``fn``.

    ``fn`` is a Python function on NumPy arrays or torch tensors, a Triton kernel, or CUDA source
    text; each writes into the results that it is given. Without ``fn``, returns a decorator.
    ``devices``: "cpu", "cuda" or both (default: cpu for functions, cuda for kernels); with both,
    the names get the device as a suffix. ``supports(problem)``: None, or a sentence that says why
    not. ``space``: knobs and their values; ``where`` narrows it, and ``default`` is the
    configuration of a call that was never tuned. ``grid``, ``block``, ``smem``, ``entry``: for
    kernels only. ``arrays``: "numpy" or "torch", what a function gets (default: numpy for the CPU
    alone, else torch; torch for a result of torch.compile). ``arch``: the lowest compute
    capability × 10. ``version``: a text; a change of it makes records stale, like a change of the
    source.
    Raises ArgumentError, or UnknownOperatorError. See docs/own.md.
    """
    if fn is None:
        keywords = {k: v for k, v in locals().items() if k not in ("op", "name", "fn", "devices")}

        def decorate(function: Any) -> Any:
            return register(op, name, function, devices, **keywords)

        return decorate
    facts = operator(op)
    _check_name(facts.name, name)
    if supports is not None and not callable(supports):
        raise refuse_type(facts.name, "supports", "a function or None", supports, "pass one")
    kernel: Any = None
    configs: list[dict[str, Any]] = []
    if _triton.is_kernel(fn):
        kernel, configs = _triton.unwrap(fn)
    knobs = read_space(facts.name, configs if space is None and configs else space)
    allowed = read_where(facts, where, knobs)
    preset = None if default is None else knobs.encode(default, "default")
    chosen = _devices(facts.name, devices, "cuda" if kernel or isinstance(fn, str) else "cpu")
    made: dict[str, Any]
    if isinstance(fn, str):
        text = f"{fn}\n// {version}\n" if version else fn
        made = _from_text(facts, text, supports, grid, block, smem, entry, chosen)
    elif kernel is not None:
        made = _from_kernel(facts, kernel, knobs, supports, grid, chosen)
    elif callable(fn):
        made = _from_function(facts, fn, knobs, supports, _arrays(facts.name, fn, arrays, chosen))
        _refuse_launch(facts.name, grid=grid, block=block, entry=entry)
    else:
        raise refuse_type(
            facts.name, "fn", "a function, a Triton kernel or CUDA source text", fn, "pass one"
        )
    flags = bool(deterministic) * _DETERMINISTIC | bool(capturable) * _CAPTURABLE
    flags |= bool(repeatable) * _REPEATABLE
    if not isinstance(arch, int) or not 0 <= arch < 1 << 31:
        raise refuse(
            facts.name, "arch", "is no compute capability", "an integer such as 90", ascii(arch),
            "leave it out for any",
        )  # fmt: skip
    source = made["source"]
    digest = None if source is None else _travel.sent or _source.digest(source, version)
    rows = [
        [
            facts.name, f"{name}_{device}" if len(chosen) > 1 else name, digest, _DEVICES[device],
            flags, arch, knobs.rows, knobs.flat_configs(), preset, made["supports"], allowed,
            made["run"], made["torch"], made["cuda"],
        ]
        for device in chosen
    ]  # fmt: skip
    # CUDA text without Python functions is self-contained: a worker needs no module for it.
    whole = made["cuda"] is not None and made["supports"] is None and allowed is None
    what = f"{facts.name}.{name}"
    alone: Any = rows[0] if whole else None
    again: _travel.Parcel | None = None
    asked = supports is None and where is None and not _travel.sent
    if alone is None and asked and _source.registering_module() is None:
        again = _travel.Parcel(
            fn, digest, op=op, name=name, devices=devices,
            space=configs if space is None and configs else space, default=default, grid=grid,
            deterministic=deterministic, repeatable=repeatable, capturable=capturable,
            arrays=arrays, arch=arch,
        )  # fmt: skip
        alone = again.row()
    place = _source.place_of(what, alone)
    for row in rows:
        row[4] |= _LOCAL if place is None else 0
        if place is None and row[3] == _DEVICES["cpu"] and row[11] is not None:
            row[11] = _probe.guarded(row[11])
        _functions.native["own_register"](*row)
    _source.note(what, place, alone, again.row if again else None)
    return fn


def register_again(row: Any) -> None:
    """In a worker: registers a row that came as JSON, or a function's parcel."""
    if isinstance(row, dict):
        _travel.unpack(row, register)
        return

    def exact(value: Any) -> Any:
        return tuple(map(exact, value)) if isinstance(value, list) else value

    _functions.native["own_register"](*map(exact, row))


@hinted
def unregister(op: str, name: str) -> None:
    """Removes your implementation; if it was registered for both devices, removes both."""
    facts = operator(op)
    _check_name(facts.name, name)
    rows = _native.operator_row(facts.name)["implementations"]
    there = {row["name"] for row in rows if row["user"]}
    names = [n for n in (name, f"{name}_cpu", f"{name}_cuda") if n in there]
    for one in names or [name]:
        _functions.native["own_unregister"](facts.name, one)
    _source.forget(f"{facts.name}.{name}")


def _check_name(op: str, name: Any) -> None:
    if not isinstance(name, str) or not name.isidentifier() or not name.isascii():
        raise refuse(op, "name", "is no name", "an identifier", repr(name), "use letters, _ and 1")


def _devices(op: str, devices: Any, otherwise: str) -> list[str]:
    wanted = otherwise if devices is None else devices
    if not isinstance(wanted, Iterable):
        raise refuse_type(op, "devices", '"cpu", "cuda" or both', devices, "use these")
    chosen = [wanted] if isinstance(wanted, str) else list(wanted)
    for device in chosen:
        if not isinstance(device, str) or device not in _DEVICES:
            raise refuse(
                op, "devices", "is unknown", '"cpu", "cuda" or both', repr(device), "use these"
            )
    if not chosen:
        raise refuse(op, "devices", "is empty", '"cpu", "cuda" or both', "none", "name one")
    return list(dict.fromkeys(chosen))


def _arrays(op: str, fn: Any, arrays: Any, devices: list[str]) -> bool:
    """Whether a function gets torch tensors. Dynamo refuses arrays that do not own their memory."""
    if arrays not in (None, "numpy", "torch"):
        raise refuse(op, "arrays", "is unknown", '"numpy" or "torch"', repr(arrays), "use one")
    if arrays == "numpy" and "cuda" in devices:
        raise refuse(
            op, "arrays", "does not fit the devices", '"torch" on a GPU', '"numpy"',
            "leave it out, or register for the CPU alone",
        )  # fmt: skip
    compiled = is_compiled(fn)
    if arrays == "numpy" and compiled:
        raise refuse(
            op, "arrays", "does not fit a function of torch.compile", '"torch"', '"numpy"',
            "leave it out",
        )  # fmt: skip
    return arrays == "torch" or "cuda" in devices or compiled


def _refuse_launch(op: str, **given: Any) -> None:
    for argument, value in given.items():
        if value is not None:
            raise refuse(op, argument, "is for kernels", "None", repr(value), "leave it out")


def _only_cuda(op: str, devices: list[str], what: str) -> None:
    if devices != ["cuda"]:
        raise refuse(
            op, "devices", f"does not fit {what}", '"cuda"', ", ".join(devices), "leave it out"
        )


def _from_function(
    op: Operator, fn: Callable[..., Any], knobs: Knobs, supports: Supports | None, torch: bool
) -> dict[str, Any]:
    signature = _function.bind(op, fn, knobs)
    return {
        "source": _source.text_of(fn),
        "supports": _function.supports_of(op, signature, supports),
        "run": _function.step_of(op, fn, signature, knobs, torch),
        "torch": torch,
        "cuda": None,
    }


def _from_kernel(
    op: Operator, kernel: Any, knobs: Knobs, supports: Supports | None, grid: Any,
    devices: list[str],
) -> dict[str, Any]:  # fmt: skip
    _only_cuda(op.name, devices, "a Triton kernel")
    signature, theirs = _triton.bind(op, kernel, knobs)
    size = _triton.check_grid(op.name, grid)
    launch = _triton.call_of(op, kernel, theirs, size)
    # The grid may need any letter or knob, also one that the kernel does not take.
    every = dict.fromkeys((*signature.names, *op.letters, *knobs.domains))
    wide = signature._replace(names=tuple(every))
    return {
        "source": _source.digest(_source.text_of(kernel), _source.text_of(size)),
        "supports": _function.supports_of(op, signature, supports, contiguous=True),
        "run": _function.step_of(op, launch, wide, knobs, torch=True),
        "torch": True,
        "cuda": None,
    }


def _from_text(
    op: Operator, text: str, supports: Supports | None, grid: Any, block: Any, smem: Any,
    entry: str | None, devices: list[str],
) -> dict[str, Any]:  # fmt: skip
    _only_cuda(op.name, devices, "CUDA text")
    text_of(op.name, "fn", text)
    if grid is None:
        raise refuse(
            op.name, "grid", "is missing", "numbers or expressions in letters and knobs", "None",
            'pass for example grid="T"',
        )  # fmt: skip
    signature = _function.Signature((), ())
    cuda = (
        text,
        _cuda.entry_of(op.name, text, entry),
        _cuda.expressions(op.name, "grid", grid, "1"),
        _cuda.expressions(op.name, "block", block, "256"),
        _cuda.expressions(op.name, "smem", smem, "0")[0],
    )
    return {
        "source": None,  # the library's: it knows the headers that the text includes
        "supports": _function.supports_of(op, signature, supports),
        "run": None,
        "torch": False,
        "cuda": cuda,
    }
