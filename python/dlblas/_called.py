"""Which operators a call would run, without running it: the call is made on torch's meta tensors,
which have shapes, dtypes and strides, but no memory.

For functions made of operators (``linear``, ``flash_attention`` …), and for calls of an operator in
another form than its own (``softmax(x, dim=0)``). In: a function's name and arguments, arrays or
``Spec``s. Out: operators with ``Spec``s of their arguments. Needs torch, for arrays of any package.
Used by: tuning.py. Read next: _made_of.py, _other_forms.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from . import _dtypes, _hooks
from ._array import Spec
from ._functions import FUNCTIONS, Function
from ._given import strides_of
from ._overlap import address_of
from ._torch_bridge import attach_torch
from .errors import Error


class Called(NamedTuple):
    """One operator call."""

    function: Function
    named: dict[str, Any]  # tensors as Specs


def _device_of(value: Any) -> Any:
    """Where the first tensor of an argument is; None if it holds none."""
    if isinstance(value, (tuple, list)):
        return next((found for one in value if (found := _device_of(one))), None)
    if getattr(value, "dtype", None) is None or not hasattr(value, "shape"):
        return None
    device = str(getattr(value, "device", "cpu"))
    return "cpu" if device == "meta" else device


_INVENTED = 1 << 48  # addresses from here on are no memory


class _Memory:
    """Addresses of meta tensors, which the library compares and never reads: an argument's own, so
    that its alignment and what it shares count, and others that nothing has."""

    def __init__(self) -> None:
        self.known: dict[int, int] = {}
        self.kept: list[Any] = []  # a storage that is freed leaves its identity to another

    def put(self, tensor: Any, address: int | None) -> None:
        own = _INVENTED + (len(self.known) << 40)
        self.known.setdefault(tensor.untyped_storage()._cdata, own if address is None else address)
        self.kept.append(tensor)

    def of(self, tensor: Any) -> int:
        self.put(tensor, None)
        base = self.known[tensor.untyped_storage()._cdata]
        return int(base + tensor.storage_offset() * tensor.element_size())


def _meta(torch: Any, value: Any, memory: _Memory) -> Any:
    """The argument with meta tensors for its arrays."""
    if isinstance(value, (tuple, list)):
        return type(value)([_meta(torch, one, memory) for one in value])
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    name = None if dtype is None else _dtypes.name_of(dtype)
    if shape is None or name is None:
        return value
    kind = dtype if isinstance(dtype, torch.dtype) else getattr(torch, _dtypes.TABLE[name][2])
    strides = strides_of(value)
    if strides is None or any(step < 0 for step in strides):  # torch has none below 0
        made = torch.empty(tuple(shape), dtype=kind, device="meta")
    else:
        made = torch.empty_strided(tuple(shape), strides, dtype=kind, device="meta")
    memory.put(made, address_of(value))
    return made.requires_grad_() if getattr(value, "requires_grad", False) is True else made


def _recorder(torch: Any, device: Any, memory: _Memory, found: list[Called]) -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    from .torch._operations import OPERATIONS

    def spec(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        made = Spec(tuple(value.shape), value.dtype, tuple(value.stride()), device)
        address = memory.of(value)
        if address >= _INVENTED and (made.dtype in ("i32", "i64") or value.numel() < 2):
            return made  # indices and scales that the call computes: the library would read them
        made._exchange = (address, *made._exchange[1:])
        return made

    class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            made = func(*args, **(kwargs or {}))  # raises what the call would
            name = func._schema.name.partition("::")[2] if func.namespace == "dlblas" else ""
            operation = OPERATIONS.get(name)
            if operation is None:
                return made
            names = [a.name for a in func._schema.arguments]
            given = {**dict(zip(names, args, strict=False)), **(kwargs or {})}
            function = FUNCTIONS[operation.form]
            outs = [
                spec(given.pop(name))
                for name, (kind, _) in zip(names, operation.arguments, strict=True)
                if kind == "result"
            ]
            named = {key: spec(value) for key, value in given.items() if value is not None}
            if outs:
                named["out"] = outs[0] if len(outs) == 1 else tuple(outs)
            found.append(Called(function, named))
            return made

    made: Any = Recorder
    return made()


def record(
    call: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any], device: Any = None
) -> tuple[list[Called], Any] | None:
    """The operators that the call runs, each once, in order, and the call's result; None without
    torch. Raises what the call would."""
    try:
        import torch
    except ImportError:
        return None
    if attach_torch():
        return None
    where = device or _device_of((*args, *named.values())) or "cpu"
    found: list[Called] = []
    memory = _Memory()
    given = tuple(_meta(torch, value, memory) for value in args)
    more = {key: _meta(torch, value, memory) for key, value in named.items()}
    before, _hooks.planning.on = _hooks.is_planning(), True
    try:
        with _recorder(torch, where, memory, found):
            result = call(*given, **more)
    finally:
        _hooks.planning.on = before
    each = {f"{one.function.name} {one.named!r}": one for one in found}
    return list(each.values()), result


def in_other_form(
    function: Function, args: tuple[Any, ...], named: dict[str, Any], device: Any = None
) -> list[Called]:
    """The operators behind a call that is not in the operator's own form; none if it is in no form
    that is known. Raises what the call would, if it is in one."""
    form = _hooks.older_forms.get(function.name)
    if form is None:
        return []
    try:
        made = record(lambda *args, **named: form(args, named), args, named, device)
    except Error:
        raise
    except Exception:  # values that are no arrays: what the operator says of them holds
        return []
    if made is None or made[1] is None:
        return []
    return made[0]
