"""How far the blocks of a search have come, and which of their values proposers are told.

Values at different rungs cannot be compared. Samplers are told those of one rung: the highest that ten blocks have
reached, as in BOHB (Falkner et al. 2018, arXiv:1807.01774, which models the largest budget with enough observations).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ablate.execute.search.result import JobOutcome, Result

ENOUGH = 10
"""The blocks that a rung needs for samplers to use it; if no rung has them, the one with the most is used."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """The outcome of a job, with its number."""

    job: int
    came: JobOutcome


Standing: TypeAlias = Mapping[str, Mapping[int, Arrival]]
"""The outcomes of every block, by its mark, at each level it was trained to, lowest first."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a result: a derivation, its block's mark, and the number of jobs before it was proposed."""

    index: int
    mark: str
    before: int


def history(origins: Iterable[Origin], standing: Standing, refused: Mapping[int, int] | None = None) -> list[Result]:
    """Return the results of derivations, one for each; those whose block has none are left out.

    They are in the order in which jobs produced them, so that new ones are added at the end, and samplers that divide
    them into generations by position get the same generations again. Between them are the derivations that were
    refused, each given with the number of jobs before it was met.
    """
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
    """Return the highest level at which enough blocks have values, else the one with the most; None if none has any."""
    reached = Counter(level for levels in standing.values() for level, each in levels.items() if each.came.values)
    return max(reached, key=lambda level: (min(reached[level], ENOUGH), level), default=None)


def _arrival(levels: Mapping[int, Arrival], level: int | None) -> Arrival:
    """Return a block's divergence, at any level; else its values at `level`; else only how it ended."""
    last = levels[max(levels)]
    if last.came.outcome == "diverged":
        return last
    if level is not None and level in levels and levels[level].came.values:
        return levels[level]
    return Arrival(last.job, JobOutcome(last.came.outcome))
