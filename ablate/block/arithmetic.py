"""Arithmetic in fields: `1/sqrt(2*depth)`, read with Python's own parser and evaluated without `eval`.

Known names: depth (number of blocks), layer (this block, from 1), width (of the model), heads, head_width,
context (positions). Known functions: sqrt, exp, log, min, max.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass

NAMES = ("depth", "layer", "width", "heads", "head_width", "context")
FUNCTIONS: Mapping[str, Callable[..., float]] = {
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
    "min": min,
    "max": max,
}
OPERATORS: Mapping[type[ast.AST], Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
MAX_LENGTH = 200


class ArithmeticProblem(ValueError):
    """An expression that cannot be read or evaluated; `start` and `end` are offsets into its text."""

    def __init__(self, message: str, start: int = 0, end: int | None = None):
        super().__init__(message)
        self.start, self.end = start, end


@dataclass(frozen=True, slots=True)
class Expression:
    """Arithmetic over the sizes of a model, kept as its canonical text.

    >>> parse("1 / sqrt(2 * depth)").text
    '1/sqrt(2*depth)'
    >>> parse("1/sqrt(2*depth)").at({"depth": 2})
    0.5
    """

    text: str

    @property
    def constant(self) -> float | None:
        """The number, if the expression is one as written; None if it names a size."""
        return None if self.names() else self.at({})

    def names(self) -> frozenset[str]:
        """The sizes it depends on."""
        tree = ast.parse(self.text, mode="eval")
        called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        return frozenset(n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and id(n) not in called)

    def at(self, scope: Mapping[str, float]) -> float:
        """Its value in float64; raises ArithmeticProblem where it has none (1/0, sqrt(-1), too large)."""
        try:
            value = float(_evaluate(ast.parse(self.text, mode="eval").body, scope))
        except (ZeroDivisionError, OverflowError, ValueError, TypeError) as error:
            raise ArithmeticProblem(f"{self.text} has no value here: {error}") from None
        if not math.isfinite(value):
            raise ArithmeticProblem(f"{self.text} is not finite here")
        return value


def parse(text: str | int | float) -> Expression:
    """Read arithmetic; raises ArithmeticProblem that says which characters are wrong."""
    source = number_text(text) if isinstance(text, int | float) else text.strip()
    if len(source) > MAX_LENGTH:
        raise ArithmeticProblem(f"an expression has at most {MAX_LENGTH} characters")
    try:
        tree = ast.parse(source, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ArithmeticProblem(f"{source!r} is not arithmetic") from None
    _check(tree.body, source)
    expression = Expression(_print(tree.body))
    if not expression.names():
        expression = Expression(number_text(expression.at({}))) if isinstance(tree.body, ast.Constant) else expression
        expression.at({})
    return expression


def number_text(value: int | float) -> str:
    """The shortest text that reads back as the same number; whole numbers without a point."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))


def _check(node: ast.expr, source: str) -> None:
    start, end = node.col_offset, node.end_col_offset
    match node:
        case ast.Constant(value=bool() | str() | bytes() | complex() | None):
            raise ArithmeticProblem(f"{ast.unparse(node)} is not a number", start, end)
        case ast.Constant():
            return
        case ast.Name(id=name):
            if name not in NAMES:
                raise ArithmeticProblem(f"unknown size {name!r}", start, end)
        case ast.BinOp(left=left, op=op, right=right):
            if type(op) not in OPERATORS:
                raise ArithmeticProblem("only + - * / ** are known here", start, end)
            if isinstance(op, ast.Pow) and not isinstance(right, ast.Constant | ast.UnaryOp | ast.BinOp):
                raise ArithmeticProblem("an exponent must be a number", start, end)
            _check(left, source)
            _check(right, source)
        case ast.UnaryOp(op=op, operand=operand):
            if type(op) not in OPERATORS:
                raise ArithmeticProblem("only + and - are known here", start, end)
            _check(operand, source)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
            if name not in FUNCTIONS:
                raise ArithmeticProblem(f"unknown function {name!r}", start, start + len(name))
            for argument in args:
                _check(argument, source)
        case _:
            raise ArithmeticProblem("only arithmetic is allowed here", start, end)


def _evaluate(node: ast.expr, scope: Mapping[str, float]) -> float:
    match node:
        case ast.Constant(value=int() | float() as value):
            return float(value)
        case ast.Name(id=name):
            if name not in scope:
                raise ArithmeticProblem(f"{name} is not known here")
            return float(scope[name])
        case ast.BinOp(left=left, op=op, right=right):
            return OPERATORS[type(op)](_evaluate(left, scope), _evaluate(right, scope))
        case ast.UnaryOp(op=op, operand=operand):
            return OPERATORS[type(op)](_evaluate(operand, scope))
        case ast.Call(func=ast.Name(id=name), args=args):
            return FUNCTIONS[name](*(_evaluate(argument, scope) for argument in args))
    raise ArithmeticProblem("only arithmetic is allowed here")


PRECEDENCE: Mapping[type[ast.AST], int] = {ast.Add: 1, ast.Sub: 1, ast.Mult: 2, ast.Div: 2, ast.USub: 3, ast.UAdd: 3, ast.Pow: 4}
SYMBOLS: Mapping[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.USub: "-",
    ast.UAdd: "+",
    ast.Pow: "**",
}


def _print(node: ast.expr, outer: int = 0) -> str:
    match node:
        case ast.Constant(value=int() | float() as value):
            return number_text(value)
        case ast.Name(id=name):
            return name
        case ast.BinOp(left=left, op=op, right=right):
            own = PRECEDENCE[type(op)]
            power = isinstance(op, ast.Pow)
            text = f"{_print(left, own + power)}{SYMBOLS[type(op)]}{_print(right, own + (not power))}"
        case ast.UnaryOp(op=op, operand=operand):
            own = PRECEDENCE[type(op)]
            text = SYMBOLS[type(op)] + _print(operand, own)
        case ast.Call(func=ast.Name(id=name), args=args):
            return f"{name}({','.join(_print(argument) for argument in args)})"
        case _:
            raise ArithmeticProblem("only arithmetic is allowed here")
    return f"({text})" if own < outer else text
