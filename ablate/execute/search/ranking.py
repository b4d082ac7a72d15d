"""Ranking: how the results of a search are compared: by several objectives, at rungs, and between rungs."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby
from typing import Literal, TypeAlias

from ablate.errors import InputError
from ablate.space.design import Goal, Pruner, misplaced, rung_steps
from ablate.train.events import OutcomeKind

# The result of a proposal, and how proposers are told about it. A diverged trial is a result: the block counts as bad
# as the worst block with values, in every objective, and so does a single objective that is infinite or NaN. Before any
# block has values the result is not told. Trials that ended otherwise (a bug, no memory, no time) say nothing about the
# block and are never told as a value. Nor is a derivation that was refused; a sampler may count it as worse than any
# that has values.

Losses: TypeAlias = tuple[float, ...]  # a number for each objective, all to be minimised
VALUED: tuple[OutcomeKind, ...] = ("finished", "paused")  # with values: those of the end, or of the rung


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """One value for each objective, in its original sign, if the job finished or paused at its rung. `seconds` is its
    training time, summed over its trials, without that of earlier jobs of the block."""

    outcome: OutcomeKind
    values: tuple[float, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Result:
    """The `values` of derivation `index`, all at the same rung or the end; empty if it did not come that far, or was
    `refused` on the way to a proposal and has never been a trial."""

    index: int
    outcome: OutcomeKind | Literal["refused"]
    values: tuple[float, ...] = ()


def told(history: Sequence[Result | JobOutcome], goals: Sequence[Goal]) -> list[Losses | None]:
    """Return the losses that each result is told with, all to be minimised; None for one that is not told."""
    signs = [1.0 if goal == "min" else -1.0 for goal in goals]
    rows = [_losses_of(result, signs) for result in history]
    worst = [max((row[i] for row in rows if row and math.isfinite(row[i])), default=None) for i in range(len(signs))]
    return [None if row is None else _filled(row, worst) for row in rows]


def _losses_of(result: Result | JobOutcome, signs: Sequence[float]) -> Losses | None:
    if result.outcome == "diverged":
        return (math.inf,) * len(signs)
    if result.outcome in VALUED and result.values:
        return tuple(sign * value for sign, value in zip(signs, result.values, strict=True))
    return None


def _filled(row: Losses, worst: Sequence[float | None]) -> Losses | None:
    filled = (value if math.isfinite(value) else bad for value, bad in zip(row, worst, strict=True))
    known = tuple(value for value in filled if value is not None)
    return known if len(known) == len(row) else None


# The ranking of results by several objectives, all minimised: Pareto fronts, crowding distance, hypervolume. Deb et al.
# 2002, A fast and elitist multiobjective genetic algorithm: NSGA-II, Sections III-A and III-B.


def dominates(a: Losses, b: Losses) -> bool:
    """Return whether `a` is nowhere worse than `b`, and somewhere better."""
    return a != b and all(x <= y for x, y in zip(a, b, strict=True))


def front(losses: Sequence[Losses]) -> list[int]:
    """The indices of the Pareto front, in order; of equal vectors all."""
    return _fronts(losses)[0] if losses else []


def ranked(losses: Sequence[Losses]) -> list[int]:
    """The indices, best first: by front, within one the least crowded first, ties in the given order."""
    order: list[int] = []
    for here in _fronts(losses):
        distance = dict(zip(here, crowding([losses[i] for i in here]), strict=True))
        order += sorted(here, key=lambda i: -distance[i])
    return order


def _fronts(losses: Sequence[Losses]) -> list[list[int]]:
    """The indices front by front. A vector's dominators precede it in lexicographic order, and a dominator in one front
    is itself dominated by a vector of the front before, so the front of a vector is found by bisection. Zhang et al.
    2015, An efficient approach to nondominated sorting for evolutionary multiobjective optimization."""
    order = sorted(range(len(losses)), key=lambda place: losses[place])
    if losses and len(losses[0]) == 1:
        return [list(alike) for _, alike in groupby(order, key=lambda place: losses[place])]
    fronts: list[list[int]] = []
    for i in order:
        vector = losses[i]
        home = bisect_left(fronts, True, key=lambda f: not any(dominates(losses[j], vector) for j in reversed(f)))
        if home == len(fronts):
            fronts.append([])
        fronts[home].append(i)
    return [sorted(members) for members in fronts]


def crowding(losses: Sequence[Losses]) -> list[float]:
    """The crowding distance of each vector of a front: the gap around it, summed over objectives; infinite at the
    ends."""
    distance = [0.0] * len(losses)
    for objective in range(len(losses[0]) if losses else 0):
        order = sorted(range(len(losses)), key=lambda i: losses[i][objective])
        span = losses[order[-1]][objective] - losses[order[0]][objective]
        distance[order[0]] = distance[order[-1]] = math.inf
        for before, i, after in zip(order, order[1:], order[2:], strict=False):
            if span > 0:
                distance[i] += (losses[after][objective] - losses[before][objective]) / span
    return distance


def hypervolume(losses: Sequence[Losses], reference: Losses) -> float:
    """The exact hypervolume that `losses` dominate up to `reference`; 0 if none is better than it. It sums slices along
    the last objective: between two of its values, the vectors up to the first, with their hypervolume in the others."""
    better = [loss for loss in losses if all(x < y for x, y in zip(loss, reference, strict=True))]
    if not better:
        return 0.0
    if len(reference) == 1:
        return reference[0] - min(loss[0] for loss in better)
    better.sort(key=lambda loss: loss[-1])
    volume = 0.0
    for place, loss in enumerate(better):
        end = better[place + 1][-1] if place + 1 < len(better) else reference[-1]
        if end > loss[-1]:
            volume += (end - loss[-1]) * hypervolume([other[:-1] for other in better[: place + 1]], reference[:-1])
    return volume


# Rungs: the steps at which the blocks of a search are compared, and which of them are promoted.
#
# ASHA (Li et al. 2020, A system for massively parallel hyperparameter tuning, arXiv:1810.05934, Algorithm 2): no rung
# waits until it is full; a block is promoted once it is among the best 1/factor of those that have reached its rung.
# Hyperband (Li et al. 2018, Hyperband: a novel bandit-based approach to hyperparameter optimization, JMLR 18): since
# it is unknown how early is too early, brackets begin at the first rung, the second, ..., and the last one trains
# straight to the end; blocks are compared within their bracket, and are assigned to the brackets in turn.


@dataclass(frozen=True, slots=True)
class Ladder:
    """The steps at which blocks are compared, rising, all below the end; if empty, every block is trained to the end.
    Level i is rung i, level `end` the end. The best `1/factor` are promoted from each rung. The `brackets`
    begin at levels 0, 1, ..."""

    steps: int
    rungs: tuple[int, ...] = ()
    factor: int = 2
    brackets: int = 1

    @property
    def end(self) -> int:
        return len(self.rungs)

    def rung(self, level: int) -> int | None:
        """None for the end."""
        return self.rungs[level] if level < self.end else None

    def step(self, level: int) -> int:
        return self.rungs[level] if level < self.end else self.steps

    def done(self, level: int | None) -> int:
        """The steps done by a trial that is at a level (None: not begun). A rung is measured at the start of its step,
        and the trial pauses after it."""
        return 0 if level is None else min(self.step(level) + 1, self.steps)

    def begins(self, block: int) -> int:
        """The first level of block number `block`, counted from 0 without the reference."""
        return block % self.brackets


def ladder_of(pruner: Pruner, steps: int, evaluate_every: int) -> Ladder:
    """InputError if the rungs do not fit."""
    wrong = misplaced(pruner.rungs, steps, evaluate_every)
    if wrong is not None:
        raise InputError("\n  = ".join(wrong))
    rungs = rung_steps(pruner.rungs, steps, evaluate_every)
    brackets = len(rungs) + 1 if pruner.kind == "hyperband" else 1
    return Ladder(steps, rungs, pruner.rungs.factor, brackets)


def let_on(arrived: Sequence[JobOutcome], factor: int, goals: Sequence[Goal]) -> list[int]:
    """The indices of the best floor(n / factor) blocks that have reached a rung, by their values, best first.
    Blocks that diverged before it count among the n, as the worst, and are never promoted. Those that ended otherwise
    do not count. Those with an infinite or NaN value come after the others."""
    losses = told(arrived, goals)
    n = sum(came.outcome in ("paused", "diverged") for came in arrived)
    paused = [(i, loss) for i, loss in enumerate(losses) if loss is not None and arrived[i].outcome == "paused"]
    places = [paused[place][0] for place in ranked([loss for _, loss in paused])]
    return sorted(places, key=lambda i: not all(map(math.isfinite, arrived[i].values)))[: n // factor]


# The values that proposers are told: those at different rungs cannot be compared, so samplers are told those of the
# highest rung that ten blocks have reached, as in BOHB (Falkner et al. 2018, arXiv:1807.01774).

ENOUGH_BLOCKS = 10
"""The blocks that a rung needs for samplers to use it; if no rung has them, the one with the most is used."""


@dataclass(frozen=True, slots=True)
class Arrival:
    job: int
    came: JobOutcome


Standing: TypeAlias = Mapping[str, Mapping[int, Arrival]]
"""The outcomes of every block, by its mark, at each level it was trained to, lowest first."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The derivation of a result, its block's mark, and the number of jobs before it was proposed."""

    index: int
    mark: str
    before: int


