"""Checks across the keys of a search, which no key shows by itself: each mistake is noted at its place."""

from __future__ import annotations

import math

from pydantic import BaseModel

from ablate.source.located import Mapping
from ablate.source.problems import Problems
from ablate.space.design import Pruner, Rungs, Search
from ablate.space.documents import Auto, Measure, Noise, Recipe
from ablate.space.metrics import OF_AVERAGE
from ablate.space.origin import Origins
from ablate.space.samplers import SamplerSpec

SEARCH = ("design", "search")
EVALUATED = ("measure", "evaluation", "every")
ROUNDING = 1e-9
"""A share of the steps that falls short of a whole number of evaluations by no more than this is taken as one."""


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
    """Note what does not fit together in the search of a space and the sections around it.

    A section that is None has its own mistakes, and what depends on it is not checked.
    """
    if _is_one(search.budget, "budget", "a budget", origins, problems) and seeds is not None:
        _check_trials(search, len(seeds), origins, problems)
    pruner = search.pruner
    if isinstance(pruner, Pruner):
        extra = "or pruner: none"
        sound = _is_one(pruner, "pruner", "a pruner", origins, problems, extra)
        if sound and recipe is not None and measure is not None:
            wrong = misplaced(pruner.rungs, recipe.steps, measure.evaluation.every)
            if wrong is not None:
                paths = ((*SEARCH, "pruner", pruner.kind, "first"), ("recipe", "steps"), EVALUATED)
                origins.add(problems, wrong[0], *paths, notes=(wrong[1],))
    for metric in search.objective:
        if metric in OF_AVERAGE and isinstance(pruner, Pruner):
            message = f"{metric} is measured at the end of a trial, but the pruner compares at rungs before it"
            notes = ("search for eval_loss, or set pruner: none",)
            origins.add(problems, message, (*SEARCH, "objective", metric), (*SEARCH, "pruner"), notes=notes)
    if sampler.objectives == "one" and len(search.objective) > 1:
        these = f"{len(search.objective)}: {', '.join(search.objective)}"
        message = f"{sampler.name} supports one objective, and this search has {these}"
        notes = ("keep one of them, or use a sampler for several, such as nsga2",)
        origins.add(problems, message, (*SEARCH, "sampler"), (*SEARCH, "objective"), notes=notes)


def _is_one(document: BaseModel, key: str, what: str, origins: Origins, problems: Problems, *or_else: str) -> bool:
    """Return whether exactly one of the kinds of a document is given; if not, note it."""
    written = origins.written(*SEARCH, key)
    given = [value for name in type(document).model_fields if (value := getattr(document, name)) is not None]
    if len(given) == 1 and isinstance(written, Mapping) and len(written.entries) == 1:
        return True
    notes = (f"one of: {', '.join(type(document).model_fields)}", *or_else)
    problems.add(f"{what} must have exactly one kind", origins.key(*SEARCH, key), notes=notes)
    return False


def _check_trials(search: Search, seeds: int, origins: Origins, problems: Problems) -> None:
    """Check that a budget in trials covers the reference, at least one block, and all blocks to be confirmed."""
    trials = search.budget.trials
    if trials is None:
        return
    each = f"{seeds} {'seed' if seeds == 1 else 'seeds'} per block"
    blocks = trials // seeds - 1
    if blocks < 1:
        message = f"a budget of {trials} {'trial' if trials == 1 else 'trials'} leaves none for proposals"
        notes = (f"{each}, and the reference is the first block: give at least {2 * seeds:,} trials",)
        origins.add(problems, message, (*SEARCH, "budget", "trials"), ("seeds",), notes=notes)
    elif search.confirm != "none" and search.confirm.blocks > blocks:
        message = f"{search.confirm.blocks} blocks are to be confirmed, but at most {blocks} are trained"
        notes = (f"a budget of {trials:,} trials, {each}, and the reference is one of them",)
        paths = ((*SEARCH, "confirm", "blocks"), (*SEARCH, "budget", "trials"), ("seeds",))
        origins.add(problems, message, *paths, notes=notes)


def rung_steps(rungs: Rungs, steps: int, every: int) -> tuple[int, ...]:
    """Return the steps of the rungs, at the shares `first`, `first * factor`, … of the steps of a recipe.

    Each is rounded down to an evaluation, which there is every `every` steps; none is at the end or beyond. The rungs
    are valid if `misplaced` returns None.
    """
    at: list[int] = []
    share = rungs.first
    while share < 1:
        at.append(math.floor(share * steps / every + ROUNDING) * every)
        share *= rungs.factor
    return tuple(step for step in at if step + 1 < steps)


def misplaced(rungs: Rungs, steps: int, every: int) -> tuple[str, str] | None:
    """Return what is wrong with the places of rungs, and the way out; None if nothing is.

    The first rung must be at an evaluation after the start and before the end.
    """
    at = rung_steps(rungs, steps, every)
    if at and at[0] > 0:
        return None
    if at and every < steps - 1:
        share = f"{100 * rungs.first:.4g}% of {steps:,} steps"
        message = f"the first rung, at {share}, is before the first evaluation, at step {every:,}"
        return message, f"start later (first: {math.ceil(100 * every / steps)}%), or evaluate more often"
    message = f"no evaluation, one every {every:,} of {steps:,} steps, can be a rung before the end"
    return message, "evaluate more often, start earlier, or set pruner: none"


def check_beside(origins: Origins, noise: Noise | None, auto: Auto | None, problems: Problems) -> None:
    """Note the sections of a space that a search cannot use: A/A arms, and seeds that are added."""
    if noise is not None:
        notes = (
            "leave noise out, and measure it in a separate space with the same recipe: "
            "design: {compare: [...]}, noise: {seeds: 5}",
        )
        problems.add("a search trains no A/A arm: noise has no effect on it", origins.section("noise"), notes=notes)
    if auto is not None:
        notes = ("give a number: seeds: 3; to confirm the best blocks: design.search.confirm: {blocks: 3, seeds: 5}",)
        message = "a search trains each block at fixed seeds: it adds no seeds"
        problems.add(message, origins.section("seeds"), notes=notes)
