"""A tiny evaluator for ``where=`` expressions: arithmetic, comparisons and logic over knob names,
nothing else.

Not ``eval``: an expression may come from a command line or a file, so only the nodes below are
evaluated; calls, attributes and subscripts are refused by name. Read next: spaces.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .errors import ArgumentError

_MAX_TEXT = 1000


def _refuse(text: str, problem: str, got: str) -> ArgumentError:
    expected = "names of knobs, numbers, texts, + - * // / %, comparisons, and, or, not, in"
    message = f"where: expression {problem}; expected {expected}, got {got}; in {text!r}"
    error = ArgumentError.from_library(message, "where", "expression", expected, got)
    assert isinstance(error, ArgumentError)
    return error


def compile_expression(text: str) -> tuple[tuple[str, ...], Callable[..., Any]]:
    """The names that an expression depends on, and a function of their values in that order."""
    import ast
    import operator

    binary: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
        ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Mod: operator.mod,
        ast.FloorDiv: operator.floordiv, ast.Div: operator.truediv,
        ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt,
        ast.LtE: operator.le, ast.Gt: operator.gt,
        ast.GtE: operator.ge, ast.In: lambda a, b: a in b, 
        ast.NotIn: lambda a, b: a not in b,
    }  # fmt: skip
    if len(text) > _MAX_TEXT:
        raise _refuse(text[:40] + "…", "is too long", f"{len(text)} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as reason:
        raise _refuse(text, "does not parse", getattr(reason, "msg", None) or str(reason)) from None

    names: list[str] = []

    def build(node: ast.AST) -> Callable[[dict[str, Any]], Any]:
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float, str, bool)):
            constant = node.value
            return lambda _: constant
        if isinstance(node, ast.Name):
            name = node.id
            if name not in names:
                names.append(name)
            return lambda values: values[name]
        if isinstance(node, (ast.Tuple, ast.List)):
            items = [build(item) for item in node.elts]
            return lambda values: [item(values) for item in items]
        if isinstance(node, ast.BoolOp):
            parts = [build(part) for part in node.values]
            join = all if isinstance(node.op, ast.And) else any
            return lambda values: join(part(values) for part in parts)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
            inner = build(node.operand)
            return (
                (lambda v: not inner(v)) if isinstance(node.op, ast.Not) else (lambda v: -inner(v))
            )
        if isinstance(node, ast.BinOp) and type(node.op) in binary:
            left, right, apply = build(node.left), build(node.right), binary[type(node.op)]
            return lambda values: apply(left(values), right(values))
        if isinstance(node, ast.Compare) and all(type(op) in binary for op in node.ops):
            terms = [build(term) for term in (node.left, *node.comparators)]
            tests = [binary[type(op)] for op in node.ops]
            return lambda values: all(
                test(a(values), b(values))
                for test, a, b in zip(tests, terms, terms[1:], strict=False)
            )
        raise _refuse(text, "holds what is not allowed", type(node).__name__)

    run = build(tree)

    def evaluate(*values: Any) -> Any:
        try:
            return run(dict(zip(names, values, strict=True)))
        except (ArithmeticError, MemoryError, TypeError, ValueError) as reason:
            raise _refuse(text, "has no value", str(reason)) from None

    return tuple(names), evaluate
