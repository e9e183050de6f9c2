"""The operators in torch: every form of every operator, from the registry and not by name.

The same file runs on a GPU with -m gpu. Read next: bindings/torch/kernel.cpp, docs/torch.md,
test_torch_calls.py.
"""

from __future__ import annotations

import functools
import math
import random
from typing import Any, NamedTuple

import dlblas
import ml_dtypes
import numpy as np
import pytest
from depth import depth_of
from dlblas import errors
from dlblas.harness import abi, load_registry
from levels import ON_GPUS

torch = pytest.importorskip("torch")

import dlblas.torch  # noqa: E402
from dlblas.torch._fakes import TORCH_DTYPES  # noqa: E402
from dlblas.torch._register import OPERATIONS, operator  # noqa: E402

CPU = pytest.param("cpu", id="cpu")
CUDA = pytest.param("cuda", id="cuda", marks=pytest.mark.gpu)
DEVICES = [CPU, CUDA]
INTEGERS = (torch.int32, torch.int64)
SIZES = (5, 48, 24, 7, 3, 2, 4, 6, 8, 9)
REGISTRY = load_registry()
INFO = REGISTRY.operators


# ---- arguments for any operation, out of its schema ---------------------------------------------


@functools.cache
def sizes_of(name, absent):
    """Sizes by letter: SIZES in order of first appearance, or those of the smallest of its cases
    where the operator refuses them; a size given by a scalar has its default."""
    operation = OPERATIONS[name]
    letters = dict.fromkeys(n for t in operation.tensors for d in t.dims for n in d.letters)
    few = {letter: 2 for _, letter, default in operation.sizes if default is None}
    defaults = {letter: n for _, letter, n in operation.sizes if n is not None}
    first = {**dict(zip(letters, SIZES, strict=False)), **few}
    cases = [row["dims"] for row in REGISTRY.rows if row["op"] == operation.operator]
    plain = [dims for dims in cases if all(isinstance(n, int) and n > 1 for n in dims.values())]
    for dims in [first, *sorted(plain, key=lambda dims: math.prod(dims.values()))]:
        sizes = {**dims, **defaults}
        try:
            operator(name)(*made_of(operation, "cpu", "f32", sizes, absent))
        except (RuntimeError, errors.Error):
            continue
        return sizes
    raise LookupError(f"{name}: no case of the operator has sizes that it takes")


def shape(spec, sizes):
    return tuple(dim.evaluate(sizes) for dim in spec.dims)


def dtype_of(spec, tensors, wanted):
    names = [wanted, *spec.dtypes] if wanted in spec.dtypes else spec.dtypes
    if spec.like >= 0 and spec.like in tensors:
        return tensors[spec.like].dtype
    return TORCH_DTYPES[(*names, *spec.like_absent)[0]]


def make_arguments(operation, device, dtype="f32", absent=False):
    """Positional arguments; ``absent`` leaves out the optional tensors."""
    return made_of(operation, device, dtype, sizes_of(operation.name, absent), absent)


def made_of(operation, device, dtype, letters, absent):
    tensors, arguments = {}, []
    given = {index: letter for index, letter, default in operation.sizes if default is None}
    wanted = operator(operation.name)._schema.arguments
    for kind, index in operation.arguments:
        if kind == "scalar" and index in given:
            arguments.append(letters[given[index]])
            continue
        if kind == "scalar" and not wanted[len(arguments)].has_default_value():
            arguments.append(0)
            continue
        if kind == "scalar":
            break  # what follows has a default
        i = index + (operation.num_inputs if kind == "result" else 0)
        spec = operation.tensors[i]
        alias = wanted[len(arguments)].alias_info
        # The tensor that receives an in-place result is passed even if it is optional.
        receives = operation.form.endswith("_") and alias is not None and alias.is_write
        if spec.optional and absent and not receives:
            arguments.append(None)
            continue
        # An optional input that decides a result's dtype comes after the result.
        later = spec.like >= 0 and spec.like not in tensors and not absent
        decides = operation.tensors[spec.like] if later else spec
        kind_of_it = dtype_of(decides, tensors, dtype)
        if kind_of_it.is_floating_point:
            made = torch.randn(shape(spec, letters))
            fills = {t["name"]: t["fill"] for t in INFO[operation.operator]["tensors"]}
            if fills.get(spec.name) == "positive":  # scales, which some operators divide by
                made = made.abs() + 0.0625
            made = made.to(kind_of_it)
        else:  # indices, inside their bounds
            made = torch.empty(shape(spec, letters), dtype=kind_of_it)
        if not kind_of_it.is_floating_point and i < operation.num_inputs:
            facts = INFO[operation.operator]["letters"]
            known = [letters.get(letter["name"], 1) for letter in facts]
            abi.make_input(operation.operator, spec.name, known, 1, made.numpy())
        tensors[i] = made.to(device)
        arguments.append(tensors[i])
    return arguments


