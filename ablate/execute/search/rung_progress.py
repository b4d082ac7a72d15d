"""How far the blocks of a search have come, and what of it is told to what makes proposals.

Values at different rungs cannot be compared. Samplers are told those of one: the highest that ten blocks have reached,
as in BOHB (Falkner et al. 2018, arXiv:1807.01774, where the largest budget with enough observations is modelled).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ablate.execute.search.result import JobOutcome, Result

ENOUGH = 10
"""So many blocks at a rung are enough to go by; where no rung has them, the one with the most is gone by."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """What became of a job, by its number."""

    job: int
    came: JobOutcome


Standing: TypeAlias = Mapping[str, Mapping[int, Arrival]]
"""What became of every block, by its mark, at each level it was trained to, lowest first."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a result comes from: a derivation, its block's mark, and how many jobs were before it was proposed."""

    index: int
    mark: str
    before: int


def history(origins: Iterable[Origin], standing: Standing) -> list[Result]:
    """The results of derivations, one for each; those whose block has none are left out.

    They are in the order in which jobs brought them, so that what is new is added at the end, and samplers that tell
    generations apart by their place find the same ones again.
    """
    known = [one for one in origins if one.mark in standing]
    level = told_level({one.mark: standing[one.mark] for one in known})
    arrivals = [_arrival(standing[one.mark], level) for one in known]
    found = [
        (max(one.before, arrival.job), Result(one.index, arrival.came.outcome, arrival.came.values))
        for one, arrival in zip(known, arrivals, strict=True)
    ]
    return [result for _, result in sorted(found, key=lambda pair: pair[0])]


def told_level(standing: Standing) -> int | None:
    """The highest level that enough blocks have values at, else that with the most; None where none has any."""
    reached = Counter(level for levels in standing.values() for level, one in levels.items() if one.came.values)
    return max(reached, key=lambda level: (min(reached[level], ENOUGH), level), default=None)


def _arrival(levels: Mapping[int, Arrival], level: int | None) -> Arrival:
    """That a block diverged, wherever it did; else what it came to at that level; else only how it ended."""
    last = levels[max(levels)]
    if last.came.outcome == "diverged":
        return last
    if level is not None and level in levels and levels[level].came.values:
        return levels[level]
    return Arrival(last.job, JobOutcome(last.came.outcome))
