"""The comparisons that a claim is about, and the verdict that it foresees of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ablate.plan.plan import Comparison
from ablate.space.documents import Expected
from ablate.space.metrics import Better, direction

BY_NAME = ("baseline", "edit", "main", "interaction", "trend")
"""The kinds of comparison that a claim can be about, by the name of a variant or of an edit."""
OF_TWO = ("baseline", "edit")
"""The kinds of comparison that are a difference of two variants."""
FEWEST_ROWS = 3
"""Fewer variants have no correlation that says anything."""


@dataclass(frozen=True, slots=True)
class ClaimStep:
    """A comparison of which a claim foresees one of these verdicts. `turned`: the claim has its sides the other way."""

    comparison: Comparison
    verdicts: tuple[str, ...]
    turned: bool = False


def steps_of(
    claim: Expected, names: Mapping[str, str], comparisons: Sequence[Comparison], better: Better
) -> tuple[ClaimStep, ...]:
    """Return the steps of a claim, all of which must be as it foresees; none where the design does not compare them.

    `names` has the id of the variant of each name, and `better` is the better side of its metric. Of equivalents
    the steps are all comparisons between two of them. A correlation has no steps. Where a variant is compared under
    several terms of fairness, the claim is about the first.
    """
    if claim.of is not None:
        about = _named(claim.of, names.get(claim.of), comparisons)
        return () if about is None else (ClaimStep(about, claim.verdicts),)
    ids = [names.get(name, "") for name in claim.variants]
    if claim.order is not None:
        steps = [_step(low, high, comparisons, better) for low, high in pairwise(ids)]
        return tuple(step for step in steps if step is not None) if None not in steps else ()
    between = {frozenset((each.before, each.after)): each for each in reversed(comparisons) if each.kind in OF_TWO}
    among = [each for sides, each in reversed(between.items()) if sides <= set(ids)]
    return tuple(ClaimStep(each, ("equivalent",)) for each in among) if not apart(claim, names, comparisons) else ()


def apart(claim: Expected, names: Mapping[str, str], comparisons: Sequence[Comparison]) -> list[tuple[str, str]]:
    """Return the pairs of variants, by name, that an order or equivalents need compared and that are not.

    Of an order that is each step; equivalents must be connected by comparisons between them, or be one variant.
    """
    compared = {frozenset((each.before, each.after)) for each in comparisons if each.kind in OF_TWO}
    named = claim.variants
    if claim.order is not None:
        return [(x, y) for x, y in pairwise(named) if frozenset((names.get(x, ""), names.get(y, ""))) not in compared]
    reached, left = named[:1], list(named[1:])
    compared |= {frozenset((id,)) for id in names.values()}
    while near := [
        y for y in left if any(frozenset((names.get(x, ""), names.get(y, ""))) in compared for x in reached)
    ]:
        reached = (*reached, *near)
        left = [name for name in left if name not in near]
    return [(named[0], name) for name in left]


def _step(low: str, high: str, comparisons: Sequence[Comparison], better: Better) -> ClaimStep | None:
    """Return the comparison of two variants with the verdict by which the second has the higher value."""
    for each in comparisons:
        if each.kind in OF_TWO and {each.before, each.after} == {low, high}:
            turned = each.before == high
            return ClaimStep(each, (direction(not turned, better),), turned)
    return None


def _named(of: str, variant: str | None, comparisons: Sequence[Comparison]) -> Comparison | None:
    for comparison in comparisons:
        if comparison.kind not in BY_NAME:
            continue
        if comparison.after == variant if comparison.kind == "baseline" else comparison.change == of:
            return comparison
    return None
