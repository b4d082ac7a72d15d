"""What the keys of a search must be together, which no key shows alone: each mistake at its place."""

from __future__ import annotations

import math

from pydantic import BaseModel

from ablate.source.located import Mapping
from ablate.source.problems import Problems
from ablate.space.design import Pruner, Rungs, Search
from ablate.space.documents import Auto, Measure, Noise, Recipe
from ablate.space.origin import Origins
from ablate.space.samplers import SamplerSpec

SEARCH = ("design", "search")
EVALUATED = ("measure", "evaluation", "every")
ROUNDING = 1e-9
"""A share of the steps that is short of a whole number of evaluations by so little is meant to be one."""


def check_search(
    search: Search,
    origins: Origins,
    problems: Problems,
    *,
    sampler: SamplerSpec,
    recipe: Recipe | None,
    measure: Measure | None,
    seeds: tuple[int, ...] | None,
) -> None:
    """Note what does not fit together in the search of a space, and in the sections around it.

    A section that is None has mistakes of its own, and what depends on it is not looked at.
    """
    if _is_one(search.budget, "budget", "a budget", origins, problems) and seeds is not None:
        _check_trials(search, len(seeds), origins, problems)
    pruner = search.pruner
    if isinstance(pruner, Pruner):
        extra = "or pruner: none"
        one = _is_one(pruner, "pruner", "a pruner", origins, problems, extra)
        if one and recipe is not None and measure is not None:
            wrong = misplaced(pruner.rungs, recipe.steps, measure.evaluation.every)
            if wrong is not None:
                paths = ((*SEARCH, "pruner", pruner.kind, "first"), ("recipe", "steps"), EVALUATED)
                origins.add(problems, wrong[0], *paths, notes=(wrong[1],))
    if sampler.objectives == "one" and len(search.objective) > 1:
        these = f"{len(search.objective)}: {', '.join(search.objective)}"
        message = f"{sampler.name} has one objective, and this search has {these}"
        notes = ("leave one of them, or take a sampler for several, such as nsga2",)
        origins.add(problems, message, (*SEARCH, "sampler"), (*SEARCH, "objective"), notes=notes)


def _is_one(document: BaseModel, key: str, what: str, origins: Origins, problems: Problems, *or_else: str) -> bool:
    """Whether exactly one of the kinds of a document is said; noted where not."""
    found = origins.written(*SEARCH, key)
    said = [value for name in type(document).model_fields if (value := getattr(document, name)) is not None]
    if len(said) == 1 and isinstance(found, Mapping) and len(found.entries) == 1:
        return True
    notes = (f"one of: {', '.join(type(document).model_fields)}", *or_else)
    problems.add(f"{what} is of exactly one kind", origins.key(*SEARCH, key), notes=notes)
    return False


def _check_trials(search: Search, seeds: int, origins: Origins, problems: Problems) -> None:
    """A budget in trials is for the reference and one block at least, and for as many as are to be confirmed."""
    trials = search.budget.trials
    if trials is None:
        return
    each = f"{seeds} {'seed' if seeds == 1 else 'seeds'} for each block"
    blocks = trials // seeds - 1
    if blocks < 1:
        message = f"a budget of {trials} {'trial' if trials == 1 else 'trials'} leaves none for what is proposed"
        notes = (f"{each}, and the reference is the first: give it {2 * seeds:,} at least",)
        origins.add(problems, message, (*SEARCH, "budget", "trials"), ("seeds",), notes=notes)
    elif search.confirm != "none" and search.confirm.blocks > blocks:
        message = f"{search.confirm.blocks} blocks are to be confirmed, but at most {blocks} are trained"
        notes = (f"a budget of {trials:,} trials, {each}, and the reference is one of them",)
        paths = ((*SEARCH, "confirm", "blocks"), (*SEARCH, "budget", "trials"), ("seeds",))
        origins.add(problems, message, *paths, notes=notes)


def rung_steps(rungs: Rungs, steps: int, every: int) -> tuple[int, ...]:
    """The steps of rungs at shares `first`, `first * factor`, ... of a recipe's, each down to an evaluation, one every
    `every` steps; none at the end or beyond. They fit where `misplaced` has nothing to say."""
    found: list[int] = []
    share = rungs.first
    while share < 1:
        found.append(math.floor(share * steps / every + ROUNDING) * every)
        share *= rungs.factor
    return tuple(step for step in found if step + 1 < steps)


def misplaced(rungs: Rungs, steps: int, every: int) -> tuple[str, str] | None:
    """What is wrong with where rungs stand, and the way out: the first one must be at an evaluation after the start and
    before the end."""
    found = rung_steps(rungs, steps, every)
    if found and found[0] > 0:
        return None
    if found and every < steps - 1:
        share = f"{100 * rungs.first:.4g}% of {steps:,} steps"
        message = f"the first rung, at {share}, is before the first evaluation, at step {every:,}"
        return message, f"begin later (first: {math.ceil(100 * every / steps)}%), or evaluate more often"
    message = f"no evaluation, one every {every:,} of {steps:,} steps, is a rung before the end"
    return message, "evaluate more often, begin earlier, or say pruner: none"


def check_beside(origins: Origins, noise: Noise | None, auto: Auto | None, problems: Problems) -> None:
    """Note the sections of a space that a search has no use for: an A/A arm, and seeds that are added."""
    if noise is not None:
        notes = (
            "leave noise out, and measure it in a space of its own with the same recipe: "
            "design: {compare: [...]}, noise: {seeds: 5}",
        )
        problems.add("a search trains no A/A arm: noise has no effect on it", origins.section("noise"), notes=notes)
    if auto is not None:
        notes = ("say how many: seeds: 3; seeds for what it has found: design.search.confirm: {blocks: 3, seeds: 5}",)
        message = "a search trains each block at fixed seeds: it adds none"
        problems.add(message, origins.section("seeds"), notes=notes)
