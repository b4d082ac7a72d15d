"""The key of a comparison: its contrast, and how its variants are trained.

Seeds, space, names, order, scale and direction are no part of it, so that what was asked once is known again however it
is asked. Metrics that are functions of one another, such as loss and perplexity, are one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ablate.block.fingerprint import digest
from ablate.plan.designs.coding import coded, columns_of
from ablate.plan.plan import Factors
from ablate.space.metrics import BITS, NATS, of_averaged_weights
from ablate.verdict.contrasts import Contrast, Difference, SpeedUpTrend, Term, WeightedSum

DIGITS = 16

FUNCTIONS: Mapping[str, str] = {
    BITS: NATS,
    "perplexity": NATS,
    of_averaged_weights(BITS): of_averaged_weights(NATS),
}
"""Metrics that rise with another one, by name, under one tokenizer."""


@dataclass(frozen=True, slots=True)
class Unit:
    """What has an account of its own: a comparison, by its key, on a metric and all that are functions of it."""

    comparison: str
    measured: str


def unit_of(key: str, metric: str, corpora: frozenset[str]) -> Unit:
    """Return the unit of a comparison on a metric, whose variants are trained on these token streams."""
    return Unit(key, FUNCTIONS.get(metric, metric) if len(corpora) < 2 else metric)


def key_of(question: Contrast, trained: Mapping[str, str], factors: Mapping[object, Factors]) -> str:
    """Return the key of a contrast whose variants are `trained` as these hashes say; `factors` are by their runs."""
    return digest([_compared(question, factors), sorted(trained.items())], DIGITS)


def comparison_id(question: Contrast) -> str:
    """Return the id of a comparison within a plan, from the ids of its variants: the same if before and after are
    swapped.
    """
    if isinstance(question, Term):
        return digest(["effect", question.edits, sorted(question.runs)], DIGITS)
    return digest(_of_variants(question), DIGITS)


def _compared(question: Contrast, factors: Mapping[object, Factors]) -> list[object]:
    if not isinstance(question, Term):
        return _of_variants(question)
    return ["effect", sorted(weights_of(question, factors[question.runs]))]


def _of_variants(question: Difference | WeightedSum | SpeedUpTrend) -> list[object]:
    if isinstance(question, Difference):
        return ["difference", question.first, question.second]
    if isinstance(question, WeightedSum):
        return ["sum", sorted(question.weights)]
    return ["trend", question.pairs, question.law]


def weights_of(question: Term, factors: Factors) -> list[tuple[str, float]]:
    """Return the value of an effect's column of the design at each run, by the run's variant."""
    names = [column.name for column in columns_of(factors)]
    places = [names.index(name) for name in question.edits]
    column = coded(factors, [levels for _, levels in question.runs])[:, places].prod(axis=1)
    return [(variant, weight) for (variant, _), weight in zip(question.runs, column.round(9).tolist(), strict=True)]
