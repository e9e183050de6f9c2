"""What `dlblas.register` refuses, argument by argument, and what a function's hash covers.

Read next: docs/own.md, python/dlblas/own/_source.py.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import os
import re
import subprocess
import sys
import types
from typing import Any, NamedTuple

import dlblas
import numpy as np
import pytest
from dlblas import _native
from dlblas.errors import ArgumentError, UnknownOperatorError
from dlblas.own import _source, _text
from own_shared import OP, arrays, clean, mine, normalise  # noqa: F401 (clean: a fixture)


def unknown(x: Any, weight: Any, eps: float, weight_offset: float, y: Any, z: int) -> None: ...


def short(x: Any, weight: Any, eps: float, y: Any) -> None: ...


def no_result(x: Any, weight: Any, eps: float, weight_offset: float) -> None: ...


@pytest.mark.parametrize(
    ("change", "argument", "words"),
    [
        ({"name": "no name"}, "name", "is no name"),
        ({"name": "reference"}, "name", "is taken by a built-in implementation"),
        ({"fn": 7}, "fn", "has the wrong type"),
        ({"fn": unknown}, "fn", "takes an argument that is not there"),
        ({"fn": short}, "fn", "does not take weight_offset"),
        ({"fn": no_result}, "fn", "does not take y"),
        ({"devices": "tpu"}, "devices", "is unknown"),
        ({"devices": ()}, "devices", "is empty"),
        ({"devices": "cuda", "arrays": "numpy"}, "arrays", "does not fit the devices"),
        ({"arrays": "jax"}, "arrays", "is unknown"),
        ({"space": {"rows": [1, 2]}}, "fn", "does not take rows"),
        ({"space": {"x": [1, 2]}}, "space", "names a knob like an argument"),
        ({"space": 3}, "space", "has the wrong type"),
        ({"space": {"rows": []}}, "space", "gives rows a wrong number of values"),
        ({"space": {"rows": dlblas.spaces.RangeSpace(0, 1)}}, "space", "gives rows a range"),
        ({"default": {"rows": 1}}, "default", "names other knobs than space"),
        ({"space": {"rows": [2**70]}}, "space['rows']", "has a value beyond 64 bits"),
        ({"space": {"rows": [None]}}, "space['rows']", "has the wrong type"),
        ({"space": {"rows": [[1]]}}, "space['rows']", "has the wrong type"),
        ({"space": [{"rows": None}]}, "space['rows']", "has the wrong type"),
        ({"space": {"rows": ["\ud800"]}}, "space['rows']", "is not valid Unicode"),
        ({"space": {"\ud800": [1]}}, "space", "is not valid Unicode"),
        ({"space": {5: [1]}}, "space", "has the wrong type"),
        ({"space": {"rows": [1]}, "where": lambda rows: 1 / 0}, "where", "raised"),
        ({"space": {"rows": [1]}, "where": max}, "where", "does not tell its parameters"),
        ({"where": 5}, "where", "has the wrong type"),
        ({"default": 5}, "default", "has the wrong type"),
        ({"supports": 5}, "supports", "has the wrong type"),
        ({"devices": 5}, "devices", "has the wrong type"),
        ({"devices": [["cpu"]]}, "devices", "is unknown"),
        ({"arch": 2**70}, "arch", "is no compute capability"),
        ({"op": 5}, "op", "has the wrong type"),
        ({"op": "\ud800"}, "op", "is not valid Unicode"),
        ({"fn": "__global__ void f() {} //\ud800", "grid": "T"}, "fn", "is not valid Unicode"),
        ({"fn": "__global__ void f() {}", "grid": "\ud800"}, "grid", "is not valid Unicode"),
        ({"fn": "", "grid": "T", "entry": 5}, "entry", "has the wrong type"),
        ({"grid": "T"}, "grid", "is for kernels"),
        ({"fn": "extern", "devices": "cpu"}, "devices", "does not fit CUDA text"),
        ({"fn": "__global__ void f() {}"}, "grid", "is missing"),
        ({"fn": "int x;", "grid": "T"}, "entry", "is not clear"),
        ({"fn": "__global__ void f() {}", "grid": "T +"}, "grid", "is malformed"),
        ({"fn": "__global__ void f() {}", "grid": "Q"}, "grid", "is malformed"),
    ],
)
def test_errors_are_typed_and_name_the_argument(
    change: dict[str, Any], argument: str, words: str
) -> None:
    given = {"op": OP, "name": "mine", "fn": mine, **change}
    before = dlblas.info()["operators"]
    with pytest.raises(ArgumentError) as caught:
        dlblas.register(**given)
    assert dlblas.info()["operators"] == before
    assert caught.value.argument == argument, str(caught.value)
    assert words in str(caught.value) and "expected" in str(caught.value)


def test_truth_values_of_numpy_are_knobs() -> None:
    def knobs(x: Any, weight: Any, eps: float, weight_offset: float, y: Any, k: Any) -> None: ...

    space = {"k": [np.bool_(True), np.float32(1.5), "a", 2]}
    dlblas.register(OP, "knobs", knobs, space=space, where=lambda k: k != 2)
    row = _native.operator_row(OP)
    (made,) = (i for i in row["implementations"] if i["name"] == "knobs")
    assert made["knobs"][0]["values"] == ["True", "1.5", "a", "2"]


def test_an_unknown_operator_and_an_unknown_name() -> None:
    with pytest.raises(UnknownOperatorError):
        dlblas.register("rms_norms", "mine", mine)
    with pytest.raises(ArgumentError, match="is not a registered one"):
        dlblas.unregister(OP, "cpu_avx512")


@pytest.mark.parametrize("name", [None, 5, "\udc80", "mine\0b", "mine b", ""])
def test_no_name_takes_nothing_away(name: Any) -> None:
    dlblas.register(OP, "mine", mine)
    with pytest.raises(ArgumentError, match="name is no name; expected an identifier") as caught:
        dlblas.unregister(OP, name)
    assert caught.value.argument == "name"
    dlblas.unregister(OP, "mine")


def test_closures_are_local_and_modules_are_named() -> None:
    how = functools.partial(normalise)

    def local(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
        y[...] = how(x, weight, eps, weight_offset)

    dlblas.register(OP, "local", local)
    row = _native.operator_row(OP)
    flags = {i["name"]: (i["user"], i["local"]) for i in row["implementations"]}
    assert flags["local"] == (True, True) and flags["reference"] == (False, False)
    assert __name__ not in dlblas.own.modules()


def test_a_torch_function() -> None:
    torch = pytest.importorskip("torch")

    def by_torch(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
        assert isinstance(x, torch.Tensor)
        f = x.float()
        f = f * torch.rsqrt((f * f).mean(-1, keepdim=True) + eps)
        y.copy_(f * (weight.float() + weight_offset))

    dlblas.register(OP, "by_torch", by_torch, arrays="torch")
    x = torch.randn(12, 64, dtype=torch.bfloat16)
    w = torch.randn(64, dtype=torch.bfloat16)
    expected = torch.nn.functional.rms_norm(x.float(), (64,), w.float(), 1e-6).bfloat16()
    with dlblas.pinned(OP, "by_torch"):
        torch.testing.assert_close(dlblas.rms_norm(x, w), expected, rtol=0.02, atol=0.02)
        torch.testing.assert_close(
            torch.ops.dlblas.rms_norm(x.t().contiguous().t(), w), expected, rtol=0.02, atol=0.02
        )
        y = dlblas.rms_norm(*arrays())  # NumPy callers as well
        assert isinstance(y, np.ndarray)
    report = dlblas.tune(OP, (x, w), seconds=2, implementations=["by_torch"])
    assert report["winner"]["implementation"] == "by_torch"


def _scaled(by: Any) -> Any:
    def scaled(x: Any, y: Any, more: Any = None) -> None:
        y[...] = x * by

    return scaled


class _Scaled:
    def __init__(self, by: float) -> None:
        self.by = by

    def __call__(self, x: Any, y: Any) -> None:
        y[...] = x * self.by


class _Local:
    """The instance holds nothing: its class does."""

    def __new__(cls, by: float) -> Any:
        class Local:
            def __call__(self, x: Any, y: Any) -> None:
                y[...] = x * by

        return Local()


@dataclasses.dataclass
class _Data:
    by: float
    more: str = "a"

    @property
    def twice(self) -> float:
        return 2 * self.by

    def __call__(self, x: Any, y: Any) -> None:
        y[...] = x * self.by

    def run(self, x: Any, y: Any) -> None:
        self(x, y)


class _Listed(list[Any]):
    def __call__(self, x: Any, y: Any) -> None: ...


class _Pair(NamedTuple):
    by: float
    other: float


class _Kind(enum.Enum):
    TWO = 2
    THREE = 3


def _with(by: Any, **changed: Any) -> Any:
    made = _scaled(1)
    made.__defaults__, made.__kwdefaults__ = (by, None)[: "late" not in changed], changed or None
    return made


def _wrapper(by: Any) -> Any:
    inner = _scaled(1)
    if by == 2:

        @functools.wraps(inner)
        def outer(*args: Any) -> Any:
            return 2 * inner(*args)
    else:

        @functools.wraps(inner)
        def outer(*args: Any) -> Any:
            return 3 * inner(*args)

    return outer


def _attribute(by: Any) -> Any:
    made = _scaled(1)
    made.by = by
    return made


def _cyclic(by: Any) -> Any:
    def first(x: Any) -> Any:
        return second(x)

    def second(x: Any) -> Any:
        return first(x) * by

    return first


def _ring(by: Any) -> Any:
    ring: list[Any] = [1, by]
    ring += [ring, {"ring": ring}]
    return _scaled(ring)


def _empty(first: bool) -> Any:
    def early(x: Any) -> Any:
        return a, b

    if first:
        a = 1
    else:
        b = 1
    return early


def _from_text(by: Any) -> Any:
    made: dict[str, Any] = {}
    exec(f"def f(x, y): y[...] = (lambda: x[..., 0] * {by} if x in {{1, 'b'}} else 0)()", made)
    return made["f"]


def _reading(by: Any) -> Any:
    """A function of the same text each time, with its own global ``FACTOR``."""

    def reading(x: Any, y: Any) -> None:
        y[...] = x * FACTOR  # type: ignore[name-defined]  # noqa: F821

    return types.FunctionType(reading.__code__, {"FACTOR": by, "__name__": "a_users"})


def _settings(by: Any) -> Any:
    module = types.ModuleType("a_users_settings")
    module.FACTOR = by  # type: ignore[attr-defined]

    def reading(x: Any, y: Any) -> None:
        y[...] = x * settings.FACTOR  # type: ignore[name-defined]  # noqa: F821

    return types.FunctionType(reading.__code__, {"settings": module, "__name__": "a_users"})


class _Tuned:
    by = 2

    @classmethod
    def run(cls, x: Any, y: Any) -> None:
        y[...] = x * cls.by


def _class_method(by: Any) -> Any:
    made = type("_Tuned", (_Tuned,), {"by": by, "__module__": __name__})
    return made.run


_MAKERS: dict[str, Any] = {
    "global": _reading,
    "global list": lambda by: _reading([1, {"by": by}]),
    "global that is called": lambda by: _reading(_reading(by)),
    "global of the called": lambda by: _scaled(_reading(_reading(_reading(by)))),
    "global that is cached": lambda by: _reading(functools.lru_cache(_reading(by))),
    "global object": lambda by: _reading(_Data(by)),
    "global class": lambda by: _reading(type("_Tuned", (), {"by": by, "__module__": "a_users"})),
    "global pattern": lambda by: _reading(re.compile("a" * by)),
    "global of a module": _settings,
    "class method": _class_method,
    "method of an object": lambda by: _Data(by).run,
    "closure": _scaled,
    "second closure": lambda by: _scaled((_scaled(1), _scaled(by))),
    "fourth of lists": lambda by: _scaled([[1], [1], [1], [by]]),
    "last of many": lambda by: _scaled([_scaled(_scaled(n)) for n in [*range(50), by]]),
    "nested": lambda by: _scaled(_scaled(_scaled({"a": {"b": (by, [])}}))),
    "partial": lambda by: functools.partial(_scaled(1), more=by),
    "partials": lambda by: _scaled([functools.partial(_scaled(n), n) for n in (1, by)]),
    "wrapped": lambda by: functools.wraps(_scaled(by))(_scaled(1)),
    "wrapper": _wrapper,
    "array": lambda by: _scaled(np.arange(9999) + by),
    "array of objects": lambda by: _scaled(np.array([_scaled(by), None])),
    "dtype": lambda by: _scaled(np.dtype(f"f{4 * by - 4}")),
    "object": _Scaled,
    "objects": lambda by: _scaled([_Scaled(1), _Scaled(by)]),
    "dataclass": _Data,
    "methods": lambda by: _scaled([_Data(1).run, _Data(by).run]),
    "class": _Local,
    "list of a kind": lambda by: _Listed([by]),
    "named": lambda by: _scaled(_Pair(1, by)),
    "enumeration": lambda by: _scaled(_Kind(by)),
    "default": _with,
    "keyword": lambda by: _with(0, more=by),
    "attribute": _attribute,
    "cycle": _cyclic,
    "ring": _ring,
    "empty cell": lambda by: _empty(by == 2),
    "grouping": lambda by: _scaled([[1], 2] if by == 2 else [[1, 2]]),
    "which again": lambda by: (lambda a, b: _scaled([a, b, a if by == 2 else b]))([], []),
    "words of another": lambda by: _scaled(["a", "b"] if by == 2 else ["a\0str 'b'"]),
    "kind of number": lambda by: _scaled({2: 1, 3: True}[by]),
    "sign of zero": lambda by: _scaled({2: 0.0, 3: -0.0}[by]),
    "large": lambda by: _scaled(by << 20000),
    "text's own": lambda by: _scaled((",;"[by == 2]).join),
    "range": lambda by: _scaled((range(by), slice(by))),
    "set": lambda by: _scaled({"a", by}),
    "one line": lambda by: (lambda x: 2 * x) if by == 2 else (lambda x: 3 * x),
    "no source": _from_text,
}


@pytest.mark.parametrize("make", _MAKERS.values(), ids=_MAKERS)
def test_what_a_function_holds_is_part_of_its_hash(make: Any) -> None:
    digest = [_source.digest(_source.text_of(make(by))) for by in (2, 2, 3)]
    assert digest[0] == digest[1] != digest[2]


def test_every_text_is_another_one_and_lasts() -> None:
    code = (
        "import json, test_own_sources as t; "
        "print(json.dumps([t._source.text_of(m(by)) for m in t._MAKERS.values() for by in (2, 3)]))"
    )
    here = os.path.dirname(os.path.abspath(__file__))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([here, *filter(None, sys.path)])}
    told = {
        subprocess.check_output([sys.executable, "-c", code], env=environment) for _ in range(2)
    }
    assert len(told) == 1
    texts = json.loads(told.pop())
    assert len(set(texts)) == len(texts) == 2 * len(_MAKERS)


def test_what_has_no_lasting_text_is_of_this_process() -> None:
    held = "(lambda q: lambda x: q)(object())"
    code = f"from dlblas.own import _source as s; print(s.digest(s.text_of({held})))"
    told = {subprocess.check_output([sys.executable, "-c", code], text=True) for _ in range(2)}
    assert len(told) == 2


def test_what_has_no_lasting_text_is_an_object_of_its_own() -> None:
    class Held:
        __slots__ = ("__weakref__", "by")

    def digest(held: Any) -> str:
        return _source.digest(_source.text_of(_scaled(held)))

    one, other = Held(), Held()
    assert digest(one) == digest(one) != digest(other)
    seen = {digest(one), digest(other)}
    for _ in range(64):  # an id comes again at once
        del other
        other = Held()
        assert digest(other) not in seen
        seen.add(digest(other))
    assert digest(object()) != digest(object())


def test_a_tensor_that_changed_is_another() -> None:
    torch = pytest.importorskip("torch")
    held = torch.ones(4)
    texts = [_source.text_of(_reading(held)) for _ in range(2)]
    held += 1
    texts.append(_source.text_of(_reading(held)))
    texts.append(_source.text_of(_reading(held.clone())))
    assert texts[0] == texts[1] and len(set(texts)) == 3


def test_tools_and_libraries_keep_a_text_lasting() -> None:
    import logging
    import threading

    for held in (np, np.exp, np.random, json, json.dumps, threading.Lock(), logging.getLogger("a")):
        assert _text._PROCESS not in _source.text_of(_reading(held)), held


def test_another_object_under_the_name_is_measured_anew() -> None:
    x = arrays()[0]
    held = [Weak(1.0), Weak(3.0)]

    def by(scale: Weak) -> Any:
        def mine(x: Any, y: Any) -> None:
            y[...] = x / (1 + np.exp(-x.astype(np.float64))) * scale.by

        return mine

    try:
        for scale, right in ((held[0], True), (held[0], True), (held[1], False)):
            dlblas.register("silu", "by_object", by(scale))
            report = dlblas.tune(
                "silu", (x,), seconds=2, implementations=["by_object", "cpu_baseline"], worker=False
            )
            (row,) = [r for r in report["evaluated"] if r["implementation"] == "by_object"]
            assert ("failure" not in row) == right, row
    finally:
        dlblas.unregister("silu", "by_object")


class Weak:
    """No source text shows the value that it holds."""

    __slots__ = ("__weakref__", "by")

    def __init__(self, by: float) -> None:
        self.by = by


COMPILED = """
import functools, hashlib, torch
from dlblas.own import _source, _text
def plain(x, y, by=2): y.copy_(x * by)
def other(x, y, by=3): y.copy_(x * by)
def backend(module, inputs): return module
made = [
    torch.compile(plain), torch.compile(other), torch.compile(plain, fullgraph=True),
    torch.compile(plain, dynamic=True), torch.compile(plain, mode="reduce-overhead"),
    torch.compile(plain, options={"max_autotune": True}), torch.compile(plain, backend="eager"),
    torch.compile(plain, backend=backend), torch.compiler.disable(plain), plain,
]
@functools.wraps(made[0])
def wrapper(*args): return made[0](*args)
def attribute(): ...
attribute.held = made[0]
made += [functools.partial(made[0], by=4), wrapper, attribute]
for fn in made:
    print(hashlib.sha256(_source.text_of(fn).encode()).hexdigest())
