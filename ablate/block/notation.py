"""Mathematical notation for arithmetic and sums: `1/√(2L)`, `x + β f(x)`.

Sizes have the letters of the papers: L is the number of blocks, l this block, d the width, H the number of heads, d_k
the width of a head, T the context, V the size of the vocabulary, r the repetition.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from ablate.block.arithmetic import PRECEDENCE, Expression
from ablate.block.config_values import GainMaker

LETTERS: Mapping[str, str] = {
    "depth": "L",
    "layer": "l",
    "width": "d",
    "heads": "H",
    "head_width": "d_k",
    "context": "T",
    "vocabulary": "V",
    "repetition": "r",
    "pi": "π",
}
RAISED = str.maketrans("0123456789-.", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻·")
LOWERED = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
SIGNS = {ast.Add: " + ", ast.Sub: " - ", ast.Div: "/"}


class Written(float):
    """A float that is written as the arithmetic it comes from, and otherwise behaves like the number.

    >>> f"{Written(0.5, '1/√L')} = {Written(0.5, '1/√L'):g}"
    '1/√L = 0.5'
    """

    text: str

    def __new__(cls, value: float, text: str) -> Written:
        """Make the number `value`, written as `text`."""
        made = super().__new__(cls, value)
        made.text = text
        return made

    def __str__(self) -> str:
        return self.text

    def __format__(self, form: str) -> str:
        return format(float(self), form) if form else self.text


def written(expression: Expression) -> str:
    """Write arithmetic with the letters of the papers.

    >>> written(Expression("1/sqrt(2*depth)")), written(Expression("1/sqrt(head_width)")), written(Expression("0.25"))
    ('1/√(2L)', '1/√d_k', '0.25')
    """
    return _written(ast.parse(expression.text, mode="eval").body)


def number(value: float) -> str:
    """Write a number with at most four digits; a whole number in full.

    >>> number(12 ** -0.5), number(1e-8), number(10000.0)
    ('0.2887', '1e-8', '10000')
    """
    if float(value).is_integer() and abs(value) < 1e9:
        return str(int(value))
    return re.sub(r"e([+-])0", r"e\1", f"{value:.4g}")


def lowered(n: int) -> str:
    """Write a number as an index: '₁₂'."""
    return str(n).translate(LOWERED)


def weighted(gain: GainMaker, term: str) -> str:
    """Write a term times its gain: nothing for a fixed 0, the term itself for a fixed 1."""
    if gain.value == 0:
        return ""
    return term if gain.value == 1 else f"{gain(1)} {grouped(term)}"


def total(*terms: str) -> str:
    """Write the sum of the terms that are not empty; 0 if there are none.

    >>> total("x", "", "-0.5 f(x)"), total("")
    ('x - 0.5 f(x)', '0')
    """
    there = [term for term in terms if term]
    signed = (f" - {term[1:]}" if term.startswith("-") else f" + {term}" for term in there[1:])
    return (there[0] + "".join(signed)) if there else "0"


def grouped(text: str) -> str:
    """Put a text in brackets if it is a sum, so that a factor can be written before it.

    >>> grouped("x + f(x)"), grouped("f(x + y)"), grouped("(x) + (y)")
    ('(x + f(x))', 'f(x + y)', '((x) + (y))')
    """
    depth, outside = 0, []
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        outside.append(letter if depth == 0 else "·")
    return f"({text})" if re.search(r" [+-] | in layer ", "".join(outside)) else text


def _written(node: ast.expr, outer: int = 0) -> str:
    match node:
        case ast.Constant(value=int() | float() as value):
            return number(value)
        case ast.Name(id=name):
            return LETTERS[name]
        case ast.Call(func=ast.Name(id="sqrt"), args=[inside]):
            text = _written(inside)
            return f"√{text}" if re.fullmatch(r"[\w.]+", text) and not _is_product(inside) else f"√({text})"
        case ast.Call(func=ast.Name(id=name), args=args):
            return f"{name}({', '.join(_written(argument) for argument in args)})"
        case ast.UnaryOp(op=op, operand=operand):
            own = PRECEDENCE[type(op)]
            text = ("-" if isinstance(op, ast.USub) else "") + _written(operand, own)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            own = PRECEDENCE[ast.Pow]
            power = _written(right, own)
            raised = power.translate(RAISED) if re.fullmatch(r"\d+|-\d+", power) else f"^{power}"
            text = f"{_written(left, own + 1)}{raised}"
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            own = PRECEDENCE[ast.Mult]
            first, second = _written(left, own), _written(right, own + 1)
            beside = isinstance(left, ast.Constant) and not second[0].isdigit()
            text = f"{first}{second}" if beside else f"{first}·{second}"
        case ast.BinOp(left=left, op=op, right=right):
            own = PRECEDENCE[type(op)]
            text = f"{_written(left, own)}{SIGNS[type(op)]}{_written(right, own + 1)}"
        case _:
            raise TypeError(f"{ast.unparse(node)} is no arithmetic")
    return f"({text})" if own < outer else text


def _is_product(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp)
