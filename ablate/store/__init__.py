"""The results folder: journal, checkpoints, DuckDB file, MLflow mirror. It never interprets a number.

Only the driver process writes, and one driver at a time. The source of truth is append-only text and sealed Parquet;
the DuckDB file and the MLflow store are projections, which can be deleted and are rebuilt. In a results folder:

    lock                       held by the driver while it writes; names its holder
    runs.jsonl                 the requested runs, with copies in plans.jsonl
    plans.jsonl                what was requested: every plan, and every trial's specification once
    outcomes.jsonl             how each trial ended, one line each: the index of known trials
    paces.jsonl                seconds per step, measured once where a wall-clock budget needs them
    verdicts.jsonl             the verdicts, a line for each time a space was judged
    questions.jsonl            each time a question was judged, at which seeds and level; copies in verdicts.jsonl
    journal/<trial>.jsonl      the segment of a trial that has not ended: its rows as they come
    checkpoints/<trial>.<step>.pt   where that trial can continue from
    trials/<trial>.parquet     the rows of a trial that has ended, and a copy of its outcome
    ablate.duckdb              the tables of `tables.sql` and the views of `views.sql`
    mlflow.db, mlflow.jsonl    the mirror, and what has been sent to it
    damaged/*                  damaged files that were moved out of the way; none is deleted

    durable.py      files that are complete or absent
    lock.py         one driver at a time
    claim.py        who trains a trial: the lock of its worker
    checksummed_lines.py        text lines with a checksum
    records.py      the types of those lines, and lines of other versions
    requests.py     the requested runs, each kept twice
    open_trial.py      a trial while it runs
    sealed.py       a trial that has ended
    ending.py       how it ended
    checkpoints.py  where it continues from
    ledger.py       plans and outcomes
    trial_ends.py         how trials ended and with which numbers, read without a lock
    trial_status.py     the status of every trial of every space
    trial_rows.py       a trial's numbers up to a step
    verdicts.py     the verdicts of a space
    questions.py    the judgements of questions over time
    serialise.py     a trial and a plan as JSON
    versions.py     the versions it ran with
    results.py      `Results`: the only writer
    tables.sql      the tables of the DuckDB file, with their comments
    views.sql       its views
    summaries.sql   how the table of summaries is filled
    repair/         repair of a folder: what `ablate doctor` does, and what a run needs before it writes
    schema.py       the tables as `tables.sql` declares them: DDL, Arrow, the order of a row
    comments.py     comments of views, from the columns they pass on
    pending_rows.py      what the journal has and a database lacks so far
    loading.py      loads that into its tables
    projection.py   the DuckDB file
    query.py        SQL over it, also while a run is writing
    cookbook.py     the ready-made queries, by name
    cookbook.sql    their SQL
    kept_forecasts.py   what was forecast of the variants of a kept plan
    trial_duration.py         how long trials took
    pages.py        what the page of a space reads: curves, layers, gains, endings
    differences.py  paired differences from a baseline over training
    step_times.py        seconds per training step, measured once
    noise.py        what is known of noise: pairs of any space that differ in block, seed or salt alone
    mirror.py       MLflow, as the rest of the program sees it
    mlflow/         the MLflow mirror
    ui.py           MLflow's own pages over it, on this machine alone
    table_files.py  tables of runs that were trained elsewhere, read and never written

2026-11-21. The DuckDB file is never opened for writing in place: a copy is changed and renamed over it. DuckDB locks
every other process, readers included, out of a file that one process writes, and a reader locks the writer out; with a
rename neither ever waits, a reader keeps the file it has opened, and a killed driver leaves the old one.
"""
