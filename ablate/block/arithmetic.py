"""Arithmetic in fields: `1/sqrt(2*depth)`, read with Python's own parser and evaluated without `eval`; and comparisons.

Known names: depth (number of blocks), layer (this block, from 1), width (of the model), heads, head_width,
context (positions), vocabulary (tokens), repetition (how often two tokens of one sequence are the same, measured on
the training text), pi. Known functions: sqrt, exp, log, min, max. All numbers are float64, so evaluation is quick.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from ablate.source.problems import quote

VERSION: Final = 1
"""The version of how expressions in a model's sizes are read and computed: see `plan/versions.py`."""

NAMES = ("depth", "layer", "width", "heads", "head_width", "context", "vocabulary", "repetition")
CONSTANTS = {"pi": math.pi}
FUNCTIONS: Mapping[str, Callable[..., float]] = {
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
    "min": min,
    "max": max,
}
ONE_ARGUMENT = ("sqrt", "exp", "log")
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

_ALLOWED = re.compile(r"[A-Za-z0-9_.+\-*/(), ]*")
"""The only characters allowed, so that an offset into the text is a column, and no comment or line break can hide."""


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
        """The number that the expression stands for; None if it names a size."""
        return _constant(self.text)

    def names(self) -> frozenset[str]:
        """Return the sizes that it depends on."""
        return _names(self.text)

    def at(self, scope: Mapping[str, float]) -> float:
        """Return its value in float64; raises ArithmeticProblem if it has none (1/0, sqrt(-1), too large)."""
        try:
            value = float(_evaluate(_tree(self.text), scope))
        except ArithmeticProblem:
            raise
        except tuple(_WHY) as error:
            raise ArithmeticProblem(_WHY[type(error)]) from None
        if not math.isfinite(value):
            raise ArithmeticProblem("it is not a finite number")
        return value


@functools.lru_cache(maxsize=4096)
def _constant(text: str) -> float | None:
    expression = Expression(text)
    return None if expression.names() else expression.at({})


_WHY: Mapping[type[Exception], str] = {
    ZeroDivisionError: "it divides by zero",
    OverflowError: "a number in it is too large",
    ValueError: "a root or logarithm in it does not exist",
    TypeError: "a root in it is not a real number",
}


def parse(text: str | int | float) -> Expression:
    """Read arithmetic; raises ArithmeticProblem that says which characters are wrong."""
    if isinstance(text, int | float):
        if not math.isfinite(text):
            raise ArithmeticProblem("a number must be finite")
        return Expression(number_text(text))
    source = text.strip(" ")
    try:
        expression = Expression(_print(_read(source)))
        if len(expression.text) > MAX_LENGTH:  # 1e14 is written out, so that one number has one text
            raise ArithmeticProblem(f"written out, this has more than {MAX_LENGTH} characters")
    except ArithmeticProblem as problem:
        lead = len(text) - len(text.lstrip(" "))
        end = len(source) if problem.end is None else problem.end
        raise ArithmeticProblem(str(problem), problem.start + lead, end + lead) from None
    if not expression.names():
        try:
            expression.at({})
        except ArithmeticProblem as problem:
            raise ArithmeticProblem(f"{expression.text} has no value: {problem}") from None
    return expression


