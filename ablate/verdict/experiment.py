"""An experiment: what a verdict needs to know of variants, comparisons and runs, and nothing of how these were made.

A plan gives one (`experiment_of`), and so does a table of runs that were trained elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ablate.plan.plan import Comparison, Factors, Plan, Variant
from ablate.verdict.seeds import Seed


@dataclass(frozen=True, slots=True, kw_only=True)
class Treatment:
    """One variant as verdicts know it. `edits` are those that lead to it; what it costs is None where it is not known.

    `noise`: it is the baseline with another initialisation, which is shown and never judged.
    """

    id: str
    name: str
    edits: tuple[str, ...] = ()
    parameters: int | None = None
    flops: int | None = None
    training_flops: int | None = None
    steps: int | None = None
    noise: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Variants, what is asked of them, and which runs they have.

    `baseline` is a variant's id. `trials` has by variant (id) and seed the id of the run, under which its final metrics
    are found. `seeds`, `looks` and `factors` are as `plan.Plan` has them. `elsewhere`: its runs are of a table, so
    that neither what varies from seed to seed is known, nor what variants cost, nor how often they were judged.
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

    def variant(self, id: str) -> Treatment:
        """The variant of that id; KeyError if there is none."""
        for variant in self.variants:
            if variant.id == id:
                return variant
        raise KeyError(id)


def experiment_of(plan: Plan) -> Experiment:
    """What a plan gives verdicts to judge: its trials on the verdict split, since those that tuning or a search chose
    by have no part in a verdict. ValueError where a plan holds a variant twice under one seed.
    """
    trials: dict[str, dict[Seed, str]] = {variant.id: {} for variant in plan.variants}
    steps: dict[str, int] = {}
    for trial in plan.trials:
        if trial.split != "verdict":
            continue
        if trial.seed in trials[trial.variant]:
            raise ValueError(
                f"variant {trial.variant} has two trials of seed {trial.seed}: they cannot be paired by seed"
            )
        trials[trial.variant][trial.seed] = trial.id
        steps[trial.variant] = trial.recipe.steps
    return Experiment(
        space=plan.space,
        question=plan.question,
        design=plan.design,
        baseline=plan.baseline,
        variants=tuple(_treatment(variant, steps.get(variant.id)) for variant in plan.variants),
        comparisons=plan.comparisons,
        seeds=plan.seeds,
        trials=trials,
        notes=plan.notes,
        looks=plan.looks,
        factors=plan.factors,
    )


def _treatment(variant: Variant, steps: int | None) -> Treatment:
    return Treatment(
        id=variant.id,
        name=variant.name,
        edits=variant.edits,
        parameters=variant.parameters,
        flops=variant.flops,
        training_flops=variant.cost.training_flops,
        steps=steps,
        noise=variant.setting.salt != 0,
    )
