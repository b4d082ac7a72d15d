"""What follows from each way a trial can end.

    finished       a result; never run again
    diverged       a result; never run again
    bug            would happen again, so it is not retried; its whole trace is in its row, and the sweep goes on
    timeout        not retried under the same limit; a later run with a longer one, or none, trains it from the start
    out_of_memory  not retried in this run; the next run, perhaps on another machine, tries it again
    interrupted    not an end: asked to stop, or its worker or node was lost or preempted. It goes on from its
                   checkpoint, in this run unless that was asked to stop; after DEATHS_ALLOWED deaths without having
                   come any further it is a bug that has cost WORKERS_LOST workers, and only the next run tries it again

Where the surroundings are at fault (REFUSED: no disk, no corpus, another driver's worker) the whole run stops and says
so.
"""

from __future__ import annotations

from ablate.train.events import Outcome

FAILED = ("bug", "out_of_memory", "timeout")
"""Outcomes without a result: the command line ends with exit code 1 where a plan has one."""

WORKERS_LOST = "workers_lost"
"""In the detail of a bug: how many workers the trial has cost, where that is all that is known."""

REFUSED = "refused"
"""In the detail of an interrupted trial: what to tell the user, because the surroundings refused."""

DEATHS_ALLOWED = 2
"""So many deaths of workers in a row, without a new checkpoint between them, are borne."""

GRACE = 5.0
"""Seconds that a trial has, after its limit is over, to end by itself; then its worker is killed."""


def is_settled(outcome: Outcome, limit: float | None = None) -> bool:
    """Whether a trial that ended so is not run again, by a run that gives each trial `limit` seconds."""
    match outcome.kind:
        case "finished" | "diverged":
            return True
        case "bug":
            return WORKERS_LOST not in outcome.detail
        case "timeout":
            return limit is not None and limit <= outcome.detail.get("limit", 0.0)
        case _:
            return False
