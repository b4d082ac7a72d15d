"""A session with a space: planned, run, gone on with. It ties the rooms below together and computes nothing itself.

planning.py   what a space asks for, and what of it is known
kernels.py    which attention backends a plan will use, and why
running.py    planned, trained, judged, shown, mirrored, under one lock
answer.py     what a run is about to train, and what it comes to
dataframes.py a run as tables: verdicts, trials, curves
listed.py     a plan whose trials are known beforehand
staged.py     a plan that learns from its trials: settings that are tuned, seeds that are added
pacing.py     seconds a step of models that are to get the same wall-clock time
judging.py    the verdicts of a plan, kept with it
reporting.py  the page of a space, from its results
searching.py  a search; searched.py is what it has found, as one record
resuming.py   what was not finished, asked for again as it was asked
retrying.py   what failed, asked for again
"""

from ablate.session.answer import Run
from ablate.session.planning import PathLike, Planned, check, plan_space
from ablate.session.resuming import Resumable, resumable
from ablate.session.retrying import Retriable, retriable
from ablate.session.running import RESULTS, run

__all__ = [
    "RESULTS",
    "PathLike",
    "Planned",
    "Resumable",
    "Retriable",
    "Run",
    "check",
    "plan_space",
    "resumable",
    "retriable",
    "run",
]
