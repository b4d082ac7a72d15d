"""A session with a space: planned, run, resumed. It ties the rooms above it together and computes nothing itself.

    planning.py          the plan of a space, with what the results folder knows of it
    stages.py            the plans of a space, and what is trained stage by stage: times, tuned settings, added seeds
    forecasting.py       the models of a space before a single step
    running.py           planned, rehearsed, trained stage by stage or as a search, judged, shown, mirrored
    mirroring.py         trials sent to MLflow while others train
    run_result.py        the result of a run, as values, tables (verdicts, trials, curves) and texts
    accounts.py          the earlier judgements of each comparison in a folder, and how it is judged now by these
    judging.py           the verdicts of a plan, stored with it; a check of what is stored, and how two documents differ
    reporting.py         the page of a space: gathered from its results, and written; a folder sent to MLflow by itself
    earlier_runs.py      what was asked, as a results folder stores it: spaces, plugins, texts; runs resumed, trials
                         trained again, with their original options
    bundling.py          results that travel: a plan as one file, and such a file read beside others
    verifying.py         results checked: seals, plan and verdicts made anew, a search carried out again, trials trained
                         again and compared bit by bit

Tables of runs that were trained elsewhere:

    table_columns.py     which columns name runs, are judged and count steps; cells as names, seeds and numbers
    table_runs.py        tables in other shapes, and their rows as runs, with their final numbers
    table_experiment.py  the experiment that a table is read as: comparisons, noise, strata, and every mistake in it
    table_judging.py     a table, judged as a space is, and stored in a results folder

Nothing imported here loads DuckDB, SciPy, rich or torch: import `running.run` and `reporting.report` where they are
needed.
"""

from ablate.session.earlier_runs import Resumable, Retriable, resumable, retriable
from ablate.session.planning import RESULTS, PathLike, Planned, check, plan_space
from ablate.session.run_result import Run

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
]