def number_text(value: int | float) -> str:
    """Return the shortest text that reads back as the same number; whole numbers without a point."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))


def _read(source: str) -> ast.expr:
    if len(source) > MAX_LENGTH:
        raise ArithmeticProblem(f"an expression has at most {MAX_LENGTH} characters")
    allowed = _ALLOWED.match(source)
    assert allowed is not None
    if allowed.end() < len(source):
        at = allowed.end()
        raise ArithmeticProblem(f"{source[at]!r} is not allowed in arithmetic", at, at + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `1or 2` is refused below, with a better message than Python's
            tree = ast.parse(source, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ArithmeticProblem(f"{quote(source)} is not arithmetic") from None
    _check(tree)
    return tree


def _check(node: ast.expr) -> None:
    start, end = node.col_offset, node.end_col_offset
    match node:
        case ast.Constant(value=bool() | str() | bytes() | complex() | None):
            raise ArithmeticProblem(f"{ast.unparse(node)} is not a number", start, end)
        case ast.Constant(value=int() | float() as value):
            if abs(value) > 1e300:  # so that every number converts to a float and prints as one
                raise ArithmeticProblem("this number is too large", start, end)
        case ast.Name(id=name):
            if name not in NAMES and name not in CONSTANTS:
                raise ArithmeticProblem(f"unknown size {name!r}", start, end)
        case ast.BinOp(left=left, op=op, right=right):
            if type(op) not in OPERATORS:
                raise ArithmeticProblem("only + - * / ** are known here", start, end)
            _check(left)
            _check(right)
        case ast.UnaryOp(op=op, operand=operand):
            if type(op) not in OPERATORS:
                raise ArithmeticProblem("only + and - are known here", start, end)
            _check(operand)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
            _check_call(node, name, args)
        case _:
            raise ArithmeticProblem("only arithmetic is allowed here", start, end)


def _check_call(node: ast.Call, name: str, args: list[ast.expr]) -> None:
    start, end = node.col_offset, node.end_col_offset
    if name not in FUNCTIONS:
        raise ArithmeticProblem(f"unknown function {name!r}", start, start + len(name))
    if name in ONE_ARGUMENT and len(args) != 1:
        raise ArithmeticProblem(f"{name} takes one argument", start, end)
    if name not in ONE_ARGUMENT and len(args) < 2:
        raise ArithmeticProblem(f"{name} takes at least two arguments", start, end)
    for argument in args:
        _check(argument)


@functools.lru_cache(maxsize=4096)
def _tree(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


@functools.lru_cache(maxsize=4096)
def _names(text: str) -> frozenset[str]:
    tree = _tree(text)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    named = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and id(n) not in called}
    return frozenset(named - CONSTANTS.keys())


def _evaluate(node: ast.expr, scope: Mapping[str, float]) -> float:
    match node:
        case ast.Constant(value=int() | float() as value):
            return float(value)
        case ast.Name(id=name) if name in CONSTANTS:
            return CONSTANTS[name]
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


PRECEDENCE: Mapping[type[ast.AST], int] = {
    ast.Add: 1,
    ast.Sub: 1,
    ast.Mult: 2,
    ast.Div: 2,
    ast.USub: 3,
    ast.UAdd: 3,
    ast.Pow: 4,
}
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


# Which layers of a model: `first`, `last`, `{every: 4}`, or a comparison such as `layer <= depth/2`.
#
# A comparison joins arithmetic in `layer` (from 1) and `depth` by <, <=, >, >= or ==. It may be a chain, as in `2 <
# layer <= depth/2`, and several may be joined by `and`. There is no `or`: a pattern may hold another pattern.

FIRST, LAST, EVERY = "first", "last", "every"
COMPARED_SIZES = frozenset({"layer", "depth"})
COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}
_COMPARISON = re.compile("<=|>=|==|<|>")
_AND = re.compile(r"\band\b")


@dataclass(frozen=True, slots=True)
class WhichLayers:
    """`first`, `last` or a comparison as its canonical `text`; or every n-th layer, if `every` is n.

    >>> which = parse_layers("2 < layer <= depth / 2")
    >>> which.text, [layer for layer in range(1, 9) if which.holds({"layer": layer, "depth": 8})]
    ('2<layer<=depth/2', [3, 4])
    """

    text: str = ""
    every: int | None = None

    def holds(self, scope: Mapping[str, float]) -> bool:
        """Return whether the layer of a scope is one of them; raises ArithmeticProblem if a side has no value."""
        if self.every is not None:
            return scope["layer"] % self.every == 0
        if self.text in (FIRST, LAST):
            return scope["layer"] == (1 if self.text == FIRST else scope["depth"])
        return all(_compared(text, scope) for text in _AND.split(self.text))


def parse_layers(text: str) -> WhichLayers:
    """Read `first`, `last` or a comparison; raises ArithmeticProblem that says which characters are wrong."""
    if text.strip() in (FIRST, LAST):
        return WhichLayers(text.strip())
    ends = [0, *(end for match in _AND.finditer(text) for end in match.span()), len(text)]
    parts = [_read_comparison(text, start, end) for start, end in zip(ends[::2], ends[1::2], strict=True)]
    return WhichLayers(" and ".join(parts))


def _read_comparison(text: str, start: int, end: int) -> str:
    signs = list(_COMPARISON.finditer(text, start, end))
    if not text[start:end].strip():
        raise ArithmeticProblem("a comparison is missing", max(0, start - 1), max(1, start))
    if not signs:
        raise ArithmeticProblem("this compares nothing", *_trimmed(text, start, end))
    starts, ends = [start, *(match.end() for match in signs)], [*(match.start() for match in signs), end]
    sides = [_side(text, *place) for place in zip(starts, ends, strict=True)]
    if not any("layer" in side.names() for side in sides):
        raise ArithmeticProblem("this is the same in every layer: compare `layer`", *_trimmed(text, start, end))
    return sides[0].text + "".join(match[0] + side.text for match, side in zip(signs, sides[1:], strict=True))


def _side(text: str, start: int, end: int) -> Expression:
    start, end = _trimmed(text, start, end)
    if start == end:
        raise ArithmeticProblem("a side of the comparison is missing", max(0, start - 1), start)
    try:
        expression = parse(text[start:end])
    except ArithmeticProblem as problem:
        stop = end if problem.end is None else start + problem.end
        raise ArithmeticProblem(str(problem), start + problem.start, stop) from None
    if unknown := sorted(expression.names() - COMPARED_SIZES):
        raise ArithmeticProblem(f"which layers cannot depend on {', '.join(unknown)}", start, end)
    return expression


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    inside = text[start:end]
    if not inside.strip():
        return start, start
    return start + len(inside) - len(inside.lstrip()), end - len(inside) + len(inside.rstrip())


def _compared(text: str, scope: Mapping[str, float]) -> bool:
    sides = [Expression(side.strip()).at(scope) for side in _COMPARISON.split(text)]
    signs = _COMPARISON.findall(text)
    return all(COMPARISONS[sign](left, right) for sign, (left, right) in zip(signs, pairwise(sides), strict=True))
