"""Affine: the maps around an activation, x -> output_scale · (φ(input_scale · x + input_shift) + output_shift)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Affine:
    """Four numbers; the defaults change nothing."""

    input_scale: float = 1.0
    input_shift: float = 0.0
    output_shift: float = 0.0
    output_scale: float = 1.0

    def before(self, x: str) -> str:
        """Write the input map as text, applied to the text x.

        >>> Affine(0.5, -1).before("x"), Affine(0.5).before("x W")
        ('0.5 x - 1', '0.5 (x W)')
        """
        return f"{self.input_scale:.4g} {_one_term(x)}{_added(self.input_shift)}"

    def shifted(self, x: str) -> str:
        """Write the input map without its scale as text, applied to the text x.

        >>> Affine(input_shift=-0.5).shifted("x"), Affine().shifted("x W")
        ('x - 0.5', 'x W')
        """
        return f"{x}{_added(self.input_shift)}"

    def after(self, y: str) -> str:
        """Write the output map as text.

        >>> Affine(output_shift=0.25, output_scale=2).after("f(x)"), Affine(output_scale=2).after("f(x; 0.1)")
        ('2 (f(x) + 0.25)', '2 f(x; 0.1)')
        """
        return f"{self.output_scale:.4g} {_one_term(y + _added(self.output_shift))}"


UNCHANGED = Affine()


def _one_term(text: str) -> str:
    depths = itertools.accumulate((sign == "(") - (sign == ")") for sign in text)
    several = any(sign == " " and depth == 0 for sign, depth in zip(text, depths, strict=True))
    return f"({text})" if several else text


def _added(number: float) -> str:
    return f" {'-' if number < 0 else '+'} {abs(number):.4g}" if number else ""
