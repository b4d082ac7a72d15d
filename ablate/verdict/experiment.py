"""An experiment: what verdicts need to know about variants, comparisons and runs, and nothing about how they were made.

A plan gives one (`experiment_of`), and so does a table of runs that were trained elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ablate.plan.forecast import Forecast
from ablate.plan.plan import Comparison, Factors, Plan, PlannedLadder, Variant
from ablate.space.batch_ramp import sequences_of
from ablate.space.documents import FORECAST, FORECAST_NUMBERS, Recipe
from ablate.statistics.known_noise import KnownNoise
from ablate.verdict.seeds import Seed


@dataclass(frozen=True, slots=True, kw_only=True)
class Treatment:
    """One variant as verdicts see it. `edits` are those that lead to it; costs are None where they are not known.
    `compute` are the FLOPs of all its training: those on one sequence × batch × steps.

    `noise`: the baseline with another initialisation, which is shown and never judged. `aliases` are its other names.
    """

    id: str
    name: str
    edits: tuple[str, ...] = ()
    parameters: int | None = None
    flops: int | None = None
    training_flops: int | None = None
    steps: int | None = None
    compute: float | None = None
    noise: bool = False
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Variants, the comparisons between them, and their runs.

    `baseline` is a variant's id. `trials` maps variant (id) and seed to the id of the run, under which its final
    metrics are stored. `seeds`, `looks`, `factors`, `ladders` and `profile` are as in `plan.Plan`. `forecasts` are the
    numbers of the forecast of each variant that has one, by the names that claims have for them. `elsewhere`: the
    runs come from a table, so it is not known what varies from seed to seed, what variants cost, or how often they were
    judged. `noise` is that of each metric which is judged by other runs than those of its comparison.
    `strata` are those of the seeds, where variants are compared within each. `by_ranks`: as two samples, by ranks.
    """

    space: str
    question: str
    design: str
    baseline: str
    variants: tuple[Treatment, ...]
    comparisons: tuple[Comparison, ...]
    seeds: tuple[Seed, ...]
    trials: Mapping[str, Mapping[Seed, str]]
    notes: tuple[str, ...] = ()
    looks: tuple[int, ...] = ()
    factors: tuple[tuple[str, Factors], ...] = ()
    elsewhere: bool = False
    ladders: tuple[tuple[str, PlannedLadder], ...] = ()
    profile: str | None = None
    forecasts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    noise: Mapping[str, KnownNoise] = field(default_factory=dict)
    strata: Mapping[Seed, str] = field(default_factory=dict)
    by_ranks: bool = False

    def variant(self, id: str) -> Treatment:
        """Return the variant of that id; KeyError if there is none."""
        for variant in self.variants:
            if variant.id == id:
                return variant
        raise KeyError(id)


def names_of(experiment: Experiment) -> Mapping[str, str]:
    """Return the id of the variant of each name."""
    return {name: variant.id for variant in experiment.variants for name in (variant.name, *variant.aliases)}


def experiment_of(plan: Plan) -> Experiment:
    """Return the experiment of a plan: its trials on the verdict split, since trials that tuning or a search made its
    choices by have no part in a verdict. ValueError where a plan holds a variant twice under one seed.
    """
    trials: dict[str, dict[Seed, str]] = {variant.id: {} for variant in plan.variants}
    recipes: dict[str, Recipe] = {}
    for trial in plan.trials:
        if trial.split != "verdict":
            continue
        if trial.seed in trials[trial.variant]:
            raise ValueError(
                f"variant {trial.variant} has two trials of seed {trial.seed}: they cannot be paired by seed"
            )
        trials[trial.variant][trial.seed] = trial.id
        recipes[trial.variant] = trial.recipe
    return Experiment(
        space=plan.space,
        question=plan.question,
        design=plan.design,
        baseline=plan.baseline,
        variants=tuple(_treatment(variant, recipes.get(variant.id)) for variant in plan.variants),
        comparisons=plan.comparisons,
        seeds=plan.seeds,
        trials=trials,
        notes=plan.notes,
        looks=plan.looks,
        factors=plan.factors,
        ladders=plan.ladders,
        profile=plan.profile,
        forecasts={variant: _numbers(forecast) for variant, forecast in plan.forecasts if not forecast.refused},
    )


def _numbers(forecast: Forecast) -> Mapping[str, float]:
    numbers = {f"{FORECAST}{name}": getattr(forecast, name) for name in FORECAST_NUMBERS}
    return {name: number for name, number in numbers.items() if number is not None}


def _treatment(variant: Variant, recipe: Recipe | None) -> Treatment:
    training = variant.cost.training_flops
    return Treatment(
        id=variant.id,
        name=variant.name,
        edits=variant.edits,
        parameters=variant.parameters,
        flops=variant.flops,
        training_flops=training,
        steps=None if recipe is None else recipe.steps,
        compute=None if recipe is None else float(training * sequences_of(recipe)),
        noise=variant.setting.salt != 0,
        aliases=variant.names[1:],
    )