def copies(arguments):
    return [a.clone() if isinstance(a, torch.Tensor) else a for a in arguments]


def fakes(arguments):
    return [a.to("meta") if isinstance(a, torch.Tensor) else a for a in arguments]


def named_of(operation, arguments):
    """The same arguments by name, for the operator on NumPy arrays."""
    named = {}  # torch has sizes without a default before optional tensors
    names = [a.name for a in operator(operation.name)._schema.arguments]
    for (kind, index), name, value in zip(operation.arguments, names, arguments, strict=False):
        if kind == "tensor":
            spec = operation.tensors[index]
            base = operation.tensors[spec.like] if spec.like >= 0 else spec
            as_it_is = "f32" not in base.dtypes and "i32" not in base.dtypes
            named[spec.name] = None if value is None else to_numpy(value, as_it_is)
        elif kind == "scalar" and value is not None:  # else a default
            named[name] = value
    return named


class Judged(NamedTuple):
    """For one result: where the oracle defines no element, or None, and how far two right results
    may differ beyond a rounding."""

    undefined: Any = None
    apart: Any = 0


def judged(operation, arguments):
    """For each result. f8 products keep 13 bits on a GPU: for them, the oracle's bounds apply."""
    facts, number = INFO[operation.operator], len(operation.tensors) - operation.num_inputs
    if facts["judge"] or not number:
        return [Judged()] * max(number, len(operation.tensors))
    rows = dlblas.reference(operation.operator, (), named_of(operation, arguments))
    masks = [row.magnitude < 0 for row in rows]
    of_codes = any(
        a.dtype.is_floating_point and a.element_size() == 1 for a in arguments if torch.is_tensor(a)
    )
    return [
        Judged(mask if mask.any() else None, 2 * row.allowed() if of_codes else 0)
        for mask, row in zip(masks, rows, strict=True)
    ]


def assert_close(ours, theirs, by):
    """Compares what is defined; 16-bit results agree to one rounding of theirs."""
    rtol = 2.0**-7 if ours.element_size() == 2 else 2e-4
    ours = ours.float().cpu().numpy()
    if by.undefined is not None:
        ours, theirs = (np.where(by.undefined, 0, array) for array in (ours, theirs))
    finite = abs(theirs[np.isfinite(theirs)])  # sums cancel: to their size
    least = 2e-4 * max(1.0, float(np.mean(finite)) if finite.size else 0.0)
    close = np.isclose(ours, theirs, rtol=rtol, atol=np.maximum(least, by.apart), equal_nan=True)
    far = np.argwhere(~close)[:5]
    assert not far.size, [(tuple(i), ours[tuple(i)], theirs[tuple(i)]) for i in far]


def reference(operation, arguments):
    """The results of the same operator on NumPy arrays: another entry point, without torch."""
    named = named_of(operation, arguments)
    inputs = list(named.values())
    results = getattr(dlblas, operation.form)(**named)
    if results is None:  # no results: what it writes are inputs
        before = [
            v for (k, _), v in zip(operation.arguments, arguments, strict=False) if k == "tensor"
        ]
        arrays = [v for v in inputs if v is None or hasattr(v, "shape")]
        results = tuple(
            x
            for x, v in zip(arrays, before, strict=True)
            if v is not None and (x != to_numpy(v)).any()
        )
    results = results if isinstance(results, tuple) else (results,)
    return tuple(r.astype(np.float32) for r in results)


