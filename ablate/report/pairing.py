"""Which numbers may be compared: the trials of two variants, matched by seed, with nothing left out unnamed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from ablate.plan.plan import Plan
from ablate.report.finals import Finals

OTHER_VERSIONS = "run with other versions or on another device before and after"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The trials of one variant by seed: final metrics of the finished, the diverged, and why others have no result.

    `versions` stands for what each ran with; trials that differ in it are not paired.
    """

    finished: Mapping[int, Mapping[str, float]]
    diverged: frozenset[int]
    missing: Mapping[int, str]
    versions: Mapping[int, str | None] = field(default_factory=dict)

    @property
    def ended(self) -> int:
        """Trials with a result: finished or diverged."""
        return len(self.finished) + len(self.diverged)

    @property
    def lost(self) -> bool:
        """Whether every trial with a result diverged."""
        return bool(self.diverged) and not self.finished

    def values(self, metric: str, *, log: bool) -> dict[int, float]:
        """The usable values of a metric by seed: finite, and above zero where logarithms are taken."""
        return {
            seed: metrics[metric]
            for seed, metrics in sorted(self.finished.items())
            if metric in metrics and math.isfinite(metrics[metric]) and (metrics[metric] > 0 or not log)
        }

    def why_not(self, seed: int, metric: str) -> str:
        """Why that seed has no usable value."""
        if seed in self.diverged:
            return "diverged"
        if seed in self.finished:
            value = self.finished[seed].get(metric)
            return f"no {metric}" if value is None else f"{metric} is {value:g}"
        return self.missing.get(seed, "not planned")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """One metric on two sides, aligned by seed, and why the other seeds could not be paired."""

    before: tuple[float, ...]
    after: tuple[float, ...]
    unpaired: Mapping[int, str]

    @property
    def n(self) -> int:
        """The number of pairs."""
        return len(self.before)


def sides(plan: Plan, finals: Finals) -> dict[str, Side]:
    """Every variant's side, by variant id. ValueError where a plan holds a variant twice under one seed."""
    planned: dict[str, dict[int, str]] = {variant.id: {} for variant in plan.variants}
    for trial in plan.trials:
        if trial.seed in planned[trial.variant]:
            raise ValueError(
                f"variant {trial.variant} has two trials of seed {trial.seed}: they cannot be paired by seed"
            )
        planned[trial.variant][trial.seed] = trial.id
    return {variant: _side(trials, finals) for variant, trials in planned.items()}


def _side(trials: Mapping[int, str], finals: Finals) -> Side:
    ends = {seed: finals.get(trial) for seed, trial in trials.items()}
    return Side(
        finished={seed: end["metrics"] for seed, end in ends.items() if end and end["status"] == "finished"},
        versions={seed: end.get("versions") for seed, end in ends.items() if end},
        diverged=frozenset(seed for seed, end in ends.items() if end and end["status"] == "diverged"),
        missing={
            seed: end["status"].replace("_", " ") if end else "not run"
            for seed, end in ends.items()
            if not end or end["status"] not in ("finished", "diverged")
        },
    )


def pair(before: Side, after: Side, metric: str, *, log: bool) -> Pairs:
    """Match two sides by seed."""
    x, y = before.values(metric, log=log), after.values(metric, log=log)
    matched = [seed for seed in x if seed in y]
    common = [seed for seed in matched if before.versions.get(seed) == after.versions.get(seed)]
    every = {*before.finished, *before.diverged, *before.missing, *after.finished, *after.diverged, *after.missing}
    return Pairs(
        before=tuple(x[seed] for seed in common),
        after=tuple(y[seed] for seed in common),
        unpaired={
            seed: ", ".join(
                f"{side.why_not(seed, metric)} {where}"
                for side, values, where in ((before, x, "before"), (after, y, "after"))
                if seed not in values
            )
            or OTHER_VERSIONS
            for seed in sorted(every.difference(common))
        },
    )
