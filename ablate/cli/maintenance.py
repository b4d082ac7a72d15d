"""Verbs that look after a folder of results: how it stands, whether it is whole, and MLflow's pages over it."""

from __future__ import annotations

from typing import Annotated

import typer

from ablate.cli.console import note, show
from ablate.cli.options import RESULTS, Json, ResultsFolder
from ablate.output.streams import write_text


def status(results: ResultsFolder = RESULTS, json: Json = False) -> None:
    """Say what runs, what waits, what has ended, and whose worker has died; also while a run is writing."""
    from ablate.report.screens import status
    from ablate.store import lock
    from ablate.store.trial_status import not_over, plan_counts, standings

    found = standings(results)
    if json:
        write_text(status.as_json(found))
    else:
        show(status.screen(found, results, lock.holder(results), not_over(results)))
        for space, plans in plan_counts(results).items():
            if plans > 1:
                write_text(f"{space} was asked as {plans} plans; above is the last: ablate sql @plans shows the others")


def doctor(
    results: ResultsFolder = RESULTS,
    look: Annotated[
        bool, typer.Option("--look", help="Only look: change nothing; 1 if there is something to repair.")
    ] = False,
    json: Json = False,
) -> None:
    """Check every file of the results, say what is not as it was written, and put right what can be."""
    import json as form

    from ablate.report.screens import doctor as doctor_screen
    from ablate.store import mirror
    from ablate.store.repair import repair

    repaired = repair(results, dry_run=look, say=note, mirror=mirror.examine, rebuild_mirror=mirror.rebuild)
    if json:
        write_text(form.dumps(repaired.document(), indent=2))
    else:
        show(doctor_screen.screen(repaired))
    raise typer.Exit(repaired.exit_code)


def ui(
    results: ResultsFolder = RESULTS,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; another if it is taken.")] = 5000,
    browse: Annotated[bool, typer.Option("--browse", help="Open it in a browser.")] = False,
) -> None:
    """Show the runs in MLflow's pages, on this machine alone, until Ctrl-C."""
    from ablate.store.ui import serve

    serve(results, port=port, browse=browse, say=write_text)
