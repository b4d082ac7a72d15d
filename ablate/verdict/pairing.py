"""Which numbers may be compared: the trials of variants, matched by seed, with a reason for everything left out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ablate.space.metrics import LOSSES
from ablate.verdict.experiment import Experiment
from ablate.verdict.finals import Finals, RanWith, alike
from ablate.verdict.seeds import Seed

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
        """Return whether it diverged at every seed: all planned ones, or two or more of which none has finished."""
        return not self.finished and (len(self.diverged) > 1 or (bool(self.diverged) and not self.missing))

    @property
    def seeds(self) -> frozenset[Seed]:
        """Every seed it was to be trained with."""
        return frozenset((*self.finished, *self.diverged, *self.missing))

    def ran_with(self, seed: Seed) -> RanWith:
        """Return the software and machine of the run of a seed."""
        return self.versions.get(seed, RanWith())

    def at(self, seeds: Collection[Seed]) -> Side:
        """Return the side restricted to these seeds."""
        return Side(
            finished={seed: metrics for seed, metrics in self.finished.items() if seed in seeds},
            diverged=self.diverged.intersection(seeds),
            missing={seed: why for seed, why in self.missing.items() if seed in seeds},
            versions={seed: versions for seed, versions in self.versions.items() if seed in seeds},
        )

    def values(self, metric: str, *, log: bool) -> dict[Seed, float]:
        """Return the usable values of a metric by seed: finite, and above zero where logarithms are taken."""
        told = {seed: self.finished[seed].get(metric, math.nan) for seed in sorted(self.finished)}
        return {seed: value for seed, value in told.items() if math.isfinite(value) and (value > 0 or not log)}

    def unusable(self, metric: str, *, log: bool) -> frozenset[Seed]:
        """Return the seeds that finished with an unusable value of the metric."""
        here = {seed for seed, metrics in self.finished.items() if metric in metrics}
        return frozenset(here.difference(self.values(metric, log=log)))

    def without(self, metric: str, *, log: bool) -> frozenset[Seed]:
        """Return the seeds whose run was lost for the metric: it diverged, or finished with an unusable value."""
        return self.diverged | self.unusable(metric, log=log)

    def why_not(self, seed: Seed, metric: str) -> str:
        """Explain why that seed has no usable value."""
        if seed in self.diverged:
            return "diverged"
        if seed in self.finished:
            value = self.finished[seed].get(metric)
            return f"no {metric}" if value is None else f"{metric} is {value:g}"
        return self.missing.get(seed, "not planned")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
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
        """The number of pairs."""
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
    """Return the side of every variant, by variant id."""
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
            if not end or end["status"] not in ("finished", "diverged")
        },
    )


def identical(before: Side, after: Side) -> bool:
    """Return whether two variants are one model by their results: every loss is the same number at every seed.

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


def pair(before: Side, after: Side, metric: str, *, log: bool) -> Pairs:
    """Match two sides by seed."""
    x, y = before.values(metric, log=log), after.values(metric, log=log)
    common = [seed for seed in x if seed in y and before.ran_with(seed).like(after.ran_with(seed))]
    ranked = _ranked((before, after), metric, log=log).difference(common)
    sided = [
        seed for seed in ranked if all(seed in its or seed in side.diverged for side, its in ((before, x), (after, y)))
    ]
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
            for seed in sorted((before.seeds | after.seeds).difference(common))
        },
        seeds=tuple(common),
        lost=tuple((seed in after.diverged) - (seed in before.diverged) for seed in sided),
        open=len(ranked) - len(sided),
    )


def _ranked(of: Sequence[Side], metric: str, *, log: bool) -> frozenset[Seed]:
    """Return the seeds at which each side has a value or was lost for the metric, under the same versions."""
    told = [frozenset(side.values(metric, log=log)) | side.without(metric, log=log) for side in of]
    return frozenset(seed for seed in frozenset.intersection(*told) if alike(side.ran_with(seed) for side in of))


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
        if not lacking and not alike(side.ran_with(seed) for _, side in named):
            lacking = ["run with different versions or on different devices"]
        if lacking:
            left_out[seed] = ", ".join(lacking)
        else:
            rows.append(tuple(its[seed] for its in values))
    ranked = _ranked([side for _, side in named], metric, log=log)
    return Rows(values=tuple(rows), left_out=left_out, lost=ranked.intersection(left_out))


def cells(
    named: Sequence[tuple[str, Side]], seeds: Sequence[Seed], metric: str, *, log: bool
) -> tuple[list[list[float]], list[list[float]], dict[str, dict[str, list[Seed]]]]:
    """Return a metric as a table of runs by seeds, NaN where a run has no value; a table of which runs were lost, 1
    where one diverged, NaN where its value is unusable, else 0; and by reason which seeds of which runs have no value.

    Where the runs of a seed differ in their versions, those with the most frequent ones are kept: within a seed all
    must have the same.
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
