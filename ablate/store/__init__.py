"""What is written down: the journal, checkpoints, the DuckDB file, the MLflow mirror. It never interprets a number.

Only the driver process writes, and one driver at a time. Everything true is in append-only text and sealed Parquet;
the DuckDB file and the MLflow store are projections, which can be deleted and are filled again. In a results folder:

    lock                       held by the driver while it writes; says who it is
    plans.jsonl                what was asked: every plan, and every trial's specification once
    outcomes.jsonl             how each trial ended, one line each: the index that answers "is it known?"
    journal/<trial>.jsonl      the segment of a trial that has not ended: its rows as they come
    checkpoints/<trial>.<step>.pt   where that trial can go on from
    trials/<trial>.parquet     the rows of a trial that has ended, and its outcome once more
    ablate.duckdb              the tables and views of `tables.sql` and `views.sql`
    mlflow.db, mlflow.jsonl    the mirror, and what has been sent to it

    durable.py     files that are wholly there or not at all
    lock.py        one driver at a time
    lines.py       text lines with a checksum
    segment.py     a trial while it runs
    sealed.py      a trial that has ended
    ending.py      how it ended
    checkpoints.py where it goes on from
    ledger.py      plans and outcomes
    describe.py    a trial and a plan as JSON
    versions.py    what it ran with
    results.py     `Results`: the one that writes
    recovery.py    after a driver that did not end well; going on with a trial
    changes.py     what the journal says and a database does not know yet
    pace.py        how long trials took
    projection.py  the DuckDB file
    query.py       SQL over it, also while a run is writing
    mirror.py      MLflow

2026-11-21. The DuckDB file is never opened for writing in place: a copy is changed and put in its place by one rename.
DuckDB locks every other process out of a file that one process writes, readers too, and a reader locks the writer out;
with a rename neither ever waits, a reader keeps the file it has opened, and a driver that is killed leaves the old one.
"""
