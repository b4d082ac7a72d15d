"""What became of a proposal, and how it is told to what makes proposals.

A diverged trial is a result: the block is as bad as the worst that has values, in every objective, and so is a single
objective that came out infinite or NaN. Before any has one there is no such value, and it is not told. Trials that
ended otherwise (a bug, no memory, no time) say nothing of the block and are never told as a value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ablate.space.design import Goal
from ablate.train.events import OutcomeKind

Losses: TypeAlias = tuple[float, ...]
"""A number for each objective, all to be minimised."""

VALUED: tuple[OutcomeKind, ...] = ("finished", "paused")
"""Outcomes that have values: those of the end, or of the rung."""


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """What became of a job: one value for each objective as it is written where it finished, or paused at its rung.

    `seconds` of training that this job took, summed over its trials; what an earlier job of the block took is not of
    them.
    """

    outcome: OutcomeKind
    values: tuple[float, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Result:
    """Derivation `index` came to `values`, all of them at the same rung or the end; none unless it came that far."""

    index: int
    outcome: OutcomeKind
    values: tuple[float, ...] = ()


def told(history: Sequence[Result | JobOutcome], goals: Sequence[Goal]) -> list[Losses | None]:
    """The losses that each result is told with, None for one that is not told."""
    signs = [1.0 if goal == "min" else -1.0 for goal in goals]
    rows = [_losses(result, signs) for result in history]
    worst = [max((row[i] for row in rows if row and math.isfinite(row[i])), default=None) for i in range(len(signs))]
    return [None if row is None else _filled(row, worst) for row in rows]


def _losses(result: Result | JobOutcome, signs: Sequence[float]) -> Losses | None:
    if result.outcome == "diverged":
        return (math.inf,) * len(signs)
    if result.outcome in VALUED and result.values:
        return tuple(sign * value for sign, value in zip(signs, result.values, strict=True))
    return None


def _filled(row: Losses, worst: Sequence[float | None]) -> Losses | None:
    filled = tuple(value if math.isfinite(value) else bad for value, bad in zip(row, worst, strict=True))
    return None if any(value is None for value in filled) else filled  # type: ignore[return-value]
