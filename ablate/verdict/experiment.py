"""Experiment: variants, comparisons and runs as verdicts see them, and which of these may be compared.

A plan gives an experiment (`experiment_of`), and so does a table of runs that were trained elsewhere.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple, NotRequired, TypeAlias, TypedDict

from ablate.plan.plan import Comparison, Factors, Forecast, Plan, PlannedLadder, Variant
from ablate.space.judge import FORECAST, FORECAST_NUMBERS
from ablate.space.metrics import LOSSES
from ablate.space.recipe import Recipe
from ablate.space.schedule import sequences_of

if TYPE_CHECKING:
    from ablate.statistics.t_tests import KnownNoise

# Seeds in words: by their numbers, and by what became of their runs.

Seed: TypeAlias = int | str
"""The key by which runs are paired: a seed, or in a table also a name. An experiment uses one kind."""


def seed_list(numbers: Sequence[Seed]) -> str:
    """A list of seeds by number.

    >>> seed_list([3]), seed_list([2, 4])
    ('seed 3', 'seeds 2, 4')
    """
    return f"seed{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def by_reason(reasons: Iterable[tuple[Seed, str]]) -> dict[str, list[Seed]]:
    """Seeds grouped by reason.

    >>> by_reason([(1, "bug"), (2, "not run"), (4, "bug")])
    {'bug': [1, 4], 'not run': [2]}
    """
    grouped: dict[str, list[Seed]] = {}
    for seed, reason in reasons:
        grouped.setdefault(reason, []).append(seed)
    return grouped


# How a trial ended, as the store hands it over: plain values, keyed by trial id.

RESULTS = ("finished", "diverged")


class Final(TypedDict):
    """The end of one trial: an outcome's kind, its last step, and its final metrics by name.

    `versions` identifies the software and machine of the run: trials that differ in it are not paired. `by_name` is the
    same with the processor's name in place of what it computes, by which those that did not record that are paired.
    `metrics` of a diverged trial may be empty, infinite or NaN: they are counted, never averaged.
    """

    status: str
    step: int
    metrics: Mapping[str, float]
    versions: NotRequired[str | None]
    by_name: NotRequired[str | None]


class RanWith(NamedTuple):
    """The software and machine of a run, as in `Final`."""

    versions: str | None = None
    by_name: str | None = None

    def like(self, other: RanWith) -> bool:
        """True if runs of both may be paired."""
        same = self.versions == other.versions
        return (
            same
            or (self.versions is not None and self.versions == other.by_name)
            or (self.by_name is not None and self.by_name == other.versions)
        )


def pairable(runs: Iterable[RanWith]) -> bool:
    """True if all of these may be paired with each other."""
    return all(one.like(other) for one, other in combinations(dict.fromkeys(runs), 2))


Finals: TypeAlias = Mapping[str, Final]
"""Trial id → its end. A trial that is not in it has not been run."""


# Variants, comparisons and runs.


@dataclass(frozen=True, slots=True, kw_only=True)
class Treatment:
    """One variant; `edits` are those that lead to it, `compute` the FLOPs of all training; costs are None if not known.

    `noise`: the baseline with another initialisation, which is never judged.
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
    metrics are stored. `forecasts` are the numbers of the forecast of each variant that has one, by the names that
    claims have for them. `elsewhere`: the runs come from a table, so it is not known what varies from seed to seed,
    what variants cost, or how often they were judged. `noise` is that of each metric which is judged by other runs than
    those of its comparison. `strata` are those of the seeds, where variants are compared within each. `by_ranks`: as
    two samples, by ranks. Other fields are as in `plan.Plan`.
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
        """The variant of that id; KeyError if there is none."""
        return {variant.id: variant for variant in self.variants}[id]


def names_of(experiment: Experiment) -> Mapping[str, str]:
    return {name: variant.id for variant in experiment.variants for name in (variant.name, *variant.aliases)}