def history(origins: Iterable[Origin], standing: Standing, refused: Mapping[int, int] | None = None) -> list[Result]:
    """The results of derivations, one for each; those whose block has none are left out.
    They are in the order in which jobs produced them, so that samplers that divide them into generations by position
    get the same generations again. Between them are the `refused` derivations, by the number of jobs before them."""
    known = [origin for origin in origins if origin.mark in standing]
    level = told_level({origin.mark: standing[origin.mark] for origin in known})
    arrivals = [_arrival(standing[origin.mark], level) for origin in known]
    results = [
        (max(origin.before, arrival.job), Result(origin.index, arrival.came.outcome, arrival.came.values))
        for origin, arrival in zip(known, arrivals, strict=True)
    ]
    results += [(before, Result(index, "refused")) for index, before in (refused or {}).items()]
    return [result for _, result in sorted(results, key=lambda pair: pair[0])]


def told_level(standing: Standing) -> int | None:
    """The highest level at which enough blocks have values, else the one with the most; None if none has any."""
    reached = Counter(level for levels in standing.values() for level, each in levels.items() if each.came.values)
    return max(reached, key=lambda level: (min(reached[level], ENOUGH_BLOCKS), level), default=None)


def _arrival(levels: Mapping[int, Arrival], level: int | None) -> Arrival:
    """A block's divergence, at any level; else its values at `level`; else only how it ended."""
    last = levels[max(levels)]
    if last.came.outcome == "diverged":
        return last
    if level is not None and level in levels and levels[level].came.values:
        return levels[level]
    return Arrival(last.job, JobOutcome(last.came.outcome))


