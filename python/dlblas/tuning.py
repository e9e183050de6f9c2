"""``get_op``, ``tune``, ``explain`` and ``pin``: choosing an implementation, and seeing why.

In: an operator's name and arguments (arrays, or ``Spec`` where no data is needed). Out:
``Operation``, ``TuningReport``, ``Explanation``. Operator calls never measure; these functions do,
on inputs of their own. Read next: _search.py, spaces.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

from . import _called, _made_of, _native, _options
from ._arguments import hinted
from ._array import Spec
from ._functions import FUNCTIONS, Function, native, resolve
from ._given import strides_of
from ._reports import Explanation, ProgressEvent, TuningReport, as_html
from ._search import check_tuple, search
from ._text import harmless
from .errors import ArgumentError, ArgumentTypeError, Error


class Operation:
    """The result of ``get_op``: called like the operator, with the given scalars as defaults.

    A call with another problem than the requested one is an ordinary operator call.
    """

    __slots__ = ("_defaults", "_explanation", "_function", "_names", "name", "report")

    def __init__(
        self,
        function: Function,
        defaults: dict[str, Any],
        report: TuningReport,
        explanation: Explanation,
    ) -> None:
        self.name = function.name
        self.report = report
        self._function = function.call
        self._names = tuple(p.name for p in function.params)
        self._defaults = defaults
        self._explanation = explanation

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._defaults:
            return self._function(*args, **kwargs)
        given = self._names[: len(args)]
        return self._function(
            *args, **{**{k: v for k, v in self._defaults.items() if k not in given}, **kwargs}
        )

    def explain(self) -> Explanation:
        """Why this choice was made, as of when ``get_op`` returned."""
        return self._explanation

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self._defaults.items())
        defaults = f"({harmless(given)})" if given else ""
        return f"<{self.name}{defaults} {self._explanation.one_line()}>"

    def _repr_html_(self) -> str:
        return as_html(repr(self))


@hinted
@_options.knows_its_options
def tune(
    name: str,
    args: tuple[Any, ...],
    *,
    kwargs: Mapping[str, Any] | None = None,
    seconds: float | None = None,
    effort: Literal["quick", "normal", "thorough"] | None = None,
    strategy: str | None = None,
    seed: int = 0,
    max_evaluations: int | None = None,
    force: bool = False,
    implementations: str | Iterable[str] | None = None,
    space: Mapping[str, Any] | None = None,
    where: Any = None,
    progress: bool | Callable[[ProgressEvent], Any] | None = None,
    worker: bool | None = None,
    log: str | os.PathLike[str] | None = None,
) -> TuningReport:
    """Searches implementations and configurations for this problem, and publishes the winner.

    ``args`` are the operator's positional arguments, ``kwargs`` the named ones. Arrays give only
    shape, dtype and layout, so a ``Spec`` serves as well. Options: ``seconds`` (budget; default
    ``DLBLAS_TUNE_SECONDS``, 10), or ``effort`` ("quick": 2 s, "normal": the default, "thorough": 60
    s); ``strategy`` ("exhaustive" or "random"; default: by the size of the space), ``seed``,
    ``max_evaluations``, ``force`` (measure again what is known), ``implementations`` (the names to
    consider), ``space`` and ``where`` (see ``dlblas.spaces``), ``progress`` (None: a line on a
    terminal and in a notebook after 1 s, elsewhere one at the start, every 5 s and at the end, none
    with ``DLBLAS_PROGRESS=0``; True, False; or a function of a ``ProgressEvent``), ``worker``
    (True: candidates run in their own process, which may hang or crash; False: in this one; None:
    as docs/tuning.md says), ``log`` (a CSV file, which gets one row per measurement).

    A function that is made of operators (``flash_attention``, ``linear``, ``fused_moe`` …) has one
    search, with this budget, of each operator that the call runs; the report has theirs under
    ``"parts"``. ``force``, ``implementations``, ``space`` and ``where`` are then for calls that run
    one operator.

    Ctrl-C ends the search, keeps what was measured, and is raised again.
    """
    options = _options_in(locals())
    whole = _whole(name)
    if whole is None:
        return _search_form("tune", name, args, kwargs, options)[2]
    return _search_whole("tune", name, whole, args, kwargs, options)[1]


def _whole(name: Any) -> Callable[..., Any] | None:
    """The function made of operators that has this name; None if there is none."""
    return None if not isinstance(name, str) or name in FUNCTIONS else _made_of.function_named(name)


def _search_whole(
    what: str, name: str, whole: Callable[..., Any], args: Any, kwargs: Mapping[str, Any] | None,
    options: dict[str, Any],
) -> tuple[Function, TuningReport, Explanation]:  # fmt: skip
    """``search`` of each operator that a call of the function runs. get_op, and tune without torch,
    make the call, on copies of its arrays, and search what it misses."""
    named = dict(kwargs or {})
    _options.check_options(what, options)
    values = check_tuple(what, name, args)
    given = (*values, *named.values())
    recorded = None
    if what == "tune" or any(isinstance(value, Spec) for value in given):
        recorded = _called.record(whole, values, named)
    if recorded is None:
        return _made_of.get(what, name, whole, values, named, options)
    called = recorded[0]
    if not called:
        _made_of.refuse(name)
    if len(called) > 1:
        _made_of.check_options(what, name, whole, options)
    found = [search(what, one.function.name, (), one.named, {**options})[2] for one in called]
    function = _made_of.as_function(name, whole, values, named)
    return function, _made_of.report_of(name, found), _explain_all_of(name, called)


def _search_form(
    what: str, name: str, args: Any, kwargs: Mapping[str, Any] | None, options: dict[str, Any]
) -> tuple[Function, dict[str, Any], TuningReport, Explanation | None]:
    """``search``, also of a call in another form than the operator's own, if that runs one
    operator; then with the explanation of that operator's call."""
    try:
        return (*search(what, name, args, kwargs, {**options}), None)
    except Error:
        function, fixed = resolve(name)
        named = {**fixed, **(kwargs or {})}
        called = _called.in_other_form(function, args, named) if isinstance(args, tuple) else []
        if len(called) != 1:
            raise
        runs = called[0]
    report = search(what, runs.function.name, (), runs.named, options)[2]
    return function, named, report, _explain(runs.function, (), runs.named)


