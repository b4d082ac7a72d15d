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
    judging_table.py     the verdicts of a table of runs that were trained elsewhere
    table_question.py    which columns of a table name runs and are judged
    table_checks.py      whether it has what is asked of it
    table_noise.py       the noise that its single runs are judged by
    table_cells.py       its cells as names, seeds and numbers
    table_shapes.py      names of runs taken apart; runs beside, and metrics below one another
    table_states.py      which of its runs diverged or have not finished
    table_strata.py      strata such as games, each on its own scale
    tracked_runs.py      runs of MLflow and Optuna as tables
    table_groups.py      which of its variants are not told apart, and which may be the best
    table_steps.py       the steps of its runs, and which of them is judged
    table_runs.py        its rows as runs: steps, replicates, final numbers
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
