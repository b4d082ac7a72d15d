"""How long trials took: what an estimate of the time left can stand on before anything runs."""

from __future__ import annotations

from pathlib import Path

from ablate.plan.trial import Trial
from ablate.store.query import query

STATEMENT = """
    SELECT median(ended.seconds - began.seconds) FROM trials
    JOIN timings began ON began.trial_id = trials.trial_id AND began.name = 'began'
    JOIN timings ended ON ended.trial_id = trials.trial_id AND ended.name = 'ended'
    WHERE status = 'finished' AND steps = {steps} AND batch = {batch} AND seq_len = {seq_len}
      AND CAST(json_extract(specification, '$.architecture.sizes.d_model') AS INTEGER) = {d_model}
      AND CAST(json_extract(specification, '$.architecture.sizes.n_layers') AS INTEGER) = {n_layers}
"""


def trial_seconds(folder: Path, like: Trial) -> float | None:
    """Median seconds from begin to end of finished trials with the steps and sizes of `like`; None if there is none."""
    sizes = like.architecture.sizes
    statement = STATEMENT.format(
        steps=like.recipe.steps,
        batch=like.recipe.batch,
        seq_len=sizes.seq_len,
        d_model=sizes.d_model,
        n_layers=sizes.n_layers,
    )
    ((seconds,),) = query(folder, statement).rows
    return None if seconds is None else float(seconds)
