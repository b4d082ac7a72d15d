"""The process of a rank other than 0: `main`, with its parent in `sys.argv` and its task on standard input.

When it ends it writes its final message to standard output: the outcome of the trial if this rank failed, None if it
did not, because the trial ended on all ranks or another rank was lost.
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
"""Bytes of the final message: of a trace, and of any other text. A pipe buffers 2**16 unread bytes."""


def main() -> None:
    """Follow rank 0, and report how it ended."""
    follow_parent(int(sys.argv[1]))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # rank 0 saves the trial when the machine is being reclaimed
    # Other code that prints must not be mistaken for the final message.
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as words:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        wrong = _carry_out()
        pickle.dump(wrong and _short(wrong), words)
    sys.stderr.flush()
    os._exit(1 if wrong else 0)  # and never by leaving the group: see `rank_processes`


def _short(outcome: Outcome) -> Outcome:
    """Shorten an outcome to the end of its trace and the beginnings of other long texts: rank 0 reads only after this
    process has ended, so the message has to fit into the pipe."""
    detail = dict(outcome.detail)
    for name, text in detail.items():
        if isinstance(text, str):
            encoded = text.encode(errors="replace")
            kept = encoded[-LONGEST_TRACE:] if name == "trace" else encoded[:LONGEST_TEXT]
            detail[name] = kept.decode(errors="ignore")
    return replace(outcome, detail=detail)


def _carry_out() -> Outcome | None:
    """Return the outcome if this rank failed, else None."""
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
    except (Exception, SystemExit) as error:  # noqa: BLE001  reported to rank 0, which makes it the trial's outcome
        return ending_of(error, step)
    return None
