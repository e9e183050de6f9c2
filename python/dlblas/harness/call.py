"""The tensors and scalars of one case, and the call on them.

In: a Case. Out: inputs with pristine copies, results between guard zones, and the operator run on
them through Python or, with a chosen number of threads, through the C ABI. Read next: tensors.py,
values.py, checks.py.
"""

from __future__ import annotations

import contextlib
import math
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _functions, _hooks, tuning
from .._dtypes import TABLE
from .._specs import shape_of, size_arguments
from . import abi, values
from .cases import INPLACE, SPLIT, Case, Registry, kind_of, split_leading
from .tensors import Guarded

# What results hold before successive calls: an element that keeps its pattern was not written.
PATTERNS = (0xA5, 0x5A)


class FailedCheck(Exception):  # noqa: N818 - a verdict, not an error of the library
    """What is wrong, and in which configuration (None: the default)."""

    def __init__(self, reason: str, config: str | None = None) -> None:
        super().__init__(reason)
        self.config = config


class SkippedCase(Exception):  # noqa: N818
    """Why a case cannot be built or judged here."""


def numpy_dtype(name: str) -> np.dtype[Any]:
    try:
        found: np.dtype[Any] = np.dtype(_hooks.numpy_descr(*TABLE[name][:2]))
        return found
    except ImportError:
        raise SkippedCase(f"{name} needs the Python package ml_dtypes") from None