def experiment_of(plan: Plan) -> Experiment:
    """The experiment of a plan: its trials on the verdict split alone, as those by which tuning or a search made its
    choices have no part in a verdict. ValueError for a variant that is twice under one seed.
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
        recipes[trial.variant] = trial.work.recipe
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


# Pairing: the trials of variants are matched by seed, with a reason for everything left out.

OTHER_VERSIONS = "run with different versions or on different devices before and after"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The trials of one variant by seed: final metrics of the finished, the diverged, and why others have no result.

    `versions` identifies the software and machine of each run; those that are not alike in it are not paired.
    """

    finished: Mapping[Seed, Mapping[str, float]]
    diverged: frozenset[Seed]
    missing: Mapping[Seed, str]
    versions: Mapping[Seed, RanWith] = field(default_factory=dict)

    @property
    def ended(self) -> int:
        """Trials with a result: finished or diverged."""
        return len(self.finished) + len(self.diverged)

    @property
    def lost(self) -> bool:
        """True if it diverged at every seed: all planned ones, or two or more of which none has finished."""
        return not self.finished and (len(self.diverged) > 1 or (bool(self.diverged) and not self.missing))

    @property
    def seeds(self) -> frozenset[Seed]:
        """Every seed it was to be trained with."""
        return frozenset((*self.finished, *self.diverged, *self.missing))

    def ran_with(self, seed: Seed) -> RanWith:
        return self.versions.get(seed, RanWith())

    def at(self, seeds: Collection[Seed]) -> Side:
        return Side(
            finished={seed: metrics for seed, metrics in self.finished.items() if seed in seeds},
            diverged=self.diverged.intersection(seeds),
            missing={seed: why for seed, why in self.missing.items() if seed in seeds},
            versions={seed: versions for seed, versions in self.versions.items() if seed in seeds},
        )

    def values(self, metric: str, *, log: bool) -> dict[Seed, float]:
        """Finite values, and above zero where logarithms are taken."""
        values = {seed: self.finished[seed].get(metric, math.nan) for seed in sorted(self.finished)}
        return {seed: value for seed, value in values.items() if math.isfinite(value) and (value > 0 or not log)}

    def unusable(self, metric: str, *, log: bool) -> frozenset[Seed]:
        """Seeds that finished with an unusable value of the metric."""
        here = {seed for seed, metrics in self.finished.items() if metric in metrics}
        return frozenset(here.difference(self.values(metric, log=log)))

    def without(self, metric: str, *, log: bool) -> frozenset[Seed]:
        """Seeds that diverged, or finished with an unusable value."""
        return self.diverged | self.unusable(metric, log=log)

    def why_not(self, seed: Seed, metric: str) -> str:
        if seed in self.diverged:
            return "diverged"
        if seed in self.finished:
            value = self.finished[seed].get(metric)
            return f"no {metric}" if value is None else f"{metric} is {value:g}"
        return self.missing.get(seed, "not planned")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedPairs:
    """One metric on two sides, aligned by seed, the `seeds` of these, and why the others could not be paired.

    Among the unpaired, `lost` are the seeds with a diverged run: 1 where only the run after diverged, -1 where only the
    run before did, 0 where both did. `open` is the number of seeds at which a run finished with an unusable value.
    """

    before: tuple[float, ...]
    after: tuple[float, ...]
    unpaired: Mapping[Seed, str]
    lost: tuple[int, ...] = ()
    open: int = 0
    seeds: tuple[Seed, ...] = ()

    @property
    def n(self) -> int:
        return len(self.before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """One metric of several variants, in one order, seed by seed; and why the other seeds are left out.

    `lost` are those left out only because a run diverged, or has an unusable value.
    """

    values: tuple[tuple[float, ...], ...]
    left_out: Mapping[Seed, str]
    lost: frozenset[Seed] = frozenset()


def sides(experiment: Experiment, finals: Finals) -> dict[str, Side]:
    return {variant.id: _side(experiment.trials[variant.id], finals) for variant in experiment.variants}


def _side(trials: Mapping[Seed, str], finals: Finals) -> Side:
    ends = {seed: finals.get(trial) for seed, trial in trials.items()}
    return Side(
        finished={seed: end["metrics"] for seed, end in ends.items() if end and end["status"] == "finished"},
        versions={seed: RanWith(end.get("versions"), end.get("by_name")) for seed, end in ends.items() if end},
        diverged=frozenset(seed for seed, end in ends.items() if end and end["status"] == "diverged"),
        missing={
            seed: end["status"].replace("_", " ") if end else "not run"
            for seed, end in ends.items()
            if not end or end["status"] not in RESULTS
        },
    )


def same_results(before: Side, after: Side) -> bool:
    """True if two variants are one model by their results: every loss is the same number at every seed.

    All seeds that have ended have finished on both sides; runs of other machines or versions say nothing.
    """
    seeds = before.finished.keys() & after.finished.keys()
    ended = before.finished.keys() | after.finished.keys() | before.diverged | after.diverged
    if seeds != ended:
        return False
    sides = [(before.finished[seed], after.finished[seed]) for seed in seeds]
    losses = {loss for one, other in sides for loss in LOSSES if loss in one or loss in other}
    same = all(one.get(loss) == other.get(loss) for one, other in sides for loss in losses)
    return bool(losses) and same and all(before.ran_with(seed).like(after.ran_with(seed)) for seed in seeds)


def pair(before: Side, after: Side, metric: str, *, log: bool) -> SeedPairs:
    x, y = before.values(metric, log=log), after.values(metric, log=log)
    common = [seed for seed in x if seed in y and before.ran_with(seed).like(after.ran_with(seed))]
    ranked = _ranked((before, after), metric, log=log).difference(common)
    sided = [
        seed for seed in ranked if all(seed in its or seed in side.diverged for side, its in ((before, x), (after, y)))
    ]
    return SeedPairs(
        before=tuple(x[seed] for seed in common),
        after=tuple(y[seed] for seed in common),
        unpaired={
            seed: ", ".join(
                f"{side.why_not(seed, metric)} {where}"
                for side, values, where in ((before, x, "before"), (after, y, "after"))
                if seed not in values
            )
            or OTHER_VERSIONS
            for seed in sorted((before.seeds | after.seeds).difference(common))
        },
        seeds=tuple(common),
        lost=tuple((seed in after.diverged) - (seed in before.diverged) for seed in sided),
        open=len(ranked) - len(sided),
    )


def _ranked(of: Sequence[Side], metric: str, *, log: bool) -> frozenset[Seed]:
    """The seeds at which each side has a value or was lost for the metric, under the same versions."""
    counted = [frozenset(side.values(metric, log=log)) | side.without(metric, log=log) for side in of]
    return frozenset(seed for seed in frozenset.intersection(*counted) if pairable(side.ran_with(seed) for side in of))


def align(named: Sequence[tuple[str, Side]], metric: str, *, log: bool) -> Rows:
    """Align the values of several named sides at the seeds that all of them have."""
    values = [side.values(metric, log=log) for _, side in named]
    rows, left_out = [], {}
    for seed in sorted(frozenset[Seed]().union(*(side.seeds for _, side in named))):
        lacking = [
            f"{side.why_not(seed, metric)} for {name}"
            for (name, side), its in zip(named, values, strict=True)
            if seed not in its
        ]
        if not lacking and not pairable(side.ran_with(seed) for _, side in named):
            lacking = ["run with different versions or on different devices"]
        if lacking:
            left_out[seed] = ", ".join(lacking)
        else:
            rows.append(tuple(its[seed] for its in values))
    ranked = _ranked([side for _, side in named], metric, log=log)
    return Rows(values=tuple(rows), left_out=left_out, lost=ranked.intersection(left_out))


def runs_by_seeds(
    named: Sequence[tuple[str, Side]], seeds: Sequence[Seed], metric: str, *, log: bool
) -> tuple[list[list[float]], list[list[float]], dict[str, dict[str, list[Seed]]]]:
    """A metric as a table of runs by seeds, NaN where a run has no value; a table of lost runs, 1 where one diverged,
    NaN where its value is unusable, else 0; and by reason which seeds of which runs have no value.

    Of a seed's runs only those with its most frequent versions are kept: within a seed all must have the same.
    """
    usable = [side.values(metric, log=log) for _, side in named]
    table = [[values.get(seed, math.nan) for seed in seeds] for values in usable]
    without = [side.without(metric, log=log) for _, side in named]
    gone = [[0.0] * len(seeds) for _ in named]
    lost: dict[str, dict[str, list[Seed]]] = {}
    for column, seed in enumerate(seeds):
        versions = Counter(
            side.ran_with(seed)
            for (_, side), its, lacks in zip(named, usable, without, strict=True)
            if seed in its or seed in lacks
        )
        usual = versions.most_common(1)[0][0] if versions else RanWith()
        for row, ((name, side), its) in enumerate(zip(named, usable, strict=True)):
            same = side.ran_with(seed).like(usual)
            if seed in without[row] and same:
                gone[row][column] = 1.0 if seed in side.diverged else math.nan
            if seed in its and same:
                continue
            table[row][column] = math.nan
            why = "run with different versions or on a different device" if seed in its else side.why_not(seed, metric)
            lost.setdefault(why, {}).setdefault(name, []).append(seed)
    return table, gone, lost
