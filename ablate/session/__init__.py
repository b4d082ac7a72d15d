"""A session with a space: planned, run, resumed. It ties the rooms above it together and computes nothing itself.

    planning.py          the plan of a space, with what the results folder knows of it
    stages.py            the plans of a space, and what is trained stage by stage: tuned settings, added seeds
    step_time.py         seconds per step of models that are to get the same wall-clock time
    bundling.py          results that travel: a plan as one file, and such a file read beside others
    verifying.py         results checked: seals, plan and verdicts made anew
    search_replay.py     a search carried out again on its own results, and compared
    retraining.py        trials trained again, and compared bit by bit
    checks.py            one check, its answer, and how two documents differ
    exporting.py         a results folder sent to MLflow by itself
    kept_question.py     what was asked, as a results folder keeps it: spaces, plugins, texts, the pages of plans
    running.py           planned, rehearsed, trained, judged, shown, mirrored, under one lock
    staged_run.py        a run of a plan, stage by stage
    search_run.py        a run of a search, and what it has found as one record
    run_result.py        the result of a run
    dataframes.py        a result as tables: verdicts, trials, curves
    asked_before.py      the judgements of each comparison that a folder keeps
    accounts.py          how each comparison of a plan is judged now, by these
    judging.py           the verdicts of a plan, stored with it
    tables/              the verdicts of tables of runs that were trained elsewhere
    reporting.py         the page of a space: gathered from its results, and written
    forecasting.py       the models of a space before a single step
    mirroring.py         trials sent to MLflow while others train
    resuming.py          unfinished runs resumed, failed trials trained again, with their original options

Nothing imported here loads DuckDB, SciPy, rich or torch: import `running.run` and `reporting.report` where they are
needed.
"""

from ablate.session.planning import RESULTS, PathLike, Planned, check, plan_space
from ablate.session.resuming import Resumable, Retriable, resumable, retriable
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
