"""The contrasts that a plan's comparisons test, so that a contrast tested twice is counted once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol, TypeAlias

from ablate.plan.plan import Comparison, Factors, PlannedLadder
from ablate.space.ladder import LawKind
from ablate.space.metrics import LOSSES, NATS

NONE: Mapping[str, PlannedLadder] = MappingProxyType({})
"""The ladders of a plan that has none."""
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


@dataclass(frozen=True, slots=True)
class SpeedUpTrend:
    """The trend over sizes of a treatment's speed-up, under a law of the baseline's loss.

    `pairs` are the variants (ids) at each size, the baseline and the treatment.
    """

    pairs: tuple[tuple[str, str], ...]
    law: LawKind
    paired: bool = True


Contrast: TypeAlias = Difference | WeightedSum | Term | SpeedUpTrend


def contrast(
    comparison: Comparison, factors: Mapping[str, Factors], ladders: Mapping[str, PlannedLadder] = NONE
) -> Contrast:
    """Return the contrast of a comparison. ValueError for an effect that its factorial does not estimate."""
    if comparison.kind == "trend":
        ladder = ladders[comparison.terms]
        return trend_of(ladder, ladder.treatment_of(comparison.change), paired=not comparison.unpaired)
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


def trend_of(ladder: PlannedLadder, treatment: str, *, paired: bool) -> SpeedUpTrend:
    """Return the trend of a treatment of a ladder."""
    steps = [dict(step.variants) for step in ladder.steps]
    pairs = tuple((variants[ladder.baseline], variants[treatment]) for variants in steps)
    return SpeedUpTrend(pairs, ladder.law, paired=paired)


def is_tested_on(question: Contrast, metric: str) -> bool:
    """Return whether a contrast is tested on a metric: a speed-up is one of a loss."""
    return not isinstance(question, SpeedUpTrend) or metric in LOSSES


class ContrastSource(Protocol):
    """A source of comparisons: a plan, or an experiment."""

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The comparisons to be tested."""

    @property
    def factors(self) -> tuple[tuple[str, Factors], ...]:
        """The runs of its factorials, by the name of their terms."""

    @property
    def ladders(self) -> tuple[tuple[str, PlannedLadder], ...]:
        """The sizes of its ladders, by the name of their terms."""


def contrasts(design: ContrastSource) -> tuple[Contrast | None, ...]:
    """Return the contrast of each comparison, in order; None for noise, which is not judged."""
    factors, ladders = dict(design.factors), dict(design.ladders)
    return tuple(
        None if comparison.kind == "noise" else contrast(comparison, factors, ladders)
        for comparison in design.comparisons
    )


def family_size(design: ContrastSource, metrics: Iterable[str] = (NATS,), *, page: bool = False) -> int:
    """Return the number of distinct contrasts tested on these metrics, which are one family if it is the whole `page`;
    else on the one that has the most.
    """
    questions = [question for question in dict.fromkeys(contrasts(design)) if question is not None]
    each = [sum(is_tested_on(question, metric) for question in questions) for metric in metrics]
    return sum(each) if page else max(each, default=0)
