"""Verbs that look after a folder of results: how it stands, whether it is whole, and MLflow's pages over it."""

from __future__ import annotations

import typer

from ablate.cli.console import show
from ablate.cli.options import RESULTS, Json, ResultsFolder


def status(results: ResultsFolder = RESULTS, json: Json = False) -> None:
    """Say what runs, what waits, what has ended, and whose worker has died; also while a run is writing."""
    from ablate.report import standing
    from ablate.store.standing import standings

    found = standings(results)
    if json:
        typer.echo(standing.as_json(found))
    else:
        show(standing.screen(found, results))