def _options_in(given: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in given.items() if key not in ("name", "args", "kwargs")}


@hinted
@_options.knows_its_options
def get_op(
    name: str,
    args: tuple[Any, ...],
    *,
    kwargs: Mapping[str, Any] | None = None,
    seconds: float | None = None,
    effort: Literal["quick", "normal", "thorough"] | None = None,
    strategy: str | None = None,
    seed: int = 0,
    max_evaluations: int | None = None,
    force: bool = False,
    implementations: str | Iterable[str] | None = None,
    space: Mapping[str, Any] | None = None,
    where: Any = None,
    progress: bool | Callable[[ProgressEvent], Any] | None = None,
    worker: bool | None = None,
    log: str | os.PathLike[str] | None = None,
) -> Operation:
    """The best callable for these arguments: from the store if it knows them, else tuned now.

    ``tune`` describes the search and its options. Raises TypeError if ``args`` is not a tuple,
    UnknownOperatorError (a NameError) for an unknown name and UnsupportedError (a LookupError) if
    nothing fits. ``get_op("matmul", (a, b, "leaky_relu"))`` and
    ``get_op("matmul_leaky_relu", (a, b))`` are the same; both are then called with ``(a, b)``. A
    function that is made of operators (``flash_attention``, ``linear``, ``fused_moe`` …) is called
    once, on copies of its arguments, and each operator key that this call misses is searched. With
    a ``Spec`` among the arguments, which needs torch, nothing is called: each operator that the
    call would run is searched.
    """
    options = _options_in(locals())
    whole = _whole(name)
    if whole is not None:
        named = dict(kwargs or {})
        function, report, explanation = _search_whole("get_op", name, whole, args, named, options)
    else:
        function, named, report, found = _search_form("get_op", name, args, kwargs, options)
        explanation = found or _explain(function, args, named)
    scalars = {p.name for p in function.params if p.kind != "tensor"}
    defaults = {
        p.name: value for p, value in zip(function.params, args, strict=False) if p.name in scalars
    }
    defaults.update({key: value for key, value in named.items() if key in scalars})
    return Operation(function, defaults, report, explanation)


def _explain(function: Function, args: tuple[Any, ...], named: dict[str, Any]) -> Explanation:
    table, text = (native["explain"](function.name, args, named, form) for form in (1, 0))
    return Explanation(table, text)


