"""Which outcomes are the last word on a trial, and which are tried again when it is asked for again.

Finished and diverged are results. A bug would happen again, so it stays until the code or the trial changes. Lack of
memory and lost workers are the surroundings' fault: the trial is run again from where it can go on.
"""

from __future__ import annotations

from ablate.train.events import Outcome

FAILED = ("bug", "out_of_memory", "timeout")
"""Outcomes without a result: the command line ends with exit code 1 where a plan has one."""

WORKERS_LOST = "workers_lost"
"""In the detail of a bug: how many workers the trial has cost, where that is all that is known."""


def is_settled(outcome: Outcome) -> bool:
    """Whether a trial that ended so is not run again."""
    return outcome.kind in ("finished", "diverged") or (outcome.kind == "bug" and WORKERS_LOST not in outcome.detail)
