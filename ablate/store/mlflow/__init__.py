"""The MLflow mirror: an experiment for each space as it was last asked, a run for each ended trial of it.

    values.py      a page (one experiment) and its runs, as they are to be shown
    read.py        pages and points from the DuckDB file
    answers.py     what each variant came to: means, differences, verdicts
    naming.py      names, colours and texts that MLflow takes
    notes.py       descriptions, in Markdown
    views.py       saved views of the runs page
    connection.py  MLflow itself: imported late, quiet, patient with no server
    sync.py        one experiment brought up to date
    file.py        the results folder's own store
    faults.py      what is wrong with an experiment
    process.py     the process that sends while others train
    sent.py        `mlflow.jsonl`: what has been sent where

Outside this package only `mirror.py`, `ui.py` and `session.mirroring` know of it. Decided, and why:

- *A divergence is a result*: its run is FINISHED in MLflow, and found at once by its name (`op seed 1 diverged`), its
  tag `status` and the metric `diverged`, whose mean over a group is the share of seeds that diverged. MLflow's red
  FAILED is kept for trials without a result: bug, out_of_memory, timeout, lost.
- *Means must be those of the verdicts*: what a group of runs averages has values in finished trials alone, and what is
  compared as a ratio has a geometric mean. So each run of a variant has the variant's own numbers, of which an average
  is the number itself (`mean.…`, `difference.…`). A curve is shown for as long as it goes, so `eval_loss` is the curve,
  and `final_eval_loss` what is judged.
- *Verdicts name the group*: MLflow's groups show numbers and no texts but the tag that they are grouped by.
- *Per-layer series stay in DuckDB*: hundreds of series in a run are more than MLflow's pages bear. What is shown of
  them is their extreme over all parts at each step (`kurtosis.max`).
- *Nothing is remembered that can be asked*: each run carries a digest of what it shows, and an experiment is compared
  with that, run by run. `mlflow.jsonl` only saves the asking where nothing is new. So it may be lost, and whoever is
  killed half-way leaves a run that is still RUNNING, which the next one removes.
- *What a person deletes by hand stays deleted* until its trial changes. What the mirror itself removes is deleted the
  way MLflow does, so a space that is asked as before gets its old runs back, with their ids.
- *A tracking server may be shared*: runs that another results folder has sent are never touched, and a run that is
  there already is not sent again.
"""