def _on(device: Any, value: Any) -> Any:
    """A tensor as a Spec on another device; anything else unchanged."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or dtype is None:
        return value
    return Spec(tuple(shape), dtype, strides_of(value), device)


def _refuse_tuple(what: str, name: str, args: tuple[Any, ...]) -> None:
    """Refuses all arguments in one tuple: only get_op and tune take that, other functions take them
    one by one."""
    if not isinstance(name, str):
        return  # resolve() says what it is
    if len(args) == 1 and isinstance(args[0], (tuple, list)) and args[0]:
        expected = f"the arguments of {name} one by one"
        got = f"a {type(args[0]).__name__} of {len(args[0])}"
        raise _options.refuse(
            what, "args", "is not taken apart", expected, got,
            f'write dlblas.{what}("{name}", *args)', ArgumentTypeError,
        )  # fmt: skip


@hinted
def explain(name: str, *args: Any, device: Any = None, **kwargs: Any) -> Explanation:
    """What a call would run and why, without running it.

    Prints as a table; ``as_dict()`` is for programs. ``device``: explains the call as if all
    tensors were on that device, which may be ``"sm_90a"``, a typical GPU of that architecture that
    need not be present. A function made of operators (``linear``, ``flash_attention`` …), or a call
    that runs several, prints one table per operator; ``as_dict()`` has them under ``"parts"``. This
    needs torch.
    """
    _refuse_tuple("explain", name, args)
    whole = None if name in FUNCTIONS else _made_of.function_named(name)
    if whole is not None:
        called = _called.record(whole, args, kwargs, device)
        if called is not None:
            return _explain_all_of(name, called[0])
    function, fixed = resolve(name)
    on = args, {**fixed, **kwargs}
    if device is not None:
        on = (
            tuple(_on(device, value) for value in args),
            {key: _on(device, value) for key, value in on[1].items()},
        )
    try:
        return _explain(function, *on)
    except Error:
        found = _called.in_other_form(function, args, {**fixed, **kwargs}, device)
        if not found:
            raise
    return _explain_all_of(name, found)


def _explain_all_of(name: str, called: list[_called.Called]) -> Explanation:
    """The explanations of the operators that a call runs, as one."""
    import json

    each = [_explain(one.function, (), one.named) for one in called]
    if len(each) == 1:
        return each[0]
    names = ", ".join(dict.fromkeys(one.function.name for one in called)) or "no operator"
    parts = [one.as_dict() for one in each]
    table = "\n\n".join([f"{name} runs {names}", *map(str, each)])
    made = {"op": name, "problem": "", "candidates": [], "why": f"runs {names}", "parts": parts}
    return _made_of.Parts(table, json.dumps(made))


def explain_all(name: str, **named: Any) -> str:
    """The table of ``explain`` with nothing folded: ``dlblas explain -v``."""
    function, fixed = resolve(name)
    return str(native["explain"](function.name, (), {**fixed, **named}, 2))


@hinted
def warmup(calls: str | Iterable[tuple[Any, ...]], *args: Any, **kwargs: Any) -> None:
    """Prepares the kernels that calls would run: selects, compiles and loads them; runs nothing.

    ``warmup("rms_norm", x, w)`` is for one call,
    ``warmup([("rms_norm", (x, w)), ("matmul", (a, b), {"activation": "silu"})])`` for many, which
    compile in parallel. ``dlblas.Spec`` may stand for any array. Calls that a CUDA graph captures
    must be warm, and a process with ``DLBLAS_JIT=0`` needs kernels that were compiled before.
    Functions made of operators are accepted if torch is there. Raises what the call would.
    """
    if isinstance(calls, str):
        _warm(calls, args, kwargs)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor() as pool:
        jobs = [pool.submit(warmup, name, *a, **(k[0] if k else {})) for name, a, *k in calls]
    for job in jobs:
        job.result()


def _warm(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    _refuse_tuple("warmup", name, args)
    whole = None if name in FUNCTIONS else _made_of.function_named(name)
    recorded = None if whole is None else _called.record(whole, args, kwargs)
    if recorded is not None:
        called = recorded[0]
    else:
        function, fixed = resolve(name)
        named = {**fixed, **kwargs}
        try:
            native["warmup"](function.name, args, named)
            return
        except Error:
            called = _called.in_other_form(function, args, named)
            if not called:
                raise
    for one in called:
        native["warmup"](one.function.name, (), one.named)


def _config_text(what: str, config: str | Mapping[str, Any] | None) -> str | None:
    if config is None or isinstance(config, str):
        return config
    if not isinstance(config, Mapping):
        _options.check_text(what, "config", config, "knobs and their values")
    return " ".join(
        f"{knob}={int(value) if isinstance(value, bool) else value}"
        for knob, value in config.items()
    )


_pins: dict[str, tuple[str, str | None]] = {}


@hinted
def pin(op: str, implementation: str | None, config: str | Mapping[str, Any] | None = None) -> None:
    """Pins ``op`` to ``implementation`` in this process from now on; None unpins.

    ``config`` is its configuration (None: its default). If the pinned implementation does not
    support a problem, the call fails and says why; calls on another kind of device are chosen as
    without the pin.
    """
    operator = resolve(op)[0].operator
    text = _config_text("pin", config)
    if implementation is not None:
        _options.check_text("pin", "implementation", implementation, "an implementation's name")
    if implementation is None and text is not None:
        raise ArgumentError.from_library(
            "pin: config has no implementation; expected the implementation it belongs to, "
            "got None; name it",
            "pin", "config", "implementation", "None",
        )  # fmt: skip
    _native.set_pin(operator, implementation, text)
    if implementation is None:
        _pins.pop(operator, None)
    else:
        _pins[operator] = (implementation, text)


@hinted
class pinned:  # noqa: N801 - used like a function
    """``with dlblas.pinned("matmul", "reference"): …``; restores the previous pin at the end."""

    def __init__(
        self, op: str, implementation: str, config: str | Mapping[str, Any] | None = None
    ) -> None:
        self._operator = resolve(op)[0].operator
        self._choice = (implementation, _config_text("pinned", config))
        self._before: tuple[str | None, str | None] = (None, None)

    def __enter__(self) -> None:
        self._before = _pins.get(self._operator, (None, None))
        pin(self._operator, *self._choice)

    def __exit__(self, *_: object) -> None:
        pin(self._operator, *self._before)


class _Mode:
    """A setting of this thread's calls, for the time inside ``with``."""

    _setter = ""

    def __init__(self, on: bool = True) -> None:
        self._on = on
        self._before: list[bool] = []  # one instance may be entered again while inside

    def __enter__(self) -> None:
        self._before.append(native[self._setter](self._on))

    def __exit__(self, *_: object) -> None:
        native[self._setter](self._before.pop())


