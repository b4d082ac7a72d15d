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

    durable.py           files that are complete or absent, lines with a checksum, and the lock of the only driver
    claim.py             who trains a trial: the lock of its worker
    files.py             the files that own the results, and their witness
    documents.py         the JSON that a folder keeps: keys and types, and trials and plans written as it
    records.py           what is read from it: plans, requested runs, judgements and judged tables
    journal.py           a trial while it runs: its rows as they come, and where it continues from
    sealed.py            a trial that has ended
    snapshot.py          a folder as it is at one moment, and what is lost of it; the status of every trial of every
                         space; folders of earlier versions
    predictions.py       forecasts and claims of plans, and whether a claim was there before its results
    machines.py          the versions that trials ran with, and which of them must be the same; what each machine
                         computes; seconds per training step
    bundle.py            a plan with its results as one file, and the chain of hashes of its records
    results.py           `Results`: the only writer
    tables.sql           the tables of the DuckDB file, with their comments
    views.sql            its views
    summaries.sql        how the table of summaries is filled
    schema.py            the tables as `tables.sql` declares them: DDL, rows to insert, comments of views
    pending_rows.py      what a database lacks of a snapshot
    projection.py        the DuckDB file, and what is loaded into it
    query.py             SQL over it, also while a run is writing; the ready-made queries, by name
    cookbook.sql         their SQL
    measurements.py      the numbers of trials: of ended ones, of one up to a step, how long they took; their noise
    pages.py             the readings of a space's page: curves, differences, layers, gains, endings
    faults.py            what is wrong with the files of a folder and with the DuckDB file, and the cure of each fault
    repair.py            all of that repaired: what `ablate doctor` does, and what a run needs before it writes
    mirror.py            the results in MLflow, as the rest of the program sees it, and MLflow's own pages over it
    mlflow_pages.py      pages of MLflow, read from the results: a page for each space, its numbers, saved views
    mlflow_texts.py      the runs and variants of a page, their texts as MLflow accepts them, and the answers they show
    mlflow_client.py     the connection to MLflow, and one experiment brought up to date
    foreign_tables.py    tables of runs that were trained elsewhere, read and never written

The DuckDB file is never opened for writing in place: a copy is changed and renamed over it. DuckDB locks every
other process out of a file that one process writes, and a reader locks the writer out; with a rename neither waits, a
reader keeps the file it has opened, and a killed driver leaves the old one.
"""