# How well an early rung predicts a later one: Spearman's rank correlation of the values at both. Only promoted blocks
# have these, the best of the earlier rung; over all blocks it would be higher.

LEAST_BLOCKS = 3  # the fewest blocks for a correlation: that of two blocks is always 1 or -1


@dataclass(frozen=True, slots=True)
class RungCorrelation:
    """The rank correlation of objective number `objective` at the steps `lower` and `upper` (for the end: all steps),
    over the n blocks with a number at both; None if n is below three, or all numbers at one step are equal."""

    lower: int
    upper: int
    n: int
    objective: int
    spearman: float | None


def correlations(standing: Standing, ladder: Ladder, objectives: int) -> tuple[RungCorrelation, ...]:
    return tuple(
        _correlation(standing, ladder, lower, upper, objective)
        for lower, upper in combinations(range(ladder.end + 1), 2)
        for objective in range(objectives)
    )


def _correlation(standing: Standing, ladder: Ladder, lower: int, upper: int, objective: int) -> RungCorrelation:
    pairs = [
        (levels[lower].came.values[objective], levels[upper].came.values[objective])
        for levels in standing.values()
        if all(level in levels and levels[level].came.values for level in (lower, upper))
    ]
    pairs = [pair for pair in pairs if not any(map(math.isnan, pair))]
    return RungCorrelation(ladder.step(lower), ladder.step(upper), len(pairs), objective, spearman(pairs))


def spearman(pairs: Iterable[tuple[float, float]]) -> float | None:
    """Ties share their mean rank; None if the correlation is not defined."""
    before, after = (list(side) for side in zip(*pairs, strict=True)) if (pairs := list(pairs)) else ([], [])
    if len(before) < LEAST_BLOCKS or len(set(before)) == 1 or len(set(after)) == 1:
        return None
    from scipy.stats import spearmanr

    return float(spearmanr(before, after).statistic)