@hinted
class deterministic(_Mode):  # noqa: N801 - used like a function
    """``with dlblas.deterministic(): …``: a row's bits do not depend on batch, threads or tuning.

    A row has the same bits in any batch, on any number of threads, before and after tuning. This
    holds on one machine and version, at one instruction-set level, for tensors of the same dtypes
    and layouts. Implementations that cannot promise it do not serve; of your own implementations
    only a pinned one does.

    Applies to calls, ``explain``, ``tune`` and ``get_op`` of this thread while inside. Other
    threads are not affected; each call through what ``get_op`` returned follows the mode in force
    where that call is made. ``deterministic(False)`` lifts it again inside.
    ``DLBLAS_DETERMINISTIC=1`` holds for the whole process and cannot be lifted.
    """

    _setter = "set_deterministic"

    def __init__(self, on: bool = True) -> None:
        super().__init__(on)


@hinted
class repeatable(_Mode):  # noqa: N801 - used like a function
    """``with dlblas.repeatable(): …``: the same call has the same bits in every run.

    ``torch.use_deterministic_algorithms(True)`` requests it for torch tensors. It costs no speed:
    only implementations whose bits may differ from run to run do not serve, and no built-in one is
    of that kind. Rows may have other bits in another batch, on other threads, or once a search has
    stored another winner: ``deterministic`` excludes that too.

    Applies as ``deterministic`` does.
    """

    _setter = "set_repeatable"

    def __init__(self, on: bool = True) -> None:
        super().__init__(on)


@hinted
class allow_tf32(_Mode):  # noqa: N801 - used like a function
    """``with dlblas.allow_tf32(): …``: f32 products may round their factors to TF32 (11 bits).

    ``matmul``, ``linear`` and batched products of f32 on a GPU (sm_80 and later) may then run on
    tensor cores (``cublaslt_tf32``), eight times as fast at 4096 on an H200, with a relative error
    of about 5e-4 instead of 1e-6. Results tuned with and without it are kept apart. Operators made
    of several steps, other dtypes and CPUs are not affected; neither is torch's own setting.

    Applies as ``deterministic`` does; inside that, nothing is rounded to TF32.
    """

    _setter = "set_allow_tf32"

    def __init__(self, on: bool = True) -> None:
        super().__init__(on)


def list_operators() -> list[str]:
    """Names of all operators; in-place forms are not listed separately."""
    return sorted({function.operator for function in FUNCTIONS.values()})


def iterate_functions() -> Iterator[Function]:
    """Every callable form, in registry order."""
    return iter(FUNCTIONS.values())