class Call:
    """The tensors and scalars of one case: inputs, their pristine copies, and results to be
    written."""

    def __init__(self, registry: Registry, case: Case, seed: int, device: str = "cpu") -> None:
        self.case, self.device = case, device
        facts = registry.operators[case.op]
        self.form = registry.inplace_form(case.op) if case.layout == INPLACE else None
        if case.layout == INPLACE and self.form is None:
            raise SkippedCase("the operator has no in-place form")
        self._specs = specs = facts["tensors"]
        self.leading = {d["text"] for t in specs for d in t["dims"] if d["leading"]}
        sizes: dict[str, Any] | None = case.dims
        if case.layout in SPLIT and self.leading:
            sizes = split_leading(case.dims, self.leading)
        if sizes is None:
            raise SkippedCase("the shape has no two leading dimensions")
        present = [t for t in specs if not t["optional"] or case.args.get(t["name"], t["usual"])]
        matrices = [t["name"] for t in present if len(t["dims"]) > 1]
        self.with_rows = {t["name"] for t in present if t["dims"] and t["dims"][0]["leading"]}
        crc = zlib.crc32(case.identity.encode())
        rng = np.random.default_rng([seed, crc])
        named_sizes = (sizes[letter["name"]] for letter in facts["letters"])
        letters = [math.prod(n) if isinstance(n, list) else n for n in named_sizes]
        self.inputs: dict[str, Guarded] = {}
        for t in present:
            name, given = t["name"], case.args.get(t["name"])
            dtype = numpy_dtype(given if isinstance(given, str) else self._dtype(t))
            kind = kind_of(case.layout, name, matrices, t["written"])
            tensor = self.make(shape_of(t["dims"], sizes, kind == "ones"), dtype, kind)
            if values.drawn_here(t["fill"], tensor.dtype):
                tensor.assign(values.draw(rng, tensor.shape, tensor.dtype, case.values, t["fill"]))
            else:
                abi.make_input(case.op, name, letters, seed << 32 ^ crc, tensor.array)
            self.inputs[name] = tensor
        self.pristine = {name: tensor.copy() for name, tensor in self.inputs.items()}  # the host's
        self.scalars = {k: v for k, v in case.args.items() if k not in {t["name"] for t in specs}}
        self.scalars.update(size_arguments(facts, sizes))
        self.defaults = {
            p["name"]: p["default"] for p in facts["forms"][0]["params"] if p["kind"] != "tensor"
        }
        named = {name: tensor.array for name, tensor in self.inputs.items()}
        made = _functions.native["results"](case.op, (), {**named, **self.scalars})
        self.results: list[Guarded] = []
        self.result_names = [row[0] for row in made]
        of_rows = (t["dims"] and t["dims"][0]["leading"] for t in facts["results"])
        self.all_of_rows = all(of_rows)  # no result is a sum over rows
        for i, (name, code, bits, shape, _) in enumerate(made):
            receiver = self.form["receives"][i] if self.form else ""
            if receiver:
                self.results.append(self.inputs[receiver])
            else:
                kind = kind_of(case.layout, name, matrices, True)
                self.results.append(self.make(shape, _hooks.numpy_descr(code, bits), kind))
        received = self.form["receives"] if self.form else [""] * len(made)
        self.outputs = [r for r, name in zip(self.results, received, strict=True) if not name]
        # Results, then the inputs that the operator writes; None for an absent one.
        self.written = [t["name"] for t in specs if t["written"]]
        written = [self.inputs.get(name) for name in self.written]
        self.judged: list[Guarded | None] = [*self.results, *written]
        self.judged_names = [*self.result_names, *self.written]

    def make(self, shape: Sequence[int], dtype: Any, kind: str) -> Guarded:
        """A tensor of this case, in the memory of its device."""
        if self.device == "cpu":
            return Guarded(shape, dtype, kind)
        from .device import DeviceGuarded

        try:
            return DeviceGuarded(shape, dtype, kind, self.device)
        except RuntimeError as error:  # torch's: rows far apart need more than some GPUs have
            if "out of memory" not in str(error):
                raise
            raise SkippedCase("does not fit into this GPU's memory") from None

    def _dtype(self, spec: dict[str, Any]) -> str:
        if self.case.dtype in spec["dtypes"]:
            return self.case.dtype
        if spec["like"]:  # of codes, which the case's dtype may be none of
            return self._dtype(next(t for t in self._specs if t["name"] == spec["like"]))
        return str(spec["dtypes"][0])

    def named(self) -> dict[str, Any]:
        return {**{name: tensor.argument for name, tensor in self.inputs.items()}, **self.scalars}

    def before(self) -> dict[str, Any]:
        """The arguments as they were before the call, for the oracle."""
        return {**{name: tensor.array for name, tensor in self.pristine.items()}, **self.scalars}

    def out(self) -> Any:
        """Results and written inputs, on the host, after a call."""
        arrays = tuple(None if r is None else r.array for r in self.judged)
        return arrays[0] if len(arrays) == 1 else arrays

    def outcome(self) -> list[Guarded]:
        """The results and written inputs that are present."""
        return [tensor for tensor in self.judged if tensor is not None]

    def judged_at(self, index: int) -> Guarded:
        """The tensor that a verdict names by ``index``."""
        found = self.judged[index]
        assert found is not None, "an absent input was judged"
        return found

    def targets(self) -> Any:
        """The results to pass as ``out``: those that no argument receives."""
        arguments = tuple(r.argument for r in self.outputs)
        return arguments[0] if len(arguments) == 1 else arguments

    def prepare(self, pattern: int) -> None:
        restored = [name for name in self.written if name in self.inputs]
        restored += filter(None, self.form["receives"] if self.form else [])
        for name in restored:
            self.inputs[name].restore(self.pristine[name])
        for result in self.outputs:
            result.poison(pattern)

    def run(self, pattern: int, threads: int = 0, deterministic: bool = False) -> None:
        """Calls the operator. ``threads`` 0: through Python, with the library's default count.
        ``deterministic``: requests the same bits."""
        self.prepare(pattern)
        tensors = [*self.inputs.values(), *self.outputs]
        for tensor in tensors:
            tensor.push()
        name = self.form["name"] if self.form else self.case.op
        if threads and self.device == "cpu":
            abi.call(name, self.named(), [r.array for r in self.outputs], threads, deterministic)
        else:
            targets = {"out": self.targets()} if self.outputs else {}
            with tuning.deterministic() if deterministic else contextlib.nullcontext():
                _functions.FUNCTIONS[name].call(**self.named(), **targets)
        for tensor in tensors:
            tensor.pull()

    def bits(self) -> list[bytes]:
        return [tensor.bits() for tensor in self.outcome()]

    def undefined(self) -> list[Any]:
        """For each result and written input, one boolean per byte: true where the reference does
        not define the element. Costs a full evaluation of the reference."""
        from ..oracle import reference

        rows = zip(self.outcome(), reference(self.case.op, (), self.before()), strict=True)
        return [np.repeat(row.magnitude.reshape(-1) < 0, t.dtype.itemsize) for t, row in rows]

    @staticmethod
    def blank(bits: bytes, undefined: Any) -> bytes:
        """The bytes, with those of undefined elements set to zero."""
        found = np.frombuffer(bits, np.uint8).copy()
        found[undefined[: found.size]] = 0
        return bytes(found.tobytes())

    def defined(self, bits: list[bytes]) -> list[bytes]:
        return [self.blank(b, mask) for b, mask in zip(bits, self.undefined(), strict=True)]

    def defined_bits(self) -> list[bytes]:
        return self.defined(self.bits())

    def holding(self, pattern: int) -> list[Any]:
        """For each result, a mask of the elements that hold nothing but ``pattern``."""
        return [result.holding(pattern) for result in self.results]

    def unwritten(self, pattern: int, before: list[Any]) -> bool:
        """True if an element that the reference defines holds only ``pattern`` now and held only
        the other pattern in ``before``. A written byte may equal one pattern, but not both."""
        kept = [a & b for a, b in zip(self.holding(pattern), before, strict=True)]
        if not any(mask.any() for mask in kept):
            return False
        masks = self.undefined()
        return any(
            bool((mask & ~undefined[:: result.dtype.itemsize]).any())
            for result, mask, undefined in zip(self.results, kept, masks, strict=False)
        )

    def check_memory(self) -> None:
        """Checks that guards and gaps are intact and inputs are unchanged."""
        for name, tensor in zip(self.result_names, self.results, strict=True):
            if not tensor.guards_intact():
                raise FailedCheck(f"memory around {name} was written")
        for name, tensor in self.inputs.items():
            if not tensor.guards_intact():
                raise FailedCheck(f"memory around {name} was written")
            changes = name in self.written or tensor in self.results
            if not changes and tensor.bits() != self.pristine[name].bits():
                raise FailedCheck(f"input {name} was written")
