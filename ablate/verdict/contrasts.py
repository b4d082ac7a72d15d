"""The contrasts that a plan's comparisons test, so that a contrast tested twice is counted once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from ablate.plan.plan import Comparison, Factors

CROSS = " × "
"""Separates the edits in the name of an interaction."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of two variants (ids in alphabetical order: swapping before and after changes only the sign).

    `paired`: at one seed both see the same batches, so that runs are compared seed by seed.
    """

    first: str
    second: str
    paired: bool = True


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
    """Return the contrast of a comparison. ValueError for an effect that its factorial does not estimate."""
    if comparison.weights:
        return WeightedSum(comparison.weights)
    if comparison.before and comparison.after:
        first, second = sorted((comparison.before, comparison.after))
        return Difference(first, second, paired=not comparison.unpaired)
    design = factors.get(comparison.terms)
    for edits in design.effects if design else ():
        if design and CROSS.join(edits) == comparison.change:
            return Term(edits, design.runs)
    raise ValueError(f"{comparison.change!r} is not an effect of this plan's factorial under {comparison.terms!r}")


class ContrastSource(Protocol):
    """A source of comparisons: a plan, or an experiment."""

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The comparisons to be tested."""

    @property
    def factors(self) -> tuple[tuple[str, Factors], ...]:
        """The runs of its factorials, by the name of their terms."""


def contrasts(design: ContrastSource) -> tuple[Contrast | None, ...]:
    """Return the contrast of each comparison, in order; None for noise, which is not judged."""
    factors = dict(design.factors)
    return tuple(
        None if comparison.kind == "noise" else contrast(comparison, factors) for comparison in design.comparisons
    )


def family_size(design: ContrastSource, *, metrics: int = 1) -> int:
    """Return the number of distinct contrasts over that many metrics."""
    return len(set(contrasts(design)) - {None}) * metrics
