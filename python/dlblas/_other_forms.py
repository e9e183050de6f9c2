"""Calls that an operator's own form does not take, and that users of DLBlas have in their code.

In: a call that the library has refused, or that torch.compile sees. Out: what it means, or None,
and the refusal stands. A call of the operator's own form never comes here. Read next: kernels/,
bindings/python/init.cpp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from ._functions import FUNCTIONS
from ._hooks import other_forms
from .errors import Error, renamed

if TYPE_CHECKING:  # as editors and type checkers see them, in place of the operator's own form
    _A = TypeVar("_A")

    @overload
    def add_rms_norm(
        x: _A,
        weight: Any,
        residual: None = None,
        eps: float = 1e-6,
        *,
        weight_offset: float = 0.0,
        cast_before_weight: bool = False,
        out: _A | None = None,
        stream: int | None = None,
    ) -> _A: ...
    @overload
    def add_rms_norm(
        x: _A,
        weight: Any,
        residual: Any,
        eps: float = 1e-6,
        *,
        weight_offset: float = 0.0,
        cast_before_weight: bool = False,
        out: tuple[_A, _A] | None = None,
        stream: int | None = None,
    ) -> tuple[_A, _A]: ...
    def add_rms_norm(*args: Any, **named: Any) -> Any:
        """h = round(x + residual); residual_out = h; y = h · rsqrt(mean_C(h²) + eps) · (weight +
        weight_offset). Without a residual, y alone."""


_OF_RMS_NORM = {
    "x", "weight", "eps", "weight_offset", "cast_before_weight", "residual", "out", "stream",
}  # fmt: skip


def _rms_norm(args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """``hidden_states`` for ``x``."""
    if args or "x" in named or "hidden_states" not in named:
        return None
    rest = {**named}
    return FUNCTIONS["rms_norm"].call(rest.pop("hidden_states"), **rest)


def _add_rms_norm(args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """``hidden_states`` for ``x``; y alone without a residual."""
    given = {**dict(zip(("x", "weight", "residual", "eps"), args, strict=False)), **named}
    is_old = "hidden_states" in given and "x" not in given
    if is_old:
        given["x"] = given.pop("hidden_states")
    alone = given.get("residual") is None and "x" in given and "weight" in given
    if alone and given.keys() <= _OF_RMS_NORM:
        given.pop("residual", None)
        try:
            return FUNCTIONS["rms_norm"].call(**given)
        except Error as error:  # of the operator that the user has called
            raise renamed(error, "add_rms_norm") from None
    return FUNCTIONS["add_rms_norm"].call(**given) if is_old else None


def _rank(array: Any) -> int:
    """The dimensions that an argument says it has; 0 of one that does not say."""
    try:
        shape = array.shape
        return len(shape) if isinstance(shape, tuple) else 0
    except Exception:  # whatever a foreign object raises: the refusal stands
        return 0


def _matmul(args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Matrices on both sides: the products of a batch, as ``bmm``."""
    given = {**dict(zip(("a", "b", "activation"), args, strict=False)), **named}
    if min(_rank(given.get(name)) for name in ("a", "b")) < 3 or given.keys() - {
        "a", "b", "activation", "bias", "out_dtype", "out",
    }:  # fmt: skip
        return None
    try:
        from ._faces import bmm
    except ImportError:  # a library of some operators
        return None
    try:
        return bmm(given.pop("a"), given.pop("b"), **given)
    except Error as error:
        raise renamed(error, "matmul") from None


other_forms["matmul"] = _matmul
other_forms["rms_norm"] = _rms_norm
other_forms["add_rms_norm"] = _add_rms_norm
