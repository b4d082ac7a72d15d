"""The MLflow mirror: an experiment for the current plan of each space, a run for each of its ended trials.

    pages.py       what should be shown: a page for each space, its runs and their numbers, from the DuckDB file
    answers.py     the results of each variant: means, differences, verdicts
    texts.py       names, colours, texts and descriptions that MLflow accepts
    views.py       saved views of the runs page
    connection.py  MLflow itself, imported late, quiet, with short timeouts; the results folder's own store
    experiment.py  one experiment brought up to date
    experiment_runs.py  the runs of anybody's experiment, read as a table

Only `mirror.py`, `ui.py` and `session.mirroring` use it. Decisions and their reasons:

- *A divergence is a result*: its run is FINISHED in MLflow, and easy to find by its name (`op seed 1 diverged`), its
  tag `status` and the metric `diverged`, whose mean over a group is the share of seeds that diverged. MLflow's red
  FAILED is kept for trials without a result: bug, out_of_memory, timeout, lost.
- *Means must be those of the verdicts*: numbers that MLflow averages over a group exist in finished trials alone, and
  what is compared as a ratio needs a geometric mean. So each run of a variant has the variant's own numbers, whose
  average is the number itself (`mean.…`, `difference.…`). A curve is shown up to its last step, so `eval_loss` is the
  curve, and `final_eval_loss` what is judged.
- *Verdicts name the group*: MLflow's groups show numbers and no text except the tag that they are grouped by.
- *Per-layer series stay in DuckDB*: hundreds of series in a run are more than MLflow's pages can handle. Their extreme
  over all parts at each step is shown (`max.kurtosis`).
- *Nothing is remembered that can be queried*: each run carries a digest of what it shows, and an experiment is compared
  with that, run by run. `mlflow.jsonl` only saves the query where nothing is new, so it may be lost. A process killed
  half-way leaves a run that is still RUNNING, which the next one removes.
- *What a person deletes by hand stays deleted* until its trial changes. What the mirror itself removes is deleted in
  MLflow's own way, so a space that returns to an earlier plan gets its old runs back, with their ids.
- *A tracking server may be shared*: runs sent from another results folder are never touched, and a run that is
  already there is not sent again.
"""
