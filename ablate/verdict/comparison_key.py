"""The key of a comparison: its contrast, and how its variants are trained.

Seeds, space, names, order, scale and direction are no part of it, so that a comparison is known again however it is
asked. Metrics that are functions of one another, such as loss and perplexity, are one.
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

FUNCTIONS: Mapping[str, str] = {"perplexity": NATS}
"""Metrics that rise with another one, by name."""
UNDER_ONE_TOKENIZER: Mapping[str, str] = {BITS: NATS, of_averaged_weights(BITS): of_averaged_weights(NATS)}
"""Those that do where all texts are in the same tokens."""


@dataclass(frozen=True, slots=True)
class Unit:
    """The holder of an account: a comparison, by its key, on a metric and all that are functions of it."""

    comparison: str
    measured: str


def unit_of(key: str, metric: str, corpora: frozenset[str]) -> Unit:
    """Return the unit of a comparison on a metric, whose variants are trained on these token streams."""
    functions = FUNCTIONS if len(corpora) > 1 else {**FUNCTIONS, **UNDER_ONE_TOKENIZER}
    return Unit(key, functions.get(metric, metric))


def key_of(question: Contrast, trained: Mapping[str, str], factors: Mapping[object, Factors]) -> tuple[str, int]:
    """Return the key of a contrast whose variants are `trained` as these hashes say, and the sign with which the
    contrast stands in it: the same key has either direction. `factors` are by their runs.
    """
    if isinstance(question, Difference | SpeedUpTrend):
        return digest([_of_variants(question), sorted(trained.items())], DIGITS), 1
    kind = "sum" if isinstance(question, WeightedSum) else "effect"
    weights = question.weights if isinstance(question, WeightedSum) else weights_of(question, factors[question.runs])
    ordered = sorted(weights)
    largest = max((abs(weight) for _, weight in ordered), default=1.0) or 1.0
    sign = next((1 if weight > 0 else -1 for _, weight in ordered if weight), 1)
    unsigned = [(variant, round(sign * weight / largest, 9)) for variant, weight in ordered]
    return digest([[kind, unsigned], sorted(trained.items())], DIGITS), sign


def comparison_id(question: Contrast) -> str:
    """Return the id of a comparison within a plan, from the ids of its variants: the same if before and after are
    swapped.
    """
    if isinstance(question, Term):
        return digest(["effect", question.edits, sorted(question.runs)], DIGITS)
    return digest(_of_variants(question), DIGITS)


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
