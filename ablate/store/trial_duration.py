"""How long trials took: the basis of an estimate of the time left before anything runs."""

from __future__ import annotations

from pathlib import Path

from ablate.errors import RefusedError
from ablate.plan.trial import Trial
from ablate.store.projection import DATABASE, is_ours, reading

STATEMENT = """
    SELECT median(ended.seconds - began.seconds) FROM trials
    JOIN timings began ON began.trial_id = trials.trial_id AND began.name = 'began'
    JOIN timings ended ON ended.trial_id = trials.trial_id AND ended.name = 'ended'
    WHERE status = 'finished' AND steps = ? AND batch = ? AND seq_len = ? AND d_model = ? AND n_layers = ?
      AND ended.seconds > began.seconds
"""


def trial_seconds(folder: Path, like: Trial) -> float | None:
    """Return the median seconds of finished trials with the steps and sizes of `like`; None if there are none.

    As an estimate it uses the DuckDB file as it is; a folder without one gives None.
    """
    sizes = like.architecture.sizes
    values = [like.recipe.steps, like.recipe.batch, sizes.seq_len, sizes.d_model, sizes.n_layers]
    if not (folder / DATABASE).exists():
        return None
    try:
        with reading(folder / DATABASE) as connection:
            if not is_ours(connection):
                return None
            ((seconds,),) = connection.execute(STATEMENT, values).fetchall()
    except RefusedError:  # another program writes to it, or it is damaged; those who need its content report that
        return None
    return None if seconds is None else float(seconds)
