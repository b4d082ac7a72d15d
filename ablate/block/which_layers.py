"""Which layers of a model: `first`, `last`, `{every: 4}`, or a comparison such as `layer <= depth/2`.

A comparison joins arithmetic in `layer` (from 1) and `depth` by <, <=, >, >= or ==. It may be a chain, as in
`2 < layer <= depth/2`, and several may be joined by `and`. There is no `or`: a pattern may hold another pattern.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from ablate.block import arithmetic
from ablate.block.arithmetic import ArithmeticProblem, Expression

FIRST, LAST, EVERY = "first", "last", "every"
KNOWN = frozenset({"layer", "depth"})
"""The sizes that a comparison may name."""
OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}
_OPERATOR = re.compile("<=|>=|==|<|>")
_AND = re.compile(r"\band\b")


@dataclass(frozen=True, slots=True)
class WhichLayers:
    """`first`, `last` or a comparison as its canonical `text`; or every n-th layer, if `every` is n.

    >>> which = parse("2 < layer <= depth / 2")
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


def parse(text: str) -> WhichLayers:
    """Read `first`, `last` or a comparison; raises ArithmeticProblem that says which characters are wrong."""
    if text.strip() in (FIRST, LAST):
        return WhichLayers(text.strip())
    ends = [0, *(end for match in _AND.finditer(text) for end in match.span()), len(text)]
    parts = [_read(text, start, end) for start, end in zip(ends[::2], ends[1::2], strict=True)]
    return WhichLayers(" and ".join(parts))


def _read(text: str, start: int, end: int) -> str:
    """Return the canonical text of one comparison, which stands from `start` to `end` of a text."""
    signs = list(_OPERATOR.finditer(text, start, end))
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
        expression = arithmetic.parse(text[start:end])
    except ArithmeticProblem as problem:
        stop = end if problem.end is None else start + problem.end
        raise ArithmeticProblem(str(problem), start + problem.start, stop) from None
    if unknown := sorted(expression.names() - KNOWN):
        raise ArithmeticProblem(f"which layers cannot depend on {', '.join(unknown)}", start, end)
    return expression


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a place in a text without the spaces around it."""
    inside = text[start:end]
    if not inside.strip():
        return start, start
    return start + len(inside) - len(inside.lstrip()), end - len(inside) + len(inside.rstrip())


def _compared(text: str, scope: Mapping[str, float]) -> bool:
    sides = [Expression(side.strip()).at(scope) for side in _OPERATOR.split(text)]
    signs = _OPERATOR.findall(text)
    return all(OPERATORS[sign](left, right) for sign, (left, right) in zip(signs, pairwise(sides), strict=True))
