"""Claims that a space makes before it is run, beside the verdicts that were seen."""

from __future__ import annotations

from collections.abc import Sequence

from ablate.space.documents import Judge
from ablate.verdict.experiment import Experiment
from ablate.verdict.summary import Effect, Expectation

BY_NAME = ("baseline", "edit", "main", "interaction", "trend")
"""The kinds of comparison that a claim can be about, by the name of a variant or of an edit."""


def expectations(rules: Judge, experiment: Experiment, effects: Sequence[Effect]) -> tuple[Expectation, ...]:
    """Return each claim with the effect that it is about; None where nothing of that name was compared.

    Where a variant is compared under several terms of fairness, the claim is about the first.
    """
    names = {name: variant.id for variant in experiment.variants for name in (variant.name, *variant.aliases)}
    return tuple(
        Expectation(
            claim=claim.claim,
            of=claim.of,
            metric=claim.metric,
            verdicts=claim.verdicts,
            effect=_about(claim.of, claim.metric, names.get(claim.of), effects),
        )
        for claim in rules.expect
    )


def _about(of: str, metric: str, variant: str | None, effects: Sequence[Effect]) -> Effect | None:
    for effect in effects:
        if effect.metric != metric or effect.kind not in BY_NAME:
            continue
        if effect.after == variant if effect.kind == "baseline" else effect.change == of:
            return effect
    return None
