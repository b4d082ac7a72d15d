"""What a plan's comparisons ask of the data, so that what is asked twice is counted once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from ablate.plan.plan import Comparison, Factors

CROSS = " × "
"""Between the edits of an interaction, in its name."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Of two variants (ids, in the order of the alphabet: which is before and which after changes only the sign)."""

    one: str
    other: str


@dataclass(frozen=True, slots=True)
class WeightedSum:
    """A weighted sum over variants."""

    weights: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Term:
    """An effect of a factorial's edits, over its runs."""

    edits: tuple[str, ...]
    runs: tuple[tuple[str, tuple[int, ...]], ...]


Contrast: TypeAlias = Difference | WeightedSum | Term


def contrast(comparison: Comparison, factors: Mapping[str, Factors]) -> Contrast:
    """What a comparison asks. ValueError for an effect that its factorial does not estimate."""
    if comparison.weights:
        return WeightedSum(comparison.weights)
    if comparison.before and comparison.after:
        one, other = sorted((comparison.before, comparison.after))
        return Difference(one, other)
    design = factors.get(comparison.terms)
    for edits in design.effects if design else ():
        if design and CROSS.join(edits) == comparison.change:
            return Term(edits, design.runs)
    raise ValueError(f"{comparison.change!r} is no effect of this plan's factorial under {comparison.terms!r}")


class ContrastSource(Protocol):
    """What asks: a plan, or an experiment."""

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """What it asks of the data."""

    @property
    def factors(self) -> tuple[tuple[str, Factors], ...]:
        """The runs of its factorials, by terms."""


def contrasts(design: ContrastSource) -> tuple[Contrast | None, ...]:
    """What each comparison asks, in its order; None for noise, which is not judged."""
    factors = dict(design.factors)
    return tuple(None if one.kind == "noise" else contrast(one, factors) for one in design.comparisons)


def family_size(design: ContrastSource, *, metrics: int = 1) -> int:
    """How many distinct questions are asked of so many metrics together."""
    return len(set(contrasts(design)) - {None}) * metrics
