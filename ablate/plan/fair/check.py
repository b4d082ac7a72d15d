"""What of `fair` no single section of a space can tell: whether it fits the design, the recipe and the seeds."""

from __future__ import annotations

from ablate.plan.fair.tuning import tuning_seeds
from ablate.source.problems import Problems
from ablate.space.fair import Tune
from ablate.space.space import Space


def check_fair(space: Space, problems: Problems) -> None:
    """Note terms that a search does not have, and tuning that the seeds do not bear."""
    fair = space.fair
    asked = not all(terms.plain for terms in fair.terms.values()) or fair.under or fair.tune != "none"
    if space.design.search is not None and asked:
        message = "a search trains each block at the sizes and for the steps of the space: fair has no effect on it"
        notes = ("leave fair out, and compare what is found in a space of its own: design: {compare: [...]}",)
        problems.add(message, space.origins.section("fair"), notes=notes)
    if isinstance(fair.tune, Tune):
        _check_seeds(fair.tune, space, problems)


def _check_seeds(tune: Tune, space: Space, problems: Problems) -> None:
    both = sorted(set(space.seeds) & set(tuning_seeds(tune)))
    if both:
        message = f"seed {both[0]:,} is one of tuning: the verdict would rest on what the choice was made by"
        notes = (f"seeds from {tuning_seeds(tune)[0]:,} on are those of tuning: use lower ones for the verdict",)
        problems.add(message, space.origins.section("seeds"), notes=notes)
