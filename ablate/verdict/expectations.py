"""Claims that a space makes before it is run, beside the verdicts that were seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ablate.plan.claims import ClaimStep, steps_of
from ablate.plan.plan import Comparison
from ablate.space.documents import Expected
from ablate.space.metrics import Better
from ablate.verdict.summary import Correlation, Effect, Expectation, ExpectedStep


def expectations(
    claims: Sequence[Expected],
    better: Mapping[str, Better],
    names: Mapping[str, str],
    comparisons: Sequence[Comparison],
    effects: Sequence[Effect],
    correlations: Sequence[Correlation] = (),
) -> tuple[Expectation, ...]:
    """Return each claim with what was seen of it.

    `better` is the better side of each metric. `names` has the id of the variant of each name, `correlations` those
    that are claimed, in order.
    """
    left = iter(correlations)
    seen = {(effect.metric, _key(effect)): effect for effect in reversed(effects)}
    return tuple(
        Expectation(
            claim=claim.claim,
            of=claim.about,
            metric=claim.metric,
            verdicts=claim.verdicts,
            steps=_seen(steps_of(claim, names, comparisons, better[claim.metric]), claim.metric, seen),
            correlation=None if claim.correlation is None else next(left, None),
        )
        for claim in claims
    )


Key = tuple[str, str, str, str, str]


def _seen(steps: Sequence[ClaimStep], metric: str, seen: Mapping[tuple[str, Key], Effect]) -> tuple[ExpectedStep, ...]:
    pairs = [(step, seen.get((metric, _key(step.comparison)))) for step in steps]
    whole = [ExpectedStep(verdicts=step.verdicts, effect=effect) for step, effect in pairs if effect is not None]
    return tuple(whole) if len(whole) == len(steps) else ()


def _key(of: Comparison | Effect) -> Key:
    return of.kind, of.change, of.before, of.after, of.terms
