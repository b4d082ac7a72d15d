"""The process of a rank but 0: `main`, with its parent in `sys.argv`, told what to do on its standard input.

Its last words, on its standard output, are the outcome of the trial where it went wrong, and None where it did not:
where the trial ended on all ranks, or another one was lost.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from ablate.execute.lifeline import follow_parent

if TYPE_CHECKING:
    from ablate.train.events import Outcome

LONGEST_TRACE, LONGEST_TEXT = 2**15, 2**12
"""Bytes of its last words: of a trace, and of any other text. A pipe holds 2**16 that nobody has read."""


def main() -> None:
    """Do what rank 0 says, and say how it ended."""
    follow_parent(int(sys.argv[1]))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # rank 0 saves the trial when the machine is wanted back
    # What anything else prints is not to be taken for last words.
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as words:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        wrong = _carry_out()
        pickle.dump(wrong and _short(wrong), words)
    sys.stderr.flush()
    os._exit(1 if wrong else 0)  # and never by leaving the group: see `rank_processes`


def _short(outcome: Outcome) -> Outcome:
    """The outcome with a trace's end and the beginnings of other long texts: rank 0 listens once this process has
    ended, so what it says has to fit into the pipe."""
    detail = dict(outcome.detail)
    for name, text in detail.items():
        if isinstance(text, str):
            said = text.encode(errors="replace")
            kept = said[-LONGEST_TRACE:] if name == "trace" else said[:LONGEST_TEXT]
            detail[name] = kept.decode(errors="ignore")
    return replace(outcome, detail=detail)


def _carry_out() -> Outcome | None:
    """The outcome where this rank went wrong."""
    from ablate.execute.ending import ending_of
    from ablate.execute.rank_processes import follow
    from ablate.train.data_parallel import RankLost
    from ablate.train.events import Outcome

    step = 0
    try:
        for event in follow(*pickle.load(sys.stdin.buffer)):
            step = max(step, event.step)
            if isinstance(event, Outcome) and event.kind == "out_of_memory":
                return event
    except RankLost:
        return None
    except (Exception, SystemExit) as error:  # noqa: BLE001  it is said to rank 0, whose outcome it is
        return ending_of(error, step)
    return None
