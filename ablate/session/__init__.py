"""A session with a space: planned, run, resumed. It ties the rooms above it together and computes nothing itself.

    planning.py          the plan of a space
    planned.py           a plan with what the results folder knows of it
    known_results.py     what a results folder knows about a plan
    kernels.py           which attention backends a plan will use, and why
    running.py           planned, trained, judged, shown, mirrored, under one lock: by a run of one of three kinds
    run_protocol.py      what the three kinds have in common
    fixed_run.py         a plan whose trials are known beforehand
    adaptive_run.py      a plan that depends on its own results: tuned settings, added seeds
    stages.py            what an adaptive run trains, stage by stage
    search_run.py        a search
    search_record.py     what a search has found, as one record
    run_result.py        the result of a run
    dataframes.py        a result as tables: verdicts, trials, curves
    report_texts.py      a result as texts by file name
    step_time.py         seconds per step of models that are to get the same wall-clock time
    rehearsal.py         the blocks of a plan built once, before anything is trained
    judging.py           the verdicts of a plan, stored with it
    judging_table.py     the verdicts of a table of runs that were trained elsewhere
    table_experiment.py  from such a table to an experiment
    table_metrics.py     the metrics of such a table
    reporting.py         the page of a space, from its results
    page_record.py       everything that the page shows
    forecasting.py       the models of a space before a single step
    mirroring.py         trials sent to MLflow while others train
    commit.py            the commit of the repository that a space's file is in
    resuming.py          unfinished runs, resumed with their original options
    retrying.py          failed trials, trained again

Nothing imported here loads DuckDB, SciPy, rich or torch: import `running.run` and `reporting.report` where they are
needed.
"""

from ablate.session.planned import Planned
from ablate.session.planning import RESULTS, PathLike, check, plan_space
from ablate.session.resuming import Resumable, resumable
from ablate.session.retrying import Retriable, retriable
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
