"""What a plan's comparisons ask of the data, so that what is asked twice is counted once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ablate.plan.plan import Comparison, Factors, Plan

CROSS = " × "
"""Between the edits of an interaction, in its name."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Of two variants (ids, in the order of the alphabet: which is before and which after changes only the sign)."""

    one: str
    other: str


@dataclass(frozen=True, slots=True)
class Sum:
    """A weighted sum over variants."""

    weights: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Term:
    """An effect of a factorial's edits, over its runs."""

    edits: tuple[str, ...]
    runs: tuple[tuple[str, tuple[int, ...]], ...]


Contrast: TypeAlias = Difference | Sum | Term


def contrast(comparison: Comparison, factors: Mapping[str, Factors]) -> Contrast:
    """What a comparison asks. ValueError for an effect that its factorial does not estimate."""
    if comparison.weights:
        return Sum(comparison.weights)
    if comparison.before and comparison.after:
        one, other = sorted((comparison.before, comparison.after))
        return Difference(one, other)
    design = factors.get(comparison.terms)
    for edits in design.effects if design else ():
        if design and CROSS.join(edits) == comparison.change:
            return Term(edits, design.runs)
    raise ValueError(f"{comparison.change!r} is no effect of this plan's factorial under {comparison.terms!r}")


def contrasts(plan: Plan) -> tuple[Contrast | None, ...]:
    """What each comparison of a plan asks, in its order; None for noise, which is not judged."""
    factors = dict(plan.factors)
    return tuple(None if one.kind == "noise" else contrast(one, factors) for one in plan.comparisons)


def family_size(plan: Plan, *, metrics: int = 1) -> int:
    """How many distinct questions a plan asks of so many metrics together."""
    return len(set(contrasts(plan)) - {None}) * metrics
