"""Checks of `fair` across sections of a space: whether it fits the design, the recipe and the seeds."""

from __future__ import annotations

from ablate.plan.fair.tuning import tuning_seeds
from ablate.source.problems import Problems
from ablate.space.fair import Tune
from ablate.space.space import Space


def check_fair(space: Space, problems: Problems) -> None:
    """Report terms that a search does not support, and tuning seeds that overlap with those of the verdict."""
    fair = space.fair
    declared = not all(terms.plain for terms in fair.terms.values()) or fair.under or fair.tune != "none"
    if space.design.search is not None and declared:
        message = "a search trains each block at the sizes and for the steps of the space: fair has no effect on it"
        notes = ("remove fair, and compare the blocks found in a separate space: design: {compare: [...]}",)
        problems.add(message, space.origins.section("fair"), notes=notes)
    if isinstance(fair.tune, Tune):
        _check_seeds(fair.tune, space, problems)


def _check_seeds(tune: Tune, space: Space, problems: Problems) -> None:
    both = sorted(set(space.seeds) & set(tuning_seeds(tune)))
    if both:
        message = f"seed {both[0]:,} is a tuning seed: the verdict would reuse the runs that settings were chosen by"
        notes = (f"seeds from {tuning_seeds(tune)[0]:,} on are reserved for tuning: use lower ones for the verdict",)
        problems.add(message, space.origins.section("seeds"), notes=notes)
