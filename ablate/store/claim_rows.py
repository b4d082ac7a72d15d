"""The claims of a kept plan as rows: what each foresees, what was seen, and when it was made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict

from ablate.space.documents import Expected
from ablate.store.documents import PlanDocument, Verdicts
from ablate.store.stamps import Stamps, claims_of
from ablate.verdict.expectations import expectations
from ablate.verdict.judgement import effect_of


def claim_rows(plan: PlanDocument, verdicts: Verdicts | None, stamps: Stamps) -> Iterator[Mapping[str, object]]:
    """Yield a row for each claim of a plan; without `verdicts` what was seen is NULL."""
    claims = [Expected.model_validate(claim) for claim in claims_of(plan)]
    if not claims:
        return
    names = {name: variant["id"] for variant in plan["variants"] for name in variant.get("names", ())}
    effects = [] if verdicts is None else [effect_of(effect) for effect in verdicts["effects"]]
    made = zip(expectations(claims, names, effects), stamps.of(plan), strict=True)
    for position, (claim, stamp) in enumerate(made, start=1):
        yield {
            "position": position,
            "claim": claim.claim,
            "about": claim.of,
            "metric": claim.metric,
            "expected": claim.verdicts,
            "verdict": None if claim.effect is None else claim.effect.verdict,
            "outcome": None if verdicts is None else claim.outcome,
            **{_COLUMNS.get(name, name): value for name, value in asdict(stamp).items()},
        }


_COLUMNS = {"at": "stated_at", "plan": "stated_plan", "space": "stated_space"}
"""The column of what a stamp calls otherwise."""
