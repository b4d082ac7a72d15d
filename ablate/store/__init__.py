"""The results folder: files that own the results, cached in DuckDB and MLflow. It never interprets a number.

Only the driver process writes, and one driver at a time. What is kept is immutable: a file is written whole and named
by its content, or by the trial whose results it is. All else can be deleted and is made again. In a results folder:

    trials/<trial>.parquet     a trial that has ended: its rows, how it ended, and everything that they depend on
    plans/*.json               what was requested: each plan, with the specification of every trial
    runs/*.json                how it was requested
    verdicts/*.json            each judgement: verdicts, the trials they are from, how often the questions were asked
    paces/*.json               seconds per step, measured once where a wall-clock budget needs them
    sources/*                  the files that decided what was trained
    witness.jsonl              a line for each of these files: name, size, digest
    journal/<trial>.jsonl      the segment of a trial that has not ended: its rows as they come
    checkpoints/<trial>.<step>.pt   where that trial can continue from
    ablate.duckdb              the tables of `tables.sql` and the views of `views.sql`: a cache
    mlflow.db, mlflow.jsonl    the mirror, and what has been sent to it: a cache
    lock                       held by the driver while it writes; names its holder
    damaged/*                  damaged files that were moved out of the way; none is deleted
    earlier/*                  the lines of an earlier version, once they are converted

    durable.py      files that are complete or absent
    lock.py         one driver at a time
    claim.py        who trains a trial: the lock of its worker
    checksummed_lines.py        text lines with a checksum
    files.py        the files that own the results, and their witness
    documents.py    the JSON that a folder keeps: keys and types
    serialise.py    a trial and a plan as JSON
    plans.py        the plans that a folder keeps
    requests.py     the requested runs
    judgements.py   verdicts, and how often questions were judged
    kept_design.py  the comparisons of a kept plan, and what their contrasts are made of
    step_times.py   seconds per training step
    open_trial.py   a trial while it runs
    sealed.py       a trial that has ended
    checkpoints.py  where it continues from
    record_chain.py the records of a plan as a chain of hashes
    bundle.py       a plan with its results as one file
    earlier.py      folders of earlier versions
    snapshot.py     a folder as it is at one moment, and what is lost of it
    results.py      `Results`: the only writer
    versions.py     the versions a trial ran with, and which of them must be the same
    machines.py     what each machine computes, remembered for planning
    tables.sql      the tables of the DuckDB file, with their comments
    views.sql       its views
    summaries.sql   how the table of summaries is filled
    schema.py       the tables as `tables.sql` declares them: DDL, rows to insert, comments of views
    pending_rows.py      what a database lacks of a snapshot
    projection.py   the DuckDB file, and what is loaded into it
    query.py        SQL over it, also while a run is writing
    cookbook.py     the ready-made queries, by name
    cookbook.sql    their SQL
    trial_numbers.py  the numbers of trials: of ended ones, of one up to a step, how long they took
    trial_status.py     the status of every trial of every space
    kept_tables.py      the judged tables that a folder keeps
    kept_forecasts.py   what was forecast of the variants of a kept plan
    pages.py        the readings of a space's page: curves, differences, layers, gains, endings
    stamps.py       when each claim was first kept, and whether its results were there before
    noise.py        what is known of noise: pairs of any space that differ in block, seed or salt alone
    repair/         repair of a folder: what `ablate doctor` does, and what a run needs before it writes
    mirror.py       MLflow, as the rest of the program sees it, and what has been sent to it
    mlflow/         the MLflow mirror
    ui.py           MLflow's own pages over it, on this machine alone
    table_files.py  tables of runs that were trained elsewhere, read and never written
    run_logs.py     logs of trainers, and folders of them, as such tables
    run_tables.py   runs of trackers as such tables

2026-11-21. The DuckDB file is never opened for writing in place: a copy is changed and renamed over it. DuckDB locks
every other process, readers included, out of a file that one process writes, and a reader locks the writer out; with a
rename neither ever waits, a reader keeps the file it has opened, and a killed driver leaves the old one.
"""
