"""The runs of an MLflow experiment as a table, from a tracking server or a database; the oldest first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ablate.errors import InputError
from ablate.source.problems import quote
from ablate.store.mlflow.connection import Destination, connected
from ablate.store.run_tables import MOST, Parts, check_sqlite, tabulated
from ablate.store.table_files import Table

if TYPE_CHECKING:
    from mlflow.entities import Run

PAGE = 1_000
OLDEST_FIRST = ["attributes.start_time ASC", "attributes.run_id ASC"]


def read_experiment(name: str, experiment: str, uri: str) -> Table:
    """Read the runs of an experiment with their last metrics.

    InputError for an experiment or a database that is not there, RefusedError for a server that cannot be read.
    """
    check_sqlite(uri, "experiments", "MLflow")
    destination = Destination(Path(), uri)
    runs: list[Run] = []
    with connected(destination) as client:
        of = client.get_experiment_by_name(experiment)
        if of is None:
            known = ", ".join(each.name for each in client.search_experiments())
            message = f"{destination.shown} has no experiment {quote(experiment)}"
            raise InputError(f"{message}\n  = it has {known or 'none'}")
        token: str | None = None
        while token != "" and len(runs) <= MOST:
            page = client.search_runs([of.experiment_id], max_results=PAGE, page_token=token, order_by=OLDEST_FIRST)
            runs += page
            token = page.token or ""
    return tabulated(name, [_parts(run) for run in runs])


def _parts(run: Run) -> Parts:
    return {
        "": {"run": run.info.run_name, "run_id": run.info.run_id, "status": run.info.status},
        "params": run.data.params,
        "metrics": run.data.metrics,
        "tags": {key: value for key, value in run.data.tags.items() if not key.startswith("mlflow.")},
    }
