"""What follows from each way a trial can end.

    finished       a result; never run again
    diverged       a result; never run again
    bug            would happen again, so it is run again only on request (`ablate retry`); its whole trace is in its
                   row, and the sweep continues
    timeout        not retried under the same limit; a later run with a longer one, or none, trains it from the start
    out_of_memory  retried at once, see `after_lack`: if it shared a GPU, unchanged and alone on the largest; then from
                   its beginning with each batch in 2, 4, … microbatches (gradient accumulation), which is the same
                   batch but not the same bits. If a part is down to one sequence, or memory ran out in something that
                   is not split (UNCUT), the outcome is final for this run; the next run, perhaps on another machine,
                   tries again. The attempts are in the outcome (LACKED), the number of parts that succeeded in the
                   versions and the outcome (`parts`)
    interrupted    not an end: asked to stop, or its worker or node was lost or preempted. It resumes from its
                   checkpoint, in this run unless that was asked to stop
    lost           its worker died, and then DEATHS_ALLOWED more without any progress: because of the trial, or for an
                   external reason, which cannot be told apart. The next run tries it again; a search is told nothing
                   about it, and waits for that

If the environment is at fault (REFUSED: no disk, no corpus, another driver's worker), the whole run stops with that
message.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ablate.train.events import Outcome, OutcomeKind

FAILED: tuple[OutcomeKind, ...] = ("bug", "out_of_memory", "timeout", "lost")
"""Outcomes without a result: the command line ends with exit code 1 if a plan has one."""

WORKERS = "workers"
"""In the detail of a lost trial: how many workers it has cost."""

REFUSED = "refused"
"""In the detail of an interrupted trial: the message for the user, if the environment was at fault."""

LACKED = "out_of_memory"
"""In the detail of an outcome: in how many parts each batch was when memory ran out, for every time it did."""

SHARE = "share"
"""In the detail of an outcome: the trial's share of a GPU, relative to the largest; absent if it had all of it."""

UNTOUCHED = "untouched"
"""In the detail of an interrupted trial: its worker died before the trial had begun in it, so this death does not count
against the trial."""

UNCUT = "uncut"
"""In the detail of a trial that ran out of memory: the operation that ran out, which always takes the whole batch,
however the batch is split for training."""

DEATHS_ALLOWED = 2
"""The deaths of workers in a row, without a new checkpoint between them, that are tolerated."""

STARTS_ALLOWED = 8
"""The failed starts of workers in a row that are tolerated while no worker is running; then the run stops."""

GRACE = 5.0
"""Seconds that a trial has after its limit to end by itself; then its worker is killed."""

STOP_WITHIN = 20.0
"""Seconds that trials have to save their state when a run is asked to stop; then their workers are killed. Schedulers
kill a job some 30 seconds after they have asked it to end."""


NO_STEP = "asked to stop before it had done a step"
"""The reason of an interrupted trial that had nothing to save."""


def did_not_stop(worker: str, within: float) -> str:
    """Return the reason of an interrupted trial whose worker was killed since it did not stop in time."""
    then = "its trial goes on from its last checkpoint, if any"
    return f"{worker} did not stop within {within:g} s and was killed; {then}"


def is_settled(outcome: Outcome, limit: float | None = None) -> bool:
    """Return whether a trial with this outcome is not run again by a run that gives each trial `limit` seconds."""
    match outcome.kind:
        case "finished" | "diverged" | "bug":
            return True
        case "timeout":
            return limit is not None and limit <= outcome.detail.get("limit", 0.0)
        case _:
            return False


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt at a trial: each batch in `parts`, `alone` on its GPU or not, and the number of parts of each earlier
    attempt that ran out of memory (`lacked`)."""

    parts: int = 1
    alone: bool = False
    lacked: tuple[int, ...] = ()

    @staticmethod
    def going_on(parts: int) -> Attempt:
        """Return the attempt of a trial that resumes from a checkpoint made with `parts` parts."""
        return Attempt(parts, parts > 1, tuple(_halves(parts)))


def after_lack(attempt: Attempt, *, most: int, share: float) -> Attempt | None:
    """Return the next attempt after a trial ran out of memory on `share` of a GPU; None if nothing is left to try.

    A part has at least one sequence, so there are at most `most` parts. A trial that shared its GPU, or had a small
    one, is first tried unchanged and alone on the largest: its need was only predicted, and other parts would give
    other bits. From then on it is alone.
    """
    lacked = (*attempt.lacked, attempt.parts)
    if share < 1 and not attempt.alone:
        return replace(attempt, alone=True, lacked=lacked)
    if attempt.parts >= most:
        return None
    return Attempt(min(2 * attempt.parts, most), True, lacked)


def _halves(parts: int) -> Iterator[int]:
    """Yield 1, 2, 4, … below `parts`."""
    tried = 1
    while tried < parts:
        yield tried
        tried *= 2
