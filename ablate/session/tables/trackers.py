"""Runs of trackers by name: `mlflow:EXPERIMENT` and `optuna:STUDY`, read as a table where they are."""

from __future__ import annotations

from ablate.errors import InputError
from ablate.store.table_files import Table

MLFLOW, OPTUNA = "mlflow:", "optuna:"


def is_tracked(name: str) -> bool:
    """Return whether a name is that of runs of a tracker."""
    return name.startswith((MLFLOW, OPTUNA))


def read_tracked(name: str, uri: str | None) -> Table:
    """Read the runs of a tracker; `uri` is its server, database or folder.

    Raises InputError for one that cannot be read, and for an experiment or study that it does not have.
    """
    kind, _, what = name.partition(":")
    if uri is None:
        way = f"--uri is a server, http://…, or a database, such as sqlite:///{kind}.db"
        raise InputError(f"{name}: where is it?\n  = {way}")
    if name.startswith(MLFLOW):
        from ablate.store.mlflow.experiment_runs import read_experiment

        return read_experiment(name, what, uri)
    from ablate.execute.search.study_trials import read_study

    return read_study(name, what, uri)
