"""What is written down: the journal, checkpoints, the DuckDB file, the MLflow mirror. It never interprets a number.

Only the driver process writes, and one driver at a time. Everything true is in append-only text and sealed Parquet;
the DuckDB file and the MLflow store are projections, which can be deleted and are filled again. In a results folder:

    lock                       held by the driver while it writes; says who it is
    runs.jsonl                 what runs were asked for, each once more in plans.jsonl
    plans.jsonl                what was asked: every plan, and every trial's specification once
    outcomes.jsonl             how each trial ended, one line each: the index that answers "is it known?"
    paces.jsonl                seconds a step, measured once where a wall-clock budget needs them
    verdicts.jsonl             what was made of the numbers, a line for each time a space was judged
    questions.jsonl            each time a question was judged, at which seeds and level; once more in verdicts.jsonl
    journal/<trial>.jsonl      the segment of a trial that has not ended: its rows as they come
    checkpoints/<trial>.<step>.pt   where that trial can go on from
    trials/<trial>.parquet     the rows of a trial that has ended, and its outcome once more
    ablate.duckdb              the tables of `tables.sql` and the views of `views.sql`
    mlflow.db, mlflow.jsonl    the mirror, and what has been sent to it
    damaged/*                  what was found damaged and taken out of the way; nothing of it is deleted

    durable.py      files that are wholly there or not at all
    lock.py         one driver at a time
    claim.py        who trains a trial: the lock of its worker
    checksummed_lines.py        text lines with a checksum
    records.py      what those lines say, as types; what another version has written
    requests.py     what runs were asked for, each kept twice
    open_trial.py      a trial while it runs
    sealed.py       a trial that has ended
    ending.py       how it ended
    checkpoints.py  where it goes on from
    ledger.py       plans and outcomes
    trial_ends.py         how trials ended and with which numbers, read without a lock
    trial_status.py     how every trial of every space stands now
    trial_rows.py       what a trial's numbers came to up to a step
    verdicts.py     what a space was judged to be
    questions.py    how questions were judged over time
    serialise.py     a trial and a plan as JSON
    versions.py     what it ran with
    results.py      `Results`: the one that writes
    tables.sql      the tables of the DuckDB file, with their comments
    views.sql       its views
    summaries.sql   how the table of summaries is filled
    repair/         a folder put right: what `ablate doctor` does, and what a run needs before it writes
    schema.py       the tables as `tables.sql` declares them: DDL, Arrow, the order of a row
    comments.py     comments of views, from the columns they pass on
    pending_rows.py      what the journal says and a database does not know yet
    loading.py      that put into its tables
    projection.py   the DuckDB file
    query.py        SQL over it, also while a run is writing
    cookbook.py     the ready queries, by name
    cookbook.sql    what people ask
    trial_duration.py         how long trials took
    pages.py        what the page of a space reads: curves, layers, gains, endings
    differences.py  paired differences from a baseline over training
    step_times.py        how long a training step takes, as it was measured once
    noise.py        what is known of noise: pairs of any space that differ in block, seed or salt alone
    mirror.py       MLflow, as the rest of the program sees it
    mlflow/         the MLflow mirror
    ui.py           MLflow's own pages over it, on this machine alone
    table_files.py  tables of runs that were trained elsewhere, read and never written

2026-11-21. The DuckDB file is never opened for writing in place: a copy is changed and put in its place by one rename.
DuckDB locks every other process out of a file that one process writes, readers too, and a reader locks the writer out;
with a rename neither ever waits, a reader keeps the file it has opened, and a driver that is killed leaves the old one.
"""