def to_numpy(value, as_it_is=False):
    """A copy as f32, except for 8 bits, integers, and f16 where the operator has no f32."""
    value = value.detach().cpu()
    if value.dtype in INTEGERS or (as_it_is and value.dtype == torch.float16):
        return value.numpy().copy()
    if value.element_size() > 1:
        return value.float().numpy().copy()
    name = str(value.dtype).removeprefix("torch.")
    return value.clone().view(torch.uint8).numpy().view(getattr(ml_dtypes, name, name))


FORMS = sorted(OPERATIONS)
PLACES = [pytest.param(name, "cpu", id=f"{name}-cpu") for name in FORMS] + [
    pytest.param(name, "cuda", id=f"{name}-cuda", marks=pytest.mark.gpu)
    for name in FORMS
    if OPERATIONS[name].operator in ON_GPUS
]


@pytest.mark.parametrize(("name", "device"), PLACES)
def test_every_form_computes(name, device):
    operation = OPERATIONS[name]
    arguments = make_arguments(operation, device)
    if operation.form.endswith("_"):  # in place: what is written is the functional form's result
        functional = OPERATIONS[operation.operator]
        given = dict(zip(operation.arguments, arguments, strict=False))
        taken = [given.get(key) for key in functional.arguments]
        allowed = judged(functional, taken)
        expected = reference(functional, taken)
        got = operator(name)(*arguments)
        assert (got is None) == (operation.num_returned == 0)
        made = dict(
            zip(operation.returned, got if isinstance(got, tuple) else (got,), strict=False)
        )
        filled = list(zip(operation.arguments, arguments, strict=False))
        made |= {index: a for (kind, index), a in filled if kind == "result"}
        inputs = iter([a for (k, _), a in filled if k == "tensor" and a is not None and a._version])
        written = [made[r] if r in made else next(inputs) for r in range(len(expected))]
        assert next(inputs, None) is None
    else:
        allowed = judged(operation, arguments)
        expected = reference(operation, copies(arguments))
        got = operator(name)(*arguments)
        if operation.num_returned == 0 and operation.num_inputs == len(operation.tensors):
            assert got is None
            got = tuple(a for a in arguments if a is not None and a._version > 0)
        elif operation.num_returned == 0:
            assert got is None
            got = tuple(
                a
                for (kind, _), a in zip(operation.arguments, arguments, strict=False)
                if kind == "result"
            )
        written = got if isinstance(got, tuple) else (got,)
    assert len(written) == len(expected) <= len(allowed)
    for ours, theirs, by in zip(written, expected, allowed, strict=False):
        assert ours.device.type == device
        assert_close(ours, theirs, by)


def with_or_without() -> list[Any]:
    """Every form and device, with its optional inputs and without them; of one of these, by the
    seed, in a sample."""
    depth, chosen = depth_of(), list[Any]()
    for place in PLACES:
        drawn = random.Random(f"{place.values[0]} {depth.seed}").random() < 0.5
        for absent in (False, True) if depth.full else (drawn,):
            id_ = f"{place.id}-{'required' if absent else 'all'}"
            chosen.append(pytest.param(*place.values, absent, id=id_, marks=place.marks))
    return chosen


@pytest.mark.parametrize(("name", "device", "absent"), with_or_without())
def test_opcheck(name, device, absent):
    operation = OPERATIONS[name]
    arguments = make_arguments(operation, device, absent=absent)
    utils = ["test_autograd_registration", "test_faketensor"]
    if not any(
        t.dtype.is_floating_point and t.element_size() == 1 for t in tensors_of(name, arguments)
    ):
        utils.append("test_schema")  # multiplies what it is given: torch has no arithmetic of f8
    if has_undefined(operation, arguments):
        check_traced(name, arguments)  # torch's own check compares every element
    else:
        utils.append("test_aot_dispatch_dynamic")
    result = torch.library.opcheck(operator(name), tuple(arguments), test_utils=utils)
    assert set(result.values()) == {"SUCCESS"}


