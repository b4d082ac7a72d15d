"""How long trials took: what an estimate of the time left can stand on before anything runs."""

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
    """Median seconds from begin to end of finished trials with the steps and sizes of `like`; None if there is none.

    It is an estimate, so the DuckDB file as it is has to do, and a folder that has none yet gives none.
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
    except RefusedError:  # another program writes to it, or it is damaged; whoever needs its content says so
        return None
    return None if seconds is None else float(seconds)
