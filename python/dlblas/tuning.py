"""``get_op``, ``tune``, ``explain`` and ``pin``: choosing an implementation, and seeing why.

In: an operator's name and arguments (arrays, or ``Spec`` where no data is needed). Out:
``Operation``, ``TuningReport``, ``Explanation``. Operator calls never measure; these functions do,
on inputs of their own. Read next: spaces.py, bindings/python/control.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from . import _native, _options, _worker_command
from ._functions import FUNCTIONS, Function, native, resolve
from .errors import ArgumentError, ArgumentTypeError


class ProgressEvent(NamedTuple):
    """One step of a search, handed to ``progress=``. An exception raised there stops the
    search, and what was measured is kept."""

    kind: str  # "start", "measured", "failed", "final", "done"
    done: int
    planned: int
    failed: int
    implementation: str
    config: str
    note: str
    milliseconds: float
    best_ms: float
    best: str
    elapsed_s: float
    budget_s: float


_EVENT_KINDS = ("start", "measured", "failed", "final", "done")


class TuningReport(dict[str, Any]):
    """What a search did; the keys are those of the library's JSON, readable as attributes too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __str__(self) -> str:
        return "\n".join(
            f"{key:20} {value}"
            for key, value in self.items()
            if not isinstance(value, (list, dict))
        )


class Explanation:
    """Every candidate with yes or why not, its configuration, and why the winner won."""

    __slots__ = ("_table", "_text")

    def __init__(self, table: str, text: str) -> None:
        self._table, self._text = table, text

    def __str__(self) -> str:
        return self._table

    __repr__ = __str__

    def as_dict(self) -> dict[str, Any]:
        import json

        value: dict[str, Any] = json.loads(self._text)
        return value


