"""Rungs: the steps at which the blocks of a search are compared, and which of them are promoted.

ASHA (Li et al. 2020, A system for massively parallel hyperparameter tuning, arXiv:1810.05934, Algorithm 2): no rung
waits until it is full; a block is promoted once it is among the best 1/factor of those that have reached its rung.
Hyperband (Li et al. 2018, Hyperband: a novel bandit-based approach to hyperparameter optimization, JMLR 18): since it
is unknown how early is too early, brackets begin at the first rung, the second, ..., and the last one trains straight
to the end; blocks are compared within their bracket, and are assigned to the brackets in turn.
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
    """The steps at which blocks are compared, rising, all below the end; if empty, every block is trained to the end.

    Levels number them: level i is rung i, and level `end` the end. The best `1/factor` are promoted from each rung.
    The `brackets` begin at levels 0, 1, ...
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
        """Return the step of a level; None for the end."""
        return self.rungs[level] if level < self.end else None

    def step(self, level: int) -> int:
        """Return the step of a level; for the end, the number of steps."""
        return self.rungs[level] if level < self.end else self.steps

    def done(self, level: int | None) -> int:
        """Return the steps done by a trial that is at a level (None: not begun). A rung is measured at the start of its
        step, and the trial pauses after it."""
        return 0 if level is None else min(self.step(level) + 1, self.steps)

    def begins(self, block: int) -> int:
        """Return the first level of block number `block`, counted from 0 without the reference."""
        return block % self.brackets


def ladder_of(pruner: Pruner, steps: int, evaluate_every: int) -> Ladder:
    """Build the ladder of a recipe of `steps` steps, as `rung_steps` gives its rungs; InputError if they do not fit."""
    wrong = misplaced(pruner.rungs, steps, evaluate_every)
    if wrong is not None:
        raise InputError("\n  = ".join(wrong))
    rungs = rung_steps(pruner.rungs, steps, evaluate_every)
    brackets = len(rungs) + 1 if pruner.kind == "hyperband" else 1
    return Ladder(steps, rungs, pruner.rungs.factor, brackets)


def let_on(arrived: Sequence[JobOutcome], factor: int, goals: Sequence[Goal]) -> list[int]:
    """Return the indices of the best floor(n / factor) blocks that have reached a rung, by their values, best first.

    Blocks that diverged before it count among the n, as the worst, and are never promoted. Those that ended otherwise
    do not count. Those with an infinite or NaN value come after the others.
    """
    losses = told(arrived, goals)
    n = sum(came.outcome in ("paused", "diverged") for came in arrived)
    paused = [(i, loss) for i, loss in enumerate(losses) if loss is not None and arrived[i].outcome == "paused"]
    places = [paused[place][0] for place in ranked([loss for _, loss in paused])]
    return sorted(places, key=lambda i: not all(map(math.isfinite, arrived[i].values)))[: n // factor]
