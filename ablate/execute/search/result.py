"""The result of a proposal, and how proposers are told about it.

A diverged trial is a result: the block counts as bad as the worst block with values, in every objective, and so does a
single objective that is infinite or NaN. Before any block has values there is no such number, and the result is not
told. Trials that ended otherwise (a bug, no memory, no time) say nothing about the block and are never told as a value.
Nor is a derivation that was refused, which has no values at all; a sampler may count it as worse than any that has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ablate.space.design import Goal
from ablate.train.events import OutcomeKind

Losses: TypeAlias = tuple[float, ...]
"""A number for each objective, all to be minimised."""

VALUED: tuple[OutcomeKind, ...] = ("finished", "paused")
"""Outcomes that have values: those of the end, or of the rung."""


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """The outcome of a job: one value for each objective, in its original sign, if it finished or paused at its rung.

    `seconds` is the training time of this job, summed over its trials, without that of earlier jobs of the block.
    """

    outcome: OutcomeKind
    values: tuple[float, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Result:
    """The `values` of derivation `index`, all at the same rung or the end; empty if it did not come that far.

    One that was `refused` on the way to a proposal has never been a trial.
    """

    index: int
    outcome: OutcomeKind | Literal["refused"]
    values: tuple[float, ...] = ()


def told(history: Sequence[Result | JobOutcome], goals: Sequence[Goal]) -> list[Losses | None]:
    """Return the losses that each result is told with, None for one that is not told."""
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
