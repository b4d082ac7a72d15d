"""The comparisons that a claim is about, and the verdict that it foresees of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ablate.plan.plan import Comparison
from ablate.space.documents import Expected

BY_NAME = ("baseline", "edit", "main", "interaction", "trend")
"""The kinds of comparison that a claim can be about, by the name of a variant or of an edit."""


@dataclass(frozen=True, slots=True)
class ClaimStep:
    """A comparison of which a claim foresees one of these verdicts. `turned`: the claim has its sides the other way."""

    comparison: Comparison
    verdicts: tuple[str, ...]
    turned: bool = False


def steps_of(
    claim: Expected, names: Mapping[str, str], comparisons: Sequence[Comparison], better: Literal["lower", "higher"]
) -> tuple[ClaimStep, ...]:
    """Return the steps of a claim, all of which must be as it foresees; none where the design does not compare them.

    `names` has the id of the variant of each name, and `better` is which way is better of its metric. Where a variant
    is compared under several terms of fairness, the claim is about the first.
    """
    about = _named(claim.of, names.get(claim.of), comparisons)
    return () if about is None else (ClaimStep(about, claim.verdicts),)


def _named(of: str, variant: str | None, comparisons: Sequence[Comparison]) -> Comparison | None:
    for comparison in comparisons:
        if comparison.kind not in BY_NAME:
            continue
        if comparison.after == variant if comparison.kind == "baseline" else comparison.change == of:
            return comparison
    return None
