"""The claims of a kept plan as rows: what each foresees, what was seen, and when it was made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from ablate.space.documents import Expected
from ablate.store.documents import PlanDocument, Verdicts
from ablate.store.stamps import Stamps, claims_of, comparisons_in, names_in
from ablate.verdict.expectations import expectations
from ablate.verdict.judgement import effect_of
from ablate.verdict.summary import Correlation, Expectation


def claim_rows(plan: PlanDocument, verdicts: Verdicts | None, stamps: Stamps) -> Iterator[Mapping[str, object]]:
    """Yield a row for each claim of a plan; without `verdicts` what was seen is NULL."""
    claims = [Expected.model_validate(claim) for claim in claims_of(plan)]
    if not claims:
        return
    effects = [] if verdicts is None else [effect_of(effect) for effect in verdicts["effects"]]
    kept = [] if verdicts is None else [_correlation(each) for each in verdicts.get("correlations", ())]
    judge: Mapping[str, Any] = plan["resolved"]["judge"]  # type: ignore[assignment]
    ways = {name: of.get("better", "lower") for name, of in judge["metrics"].items()}
    told = expectations(claims, ways, names_in(plan), comparisons_in(plan), effects, kept)
    made = zip(told, stamps.of(plan), strict=True)
    for position, (claim, stamp) in enumerate(made, start=1):
        yield {
            "position": position,
            "claim": claim.claim,
            "about": claim.of,
            "metric": claim.metric,
            "expected": claim.verdicts or sorted({verdict for step in claim.steps for verdict in step.verdicts}),
            "verdict": _verdict(claim),
            "correlation": None if claim.correlation is None else claim.correlation.mean,
            "outcome": None if verdicts is None else claim.outcome,
            **{_COLUMNS.get(name, name): value for name, value in asdict(stamp).items()},
        }


def _verdict(claim: Expectation) -> str | None:
    if claim.correlation is not None:
        return claim.correlation.sign or "undecided"
    return ", ".join(step.effect.verdict for step in claim.steps) or None


def _correlation(kept: Mapping[str, Any]) -> Correlation:
    given: dict[str, Any] = {**kept, "over_seeds": tuple(kept["over_seeds"])}
    return Correlation(**given)


_COLUMNS = {"at": "stated_at", "plan": "stated_plan", "space": "stated_space"}
"""The column of what a stamp calls otherwise."""
