"""The schemas of tests/schemas.txt as torch operators: fakes, on meta tensors and on symbolic
sizes, give the shapes and dtypes that the library's own validation gives.

The operators stay for the process: test_schemas.py runs this file in one of its own. Nothing is
computed. Read next: python/dlblas/torch/_fakes.py.
"""

from __future__ import annotations

import pathlib
from typing import Any, NamedTuple

import dlblas
import pytest
from depth import some
from dlblas import _dtypes, _functions, _native
from dlblas.errors import Error

torch = pytest.importorskip("torch")

import dlblas.torch  # noqa: E402
from dlblas.torch._fakes import TORCH_DTYPES  # noqa: E402
from dlblas.torch._register import OPERATIONS, operator  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.fx.experimental.symbolic_shapes import (  # noqa: E402
    DimDynamic,
    ShapeEnv,
    StatelessSymbolicContext,
)

FILE = pathlib.Path(__file__).resolve().parent / "schemas.txt"
# The same sizes as in tests/cpp/test_schemas.cpp.
SIZES = {
    "T": 6, "C": 48, "F": 16, "B": 2, "S": 3, "L": 4, "H": 4, "Hkv": 2, "D": 8, "Dv": 8, "K": 64,
    "N": 16, "M": 6, "E": 4, "G": 4, "W": 3, "R": 8, "V": 32, "Np": 2, "k": 2, "P": 12, "topk": 2,
    "group": 16, "group_size": 16, "U": 9, "I": 5, "page": 4,
}  # fmt: skip


class Block(NamedTuple):
    name: str
    schema: str
    inplace: list[str]
    sizes: dict[str, int]


def blocks() -> list[Block]:
    lines: list[str] = []
    for line in FILE.read_text().splitlines():
        if line.startswith(" "):
            lines[-1] += line
        elif line and not line.startswith("#"):
            lines.append(line)
    found: list[Block] = []
    for line in lines:
        if line.startswith("in place: "):
            found[-1].inplace.append(line.removeprefix("in place: "))
        elif line.startswith("sizes: "):
            words = line.removeprefix("sizes: ").split()
            found[-1].sizes.update({k: int(v) for k, v in (word.split("=") for word in words)})
        else:
            found.append(Block(line.partition("(")[0], line, [], dict(SIZES)))
    return found


BLOCKS = {block.name: block for block in blocks()}
for _block in BLOCKS.values():
    dlblas.register_operator(_block.schema, lambda **_: None, inplace=_block.inplace, cases=[])
ROWS = {row["name"]: row for row in _native.info()["operators"]}
FORMS = [name for name, op in OPERATIONS.items() if op.operator in BLOCKS]


class Arguments:
    """The arguments of one operation: positional ones for torch, named ones for the library."""

    def __init__(self, name: str, optional: bool, sizes: dict[str, int] | None = None) -> None:
        self.op = OPERATIONS[name]
        self.sizes = sizes or BLOCKS[self.op.operator].sizes
        row = ROWS[self.op.operator]
        self.params = [p for p in row["forms"][0]["params"] if p["kind"] != "tensor"]
        self.dtypes: dict[int, str] = {}
        self.shapes: dict[int, tuple[int, ...]] = {}
        self.scalars: dict[int, Any] = {}
        self.named: dict[str, Any] = {}
        for i, spec in enumerate(self.op.tensors[: self.op.num_inputs]):
            if optional or not spec.optional:
                dtype = self._dtype(spec)
                self._add(i, spec, dtype)
                self.named[spec.name] = dlblas.Spec(self.shapes[i], dtype)
        for i, p in enumerate(self.params):
            if not p["has_default"] or p["size"]:
                self.scalars[i] = self._scalar(p)
                self.named[p["name"]] = self.scalars[i]
        # For each result (name, code, bits, shape, …), as the library validates the same call.
        self.expected: Any = ()
        if sizes is None:
            self.validate()

    def validate(self) -> None:
        self.expected = _functions.native["results"](self.op.operator, (), self.named)
        for r, (_, code, bits, shape, *_) in enumerate(self.expected):
            i = self.op.num_inputs + r
            self.dtypes[i], self.shapes[i] = _dtypes.NAMES[code, bits], tuple(shape)

    def _add(self, i: int, spec: Any, dtype: str) -> None:
        self.dtypes[i] = dtype
        self.shapes[i] = tuple(d.evaluate(Known(self.sizes)) for d in spec.dims)

    def _dtype(self, spec: Any) -> str:
        if spec.like in self.dtypes:
            return self.dtypes[spec.like]
        return str((*spec.dtypes, *spec.like_absent)[0])

    def _scalar(self, p: dict[str, Any]) -> Any:
        if p["size"]:
            return Known(self.sizes)[p["name"]]
        return p["values"][0] if p["kind"] == "dtype" else 1

    def positional(self, make: Any) -> list[Any]:
        values: list[Any] = []
        for kind, index in self.op.arguments:
            i = index + (self.op.num_inputs if kind == "result" else 0)
            if kind != "scalar":
                values.append(make(i, self.shapes[i], TORCH_DTYPES[self.dtypes[i]])
                              if i in self.shapes else None)  # fmt: skip
            elif index in self.scalars:
                value = self.scalars[index]
                values.append(TORCH_DTYPES[value] if isinstance(value, str) else value)
            else:
                default = self.params[index]["default"]
                values.append(default)
        return values