def has_undefined(operation, arguments):
    """Do new results have elements that the operator does not write?"""
    made = operation.num_returned and not operation.form.endswith("_")
    return made and any(by.undefined is not None for by in judged(operation, arguments))


def check_traced(name, arguments):
    """Traced with symbolic sizes, an operator gives its eager results wherever they are defined."""
    call = operator(name)
    torch._dynamo.reset()
    traced = torch.compile(
        lambda *given: call(*given), fullgraph=True, dynamic=True, backend="aot_eager"
    )
    at_once, later = (f(*copies(arguments)) for f in (call, traced))
    pairs = zip(*(r if isinstance(r, tuple) else (r,) for r in (at_once, later)), strict=True)
    for (ours, theirs), by in zip(pairs, judged(OPERATIONS[name], arguments), strict=False):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        assert_close(ours, theirs.float().cpu().numpy(), by)


def tensors_of(name, arguments):
    """All tensors among the arguments and results."""
    results = operator(name)(*copies(arguments))
    results = results if isinstance(results, tuple) else (results,)
    return [t for t in (*arguments, *results) if isinstance(t, torch.Tensor)]


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("name", FORMS)
def test_fakes_tell_shapes_and_dtypes(name, dtype):
    """Meta results have the shapes, dtypes and strides that the kernel's results have."""
    operation = OPERATIONS[name]
    arguments = make_arguments(operation, "cpu", dtype)
    real = operator(name)(*copies(arguments))
    fake = operator(name)(*fakes(arguments))
    if real is None:
        assert fake is None
        return
    pairs = zip(
        real if isinstance(real, tuple) else (real,),
        fake if isinstance(fake, tuple) else (fake,),
        strict=True,
    )
    for ours, theirs in pairs:
        assert (ours.shape, ours.dtype, ours.stride()) == (
            theirs.shape, theirs.dtype, theirs.stride(),
        )  # fmt: skip


def refusal(name, arguments):
    """The first word of a call's error message, for both sides to compare; empty on success."""
    try:
        operator(name)(*arguments)
    except (RuntimeError, errors.Error) as reason:
        return str(reason).partition(" ")[0]
    return ""


@pytest.mark.parametrize("name", FORMS)
def test_fakes_refuse_what_the_kernel_refuses(name):
    arguments = make_arguments(OPERATIONS[name], "cpu")
    refused = 0
    for i, value in enumerate(arguments):
        if not isinstance(value, torch.Tensor):
            continue
        dims = tuple(value.shape)
        sizes = [(*dims[:axis], n + 1, *dims[axis + 1 :]) for axis, n in enumerate(dims)]
        # Scales of 0 are refused for their value, which a fake does not have.
        blank = value.new_ones if value.is_floating_point() else value.new_zeros
        wrong = [blank(s) for s in [*sizes, (*value.shape, 2, 3), ()]]
        wrong += [value.to(dtype) for dtype in (torch.complex64, torch.int32, torch.float16)]
        for other in wrong:
            real = [*copies(arguments[:i]), other, *copies(arguments[i + 1 :])]
            kernels = refusal(name, real)
            assert bool(refusal(name, fakes(real))) == bool(kernels), other.shape
            refused += bool(kernels)
    assert refused >= 2 * sum(isinstance(a, torch.Tensor) for a in arguments)


def test_schemas_are_what_torch_compiles():
    """No keyword-only argument, no overload, no result that aliases an argument."""
    for name in FORMS:
        schema = operator(name)._schema
        assert getattr(torch.ops.dlblas, name).overloads() == ["default"]
        assert not any(a.kwarg_only for a in schema.arguments)
        assert all(r.alias_info is None for r in schema.returns)
        written = [a for a in schema.arguments if a.alias_info and a.alias_info.is_write]
        assert bool(written) == OPERATIONS[name].writes
        assert len(schema.returns) == OPERATIONS[name].num_returned