"""


def test_what_torch_compile_made_has_a_text_that_lasts() -> None:
    pytest.importorskip("torch")
    told = [
        subprocess.check_output([sys.executable, "-c", COMPILED], text=True).split()
        for _ in range(2)
    ]
    assert told[0] == told[1]
    assert len(set(told[0])) == len(told[0]) == 13


def test_what_torch_compile_made_gets_tensors() -> None:
    torch = pytest.importorskip("torch")

    def plain(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
        y.copy_(torch.nn.functional.rms_norm(x, (x.shape[-1],), weight + weight_offset, eps))

    compiled = torch.compile(plain, backend="eager")
    dlblas.register(OP, "compiled", compiled)
    dlblas.register(OP, "part", functools.partial(compiled))
    x, w = arrays()
    expected = dlblas.rms_norm(x, w)
    for name in ("compiled", "part"):
        with dlblas.pinned(OP, name):
            np.testing.assert_allclose(dlblas.rms_norm(x, w), expected, rtol=1e-5)
    with pytest.raises(ArgumentError, match="does not fit a function of torch"):
        dlblas.register(OP, "refused", compiled, arrays="numpy")


@pytest.mark.parametrize("keywords", [{}, {"name": "mine"}])
def test_a_function_in_the_place_of_the_name_is_refused_in_words(keywords: dict[str, str]) -> None:
    def mine(x: object, weight: object, y: object) -> None: ...

    with pytest.raises(ArgumentError, match="name is not the second argument") as caught:
        dlblas.register("rms_norm", mine, **keywords)
    assert caught.value.argument == "name" and '@register(op, "name")' in str(caught.value)


def test_a_decorator_without_arguments_is_refused() -> None:
    with pytest.raises(ArgumentError, match="op is not the first argument") as caught:

        @dlblas.register  # type: ignore[call-overload]
        def mine(x: object, weight: object, y: object) -> None: ...

    assert '@register(op, "name")' in str(caught.value)
