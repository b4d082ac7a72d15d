"""Mistakes of claims that can be seen without a plan: those that any verdict confirms, and those that none can."""

from __future__ import annotations

from ablate.source.problems import Problems, quote
from ablate.space.documents import Judge
from ablate.space.origin import Origins

EQUIVALENT = "equivalent"


def check_claims(judge: Judge, origins: Origins, problems: Problems) -> None:
    """Report claims that every verdict confirms, and claims of equivalence on a metric without a margin.

    Undecided confirms nothing, so a claim says something if one verdict that can be given speaks against it. Without a
    margin nothing is ever equivalent.
    """
    for position, claim in enumerate(judge.expect):
        metric = judge.metrics.get(claim.metric)
        if metric is None:  # reported where the claim is read
            continue
        unmargined = metric.margin == "none"
        possible = {"better", "worse"} if unmargined else {"better", "worse", EQUIVALENT}
        place = origins.value("judge", "expect", position, "verdict")
        why = f", since {claim.metric} has no margin" if unmargined else ""
        if possible <= set(claim.verdicts):
            message = f"the claim {quote(claim.claim)} allows every verdict{why}: whatever is seen, it comes true"
            problems.add(message, place, notes=("leave out the verdict that would speak against it",))
        elif set(claim.verdicts).isdisjoint(possible):
            message = f"the claim {quote(claim.claim)} cannot come true: nothing is equivalent{why}"
            way = f"give {claim.metric} a margin: judge: {{metrics: {{{claim.metric}: {{margin: 1%}}}}}}"
            problems.add(message, place, notes=(way,))
