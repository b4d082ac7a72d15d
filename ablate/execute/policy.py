"""What follows from each way a trial can end.

    finished       a result; never run again
    diverged       a result; never run again
    bug            would happen again, so it is not run again until somebody asks for it (`ablate retry`); its whole
                   trace is in its row, and the sweep goes on
    timeout        not retried under the same limit; a later run with a longer one, or none, trains it from the start
    out_of_memory  retried at once, see `after_lack`: where it shared a GPU, as it was on the largest alone; then from
                   its beginning with each batch in 2, 4, … parts whose gradients are added up, which is the same batch
                   but not the same bits. Where a part is down to one sequence, or what lacked it is in no parts
                   (UNCUT), that is how it ended, and the next run, perhaps on another machine, tries it again. What
                   was tried is in the outcome (LACKED), in how many parts it came through in the versions and the
                   outcome (`parts`)
    interrupted    not an end: asked to stop, or its worker or node was lost or preempted. It goes on from its
                   checkpoint, in this run unless that was asked to stop
    lost           its worker died, and those after it, DEATHS_ALLOWED times more without having come any further: by
                   what the trial does, or by what was done to them, which nobody can tell. The next run tries it again;
                   a search is told nothing of it, and waits for that

Where the surroundings are at fault (REFUSED: no disk, no corpus, another driver's worker) the whole run stops and says
so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ablate.train.events import Outcome, OutcomeKind

FAILED: tuple[OutcomeKind, ...] = ("bug", "out_of_memory", "timeout", "lost")
"""Outcomes without a result: the command line ends with exit code 1 where a plan has one."""

WORKERS = "workers"
"""In the detail of a lost trial: how many workers it has cost."""

REFUSED = "refused"
"""In the detail of an interrupted trial: what to tell the user, because the surroundings refused."""

LACKED = "out_of_memory"
"""In the detail of an outcome: in how many parts each batch was when memory ran out, for every time it did."""

SHARE = "share"
"""In the detail of an outcome: the share of a GPU that the trial had, of the largest there is; left out where it had
all of that."""

UNTOUCHED = "untouched"
"""In the detail of an interrupted trial: its worker was gone before the trial had begun in it, so it counts as no death
of the trial's."""

UNCUT = "uncut"
"""In the detail of a trial that ran out of memory: what lacked it and is done with the whole batch, in whatever parts
the batch is for training."""

DEATHS_ALLOWED = 2
"""So many deaths of workers in a row, without a new checkpoint between them, are borne."""

STARTS_ALLOWED = 8
"""So many starts of workers in a row that fail are borne while no worker is there; then the run stops."""

GRACE = 5.0
"""Seconds that a trial has, after its limit is over, to end by itself; then its worker is killed."""


def is_settled(outcome: Outcome, limit: float | None = None) -> bool:
    """Whether a trial that ended so is not run again, by a run that gives each trial `limit` seconds."""
    match outcome.kind:
        case "finished" | "diverged" | "bug":
            return True
        case "timeout":
            return limit is not None and limit <= outcome.detail.get("limit", 0.0)
        case _:
            return False


@dataclass(frozen=True, slots=True)
class Attempt:
    """How a trial is tried: each batch in so many `parts`, `alone` on its GPU or not, and what ran out of memory before
    (`lacked`: the parts of each attempt that did)."""

    parts: int = 1
    alone: bool = False
    lacked: tuple[int, ...] = ()

    @staticmethod
    def going_on(parts: int) -> Attempt:
        """The attempt that a trial was at that goes on from a checkpoint with so many parts."""
        return Attempt(parts, parts > 1, tuple(_halves(parts)))


def after_lack(attempt: Attempt, *, most: int, share: float) -> Attempt | None:
    """What is tried after a trial ran out of memory on `share` of a GPU; None where nothing is left to be tried.

    A part is a sequence at least, so there are at most `most` of them. A trial that shared its GPU, or had a
    small one, is first tried as it was on the largest alone: its share was only predicted, and other parts would be
    other bits. From then on it is alone.
    """
    lacked = (*attempt.lacked, attempt.parts)
    if share < 1 and not attempt.alone:
        return replace(attempt, alone=True, lacked=lacked)
    if attempt.parts >= most:
        return None
    return Attempt(min(2 * attempt.parts, most), True, lacked)


def _halves(parts: int) -> Iterator[int]:
    """1, 2, 4, … below `parts`."""
    tried = 1
    while tried < parts:
        yield tried
        tried *= 2