class Known(dict[str, int]):
    """Sizes of letters; 3 for letters that the table does not have."""

    def __missing__(self, letter: str) -> int:
        return 3


def test_there_is_one_for_every_contract() -> None:
    assert len(BLOCKS) >= 90
    assert {"t_topk_gating", "t_paged_attention", "t_store_kv_cache", "t_moe_align"} <= set(BLOCKS)


def made(result: Any) -> list[Any]:
    return [] if result is None else list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("optional", [True, False], ids=["all", "required"])
@pytest.mark.parametrize("name", FORMS)
def test_fakes_agree_with_the_library(name: str, optional: bool) -> None:
    arguments = Arguments(name, optional)
    meta = arguments.positional(
        lambda i, shape, dtype: torch.empty(shape, dtype=dtype, device="meta")
    )
    results = made(operator(name)(*meta))
    assert len(results) == len(arguments.op.returned)
    for r, result in zip(arguments.op.returned, results, strict=True):
        i = arguments.op.num_inputs + r
        assert tuple(result.shape) == arguments.shapes[i], arguments.expected[r][0]
        assert result.dtype == TORCH_DTYPES[arguments.dtypes[i]]


@pytest.mark.parametrize("name", some(FORMS, 50, "symbols"))
def test_fakes_work_on_symbolic_sizes(name: str) -> None:
    arguments = Arguments(name, True)
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:

        def make(i: int, shape: tuple[int, ...], dtype: Any) -> Any:
            real = torch.empty(shape, dtype=dtype, device="meta")
            dynamic = StatelessSymbolicContext([DimDynamic.DYNAMIC] * len(shape))
            return mode.from_tensor(real, symbolic_context=dynamic)

        results = made(operator(name)(*arguments.positional(make)))
    for r, result in zip(arguments.op.returned, results, strict=True):
        shape = arguments.shapes[arguments.op.num_inputs + r]
        assert tuple(int(n) for n in result.shape) == shape


def test_fakes_refuse_what_the_library_refuses() -> None:
    """With one dimension of one tensor increased by one, both refuse or both accept."""
    refused = 0
    for name in FORMS:
        arguments = Arguments(name, True)
        if name != arguments.op.operator:
            continue
        for i, shape in list(arguments.shapes.items()):
            if i >= arguments.op.num_inputs:
                continue
            for axis in range(len(shape)):
                wrong = (*shape[:axis], shape[axis] + 1, *shape[axis + 1 :])
                spec = arguments.op.tensors[i]
                named = {**arguments.named, spec.name: dlblas.Spec(wrong, arguments.dtypes[i])}
                library = says_no(lambda n=name, v=named: _functions.native["results"](n, (), v))
                meta = arguments.positional(
                    lambda k, size, dtype, at=i, other=wrong: torch.empty(
                        other if k == at else size, dtype=dtype, device="meta"
                    )
                )
                fake = says_no(lambda n=name, v=meta: operator(n)(*v))
                assert library == fake, (name, spec.name, wrong)
                refused += library
    assert refused > 300


def test_fakes_agree_where_a_factor_is_0() -> None:
    """``Hkv*G`` with Hkv = 0 leaves G unknown, which matters only where a result has G alone.
    Checks every operator with such a product, including the library's own."""
    served = set()
    for name, op in OPERATIONS.items():
        terms = [term for spec in op.tensors for dim in spec.dims for term in dim.terms]
        factors = {letter for t in terms if t.times for letter in (t.letter, t.times)}
        if name != op.operator:
            continue
        for letter in factors:
            known = BLOCKS[name].sizes if name in BLOCKS else SIZES
            arguments = Arguments(name, True, {**known, letter: 0})
            library = says_no(arguments.validate)
            meta = arguments.positional(
                lambda i, shape, dtype: torch.empty(shape, dtype=dtype, device="meta")
            )
            if library:  # by its schema; operators of the library have checks of their own
                assert name not in BLOCKS or says_no(lambda n=name, v=meta: operator(n)(*v)), name
                continue
            results = made(operator(name)(*meta))
            shapes = [arguments.shapes[op.num_inputs + r] for r in op.returned]
            assert [tuple(result.shape) for result in results] == shapes, (name, letter)
            served.add((name, letter))
    assert served >= {
        ("flash_attention_lse", "Hkv"), ("flash_attention_backward", "Hkv"),
        ("flash_attention_varlen_f8_lse", "Hkv"), ("flash_attention_rotary", "Hkv"),
        ("paged_attention_lse", "Hkv"), ("awq_dequantize", "R"), ("selective_scan", "G"),
        ("selective_state_update", "G"), ("gated_delta_rule_packed", "H"),
    }  # fmt: skip


def says_no(call: Any) -> bool:
    try:
        call()
    except (Error, RuntimeError):
        return True
    return False
