"""Rungs: where the blocks of a search are compared on the way, and which of them go on.

ASHA (Li et al. 2020, A system for massively parallel hyperparameter tuning, arXiv:1810.05934, Algorithm 2): no rung
waits until it is full; a block goes on once it is among the best 1/factor of what has come to its rung. Hyperband (Li
et al. 2018, Hyperband: a novel bandit-based approach to hyperparameter optimization, JMLR 18): there is no telling how
early is too early, so brackets begin at the first rung, the second, ..., and the last one trains to the end at once;
blocks are compared within their bracket, and begin in the brackets in turn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ablate.errors import InputError
from ablate.execute.search.ranking import ranked
from ablate.execute.search.result import JobOutcome, told
from ablate.space.design import Goal, Pruner
from ablate.space.search import misplaced, rung_steps


@dataclass(frozen=True, slots=True)
class Ladder:
    """Steps at which blocks are compared, rising, all below the end; without any, every block is trained to the end.

    Levels count them: level i is rung i, and level `end` the end. The best `1/factor` go on from each rung. `brackets`
    begin at levels 0, 1, ...
    """

    steps: int
    rungs: tuple[int, ...] = ()
    factor: int = 2
    brackets: int = 1

    @property
    def end(self) -> int:
        """The level of the end."""
        return len(self.rungs)

    def rung(self, level: int) -> int | None:
        """The step of a level; None for the end."""
        return self.rungs[level] if level < self.end else None

    def step(self, level: int) -> int:
        """The step of a level, the end's being the number of steps."""
        return self.rungs[level] if level < self.end else self.steps

    def done(self, level: int | None) -> int:
        """Steps done by a trial that is at a level (None: not begun). A rung is measured at the top of its step, and
        the trial pauses behind it."""
        return 0 if level is None else min(self.step(level) + 1, self.steps)

    def begins(self, block: int) -> int:
        """The level that block number `block`, from 0 and without the reference, is trained to first."""
        return block % self.brackets


def ladder_of(pruner: Pruner, steps: int, evaluate_every: int) -> Ladder:
    """The rungs of a recipe of so many steps, as `rung_steps` has them; InputError where they do not fit."""
    wrong = misplaced(pruner.rungs, steps, evaluate_every)
    if wrong is not None:
        raise InputError("\n  = ".join(wrong))
    rungs = rung_steps(pruner.rungs, steps, evaluate_every)
    brackets = len(rungs) + 1 if pruner.kind == "hyperband" else 1
    return Ladder(steps, rungs, pruner.rungs.factor, brackets)


def let_on(arrived: Sequence[JobOutcome], factor: int, goals: Sequence[Goal]) -> list[int]:
    """Of what has come to a rung, the places of the best floor(n / factor) by their values there, best first.

    Those that diverged on the way are among the n, as the worst, and never go on. What ended otherwise is not of them.
    Those with a value that is infinite or NaN come after the others.
    """
    losses = told(arrived, goals)
    n = sum(came.outcome in ("paused", "diverged") for came in arrived)
    paused = [(i, loss) for i, loss in enumerate(losses) if loss is not None and arrived[i].outcome == "paused"]
    places = [paused[place][0] for place in ranked([loss for _, loss in paused])]
    return sorted(places, key=lambda i: not all(map(math.isfinite, arrived[i].values)))[: n // factor]
