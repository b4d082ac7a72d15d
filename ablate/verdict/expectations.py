"""Claims that a space makes before it is run, beside the verdicts that were seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ablate.plan.claims import BY_NAME
from ablate.space.documents import Expected
from ablate.verdict.summary import Effect, Expectation


def expectations(
    claims: Sequence[Expected], names: Mapping[str, str], effects: Sequence[Effect]
) -> tuple[Expectation, ...]:
    """Return each claim with the effect that it is about; None where nothing of that name was compared.

    `names` has the id of the variant of each name. Where a variant is compared under several terms of fairness, the
    claim is about the first.
    """
    return tuple(
        Expectation(
            claim=claim.claim,
            of=claim.of,
            metric=claim.metric,
            verdicts=claim.verdicts,
            effect=_about(claim.of, claim.metric, names.get(claim.of), effects),
        )
        for claim in claims
    )


def _about(of: str, metric: str, variant: str | None, effects: Sequence[Effect]) -> Effect | None:
    for effect in effects:
        if effect.metric != metric or effect.kind not in BY_NAME:
            continue
        if effect.after == variant if effect.kind == "baseline" else effect.change == of:
            return effect
    return None