class Operation:
    """What ``get_op`` returns: called like the operator, with its scalars as defaults.

    Called on another problem than the one that was asked for, it is an ordinary operator call.
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
        defaults = "".join(f", {name}={value!r}" for name, value in self._defaults.items())
        return f"<dlblas operation {self.name}{defaults}>"


def check_tuple(what: str, name: str, args: Any) -> tuple[Any, ...]:
    """``args`` itself; a TypeError, which is an ArgumentError too, when it is no tuple."""
    if isinstance(args, tuple):
        return args
    got = type(args).__name__
    raise ArgumentTypeError.from_library(
        f"{what}: args is not a tuple; expected a tuple of {name}'s arguments, got {got}; "
        "write (x,) for one",
        what, "args", "tuple", got,
    )  # fmt: skip


def _domains(operator: str) -> dict[str, dict[str, list[Any]]]:
    for row in _native.info()["operators"]:
        if row["name"] == operator:
            return {
                i["name"]: {knob["name"]: knob["values"] for knob in i["knobs"]}
                for i in row["implementations"]
                if not i["oracle"]
            }
    return {}


def _packed(
    function: Function,
    *,
    seconds: float | None = None,
    strategy: str | None = None,
    seed: int = 0,
    max_evaluations: int | None = None,
    force: bool = False,
    implementations: str | Iterable[str] | None = None,
    space: Mapping[str, Any] | None = None,
    where: Any = None,
    progress: Callable[[ProgressEvent], Any] | None = None,
    worker: bool | None = None,
) -> tuple[Any, ...]:
    """The options of a search as the extension takes them, in its order."""
    names = implementations.split(",") if isinstance(implementations, str) else implementations
    chosen = None if names is None else [name.strip() for name in names]
    rows: list[tuple[str, str, str]] = []
    keep = None
    if space is not None or where is not None:
        from . import spaces

        domains = _domains(function.operator)
        rows, empty = spaces.narrow(space or {}, domains)
        if empty:
            chosen = [name for name in (chosen or domains) if name not in empty]
            _options.check_options("tune", {"implementations": chosen}, ["implementations"])
        keep = spaces.compile_where(where, domains)

    def report(kind: int, *fields: Any) -> None:
        assert progress is not None
        progress(ProgressEvent(_EVENT_KINDS[kind], *fields))

    return (
        float(seconds or 0.0),
        None if strategy is None else _native.plain(strategy),
        seed,
        max_evaluations or 0,
        force,
        None if chosen is None else _native.plain(",".join(chosen)),
        tuple(rows),
        keep,
        None if progress is None else report,
        _measure_in(worker),
    )


def _measure_in(worker: bool | None) -> int:
    """The C ABI's number: 0 the library's choice, 1 a worker, 2 this process."""
    if _worker_command.serving:
        return 2
    _worker_command.announce()
    return 0 if worker is None else 1 if worker else 2


def tune(
    name: str, args: tuple[Any, ...], *, kwargs: Mapping[str, Any] | None = None, **options: Any
) -> TuningReport:
    """Searches implementations and configurations for this problem, and publishes the winner.

    ``args`` are the operator's positional arguments, ``kwargs`` the named ones; arrays give shape,
    dtype and layout only, ``Spec`` serves as well. Options: ``seconds`` (budget; default
    ``DLBLAS_TUNE_SECONDS``, 10), ``strategy`` ("exhaustive" or "random"; by the size of the
    space), ``seed``, ``max_evaluations``, ``force`` (measure again what is known),
    ``implementations`` (names to consider), ``space`` and ``where`` (see ``dlblas.spaces``),
    ``progress`` (called with a ``ProgressEvent``), ``worker`` (True: candidates run in a process
    of their own, which may hang or crash; False: in this one; None: as docs/tuning.md says).

    Ctrl-C ends the search, keeps what was measured, and is raised again.
    """
    return _search(name, args, kwargs, options, measure_again=True)[2]


def _search(
    name: str,
    args: Any,
    kwargs: Mapping[str, Any] | None,
    options: dict[str, Any],
    measure_again: bool,
) -> tuple[Function, dict[str, Any], TuningReport]:
    import json

    function, fixed = resolve(name)
    what = "tune" if measure_again else "get_op"
    values = check_tuple(what, name, args)
    _options.check_options(what, options, _packed.__kwdefaults__ or ())
    named = {**fixed, **(kwargs or {})}
    text = native["tune"](function.name, values, named, _packed(function, **options), measure_again)
    return function, named, TuningReport(json.loads(text))


def get_op(
    name: str, args: tuple[Any, ...], *, kwargs: Mapping[str, Any] | None = None, **options: Any
) -> Operation:
    """The best callable for these arguments: from the store when it knows them, else tuned now
    (see ``tune``).

    Raises TypeError when ``args`` is no tuple, UnknownOperatorError (a NameError) for an unknown
    name and UnsupportedError (a LookupError) when nothing fits. ``get_op("matmul", (a, b,
    "leaky_relu"))`` and ``get_op("matmul_leaky_relu", (a, b))`` are the same; both are then called
    with ``(a, b)``.
    """
    function, named, report = _search(name, args, kwargs, options, measure_again=False)
    explanation = _explain(function, args, named)
    scalars = {p.name for p in function.params if p.kind != "tensor"}
    defaults = {
        p.name: value for p, value in zip(function.params, args, strict=False) if p.name in scalars
    }
    defaults.update({key: value for key, value in named.items() if key in scalars})
    return Operation(function, defaults, report, explanation)


def _explain(function: Function, args: tuple[Any, ...], named: dict[str, Any]) -> Explanation:
    table, text = (native["explain"](function.name, args, named, form) for form in (1, 0))
    return Explanation(table, text)


def explain(name: str, *args: Any, **kwargs: Any) -> Explanation:
    """What a call would run and why, without running it: prints as a table, ``as_dict()`` for
    programs."""
    function, fixed = resolve(name)
    return _explain(function, args, {**fixed, **kwargs})


def warmup(calls: str | Iterable[tuple[Any, ...]], *args: Any, **kwargs: Any) -> None:
    """Readies the kernels that calls would run: selected, compiled, loaded; nothing runs.

    ``warmup("rms_norm", x, w)`` for one call, ``warmup([("rms_norm", (x, w)), ("matmul", (a, b),
    {"activation": "silu"})])`` for many, which compile side by side. ``dlblas.Spec`` may stand for
    any array. What a CUDA graph captures must be warm, and a process with ``DLBLAS_JIT=0`` finds
    here what it needs. Raises what the call would.
    """
    if isinstance(calls, str):
        function, fixed = resolve(calls)
        native["warmup"](function.name, args, {**fixed, **kwargs})
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor() as pool:
        jobs = [pool.submit(warmup, name, *a, **(k[0] if k else {})) for name, a, *k in calls]
    for job in jobs:
        job.result()


def _config_text(config: str | Mapping[str, Any] | None) -> str | None:
    if config is None or isinstance(config, str):
        return config
    return " ".join(
        f"{knob}={int(value) if isinstance(value, bool) else value}"
        for knob, value in config.items()
    )


_pins: dict[str, tuple[str, str | None]] = {}


def pin(op: str, implementation: str | None, config: str | Mapping[str, Any] | None = None) -> None:
    """From now on this process serves ``op`` with this implementation; None unpins.

    Where the pinned implementation does not support a problem, the call fails and says why.
    """
    operator = resolve(op)[0].operator
    text = _config_text(config)
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


class pinned:  # noqa: N801 - used like a function
    """``with dlblas.pinned("matmul", "reference"): …``; restores the pin of before."""

    def __init__(
        self, op: str, implementation: str, config: str | Mapping[str, Any] | None = None
    ) -> None:
        self._operator = resolve(op)[0].operator
        self._choice = (implementation, _config_text(config))
        self._before: tuple[str | None, str | None] = (None, None)

    def __enter__(self) -> None:
        self._before = _pins.get(self._operator, (None, None))
        pin(self._operator, *self._choice)

    def __exit__(self, *_: object) -> None:
        pin(self._operator, *self._before)


class deterministic:  # noqa: N801 - used like a function
    """``with dlblas.deterministic(): …``: a row has the same bits in any batch, on any number of
    threads, before and after tuning.

    On one machine and version, at one level of instructions, for tensors of the same dtypes that
    lie alike. What cannot promise it does not serve, and of your own implementations only a pinned
    one.

    Holds for calls, ``explain``, ``tune`` and ``get_op`` of this thread while inside: other threads
    are not affected, and what ``get_op`` returned serves each call by where that call is made.
    ``deterministic(False)`` lifts it again inside. ``DLBLAS_DETERMINISTIC=1`` holds for the whole
    process and is not lifted.
    """

    def __init__(self, on: bool = True) -> None:
        self._on = on
        self._before: list[bool] = []  # one instance may be entered again while inside

    def __enter__(self) -> None:
        self._before.append(native["set_deterministic"](self._on))

    def __exit__(self, *_: object) -> None:
        native["set_deterministic"](self._before.pop())


def list_operators() -> list[str]:
    """Names of all operators; in-place forms are not listed apart."""
    return sorted({function.operator for function in FUNCTIONS.values()})


def iterate_functions() -> Iterator[Function]:
    """Every callable form, in registry order."""
    return iter(FUNCTIONS.values())
