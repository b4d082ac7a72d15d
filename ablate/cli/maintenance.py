"""Verbs that look after a results folder: its status, its repair, and MLflow's pages over it."""

from __future__ import annotations

from typing import Annotated

import typer

from ablate.cli.console import from_here, note, show, typed
from ablate.cli.options import RESULTS, Json, Mlflow, ResultsFolder
from ablate.output.streams import write_text
from ablate.output.words import plural


def status(results: ResultsFolder = RESULTS, json: Json = False) -> None:
    """Show which trials run, wait, have ended, or have lost their worker; also during a run."""
    from ablate.report.screens import status
    from ablate.store import lock
    from ablate.store.projection import say_lost
    from ablate.store.snapshot import Snapshot
    from ablate.store.trial_status import not_over, standings

    now = Snapshot(results)
    trials = standings(now)
    if json:
        write_text(status.as_json(trials))
    else:
        show(status.screen(trials, results, lock.holder(results), not_over(now)))
        for space, plans in now.plans.of_space.items():
            if len(plans) > 1:
                write_text(f"{space} was run as {len(plans)} plans; the last is shown: `ablate sql @plans` lists all")
        for space, tables in now.tables.items():
            kept = tables[-1].document
            write_text(f"{space}: {plural(len(kept['runs']), 'run')} of the table {kept['name']}, judged")
    say_lost(results, now.lost, note)


def doctor(
    results: ResultsFolder = RESULTS,
    look: Annotated[
        bool, typer.Option("--look", help="Change nothing; exit with 1 if there is something to repair.")
    ] = False,
    json: Json = False,
) -> None:
    """Check every file of the results, report what is damaged, and repair what can be repaired."""
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


def mlflow(results: ResultsFolder = RESULTS, mlflow: Mlflow = None, json: Json = False) -> None:
    """Send what MLflow lacks of the results: each trial once, with the verdicts. Repeating it sends nothing."""
    import json as form

    from ablate.session.exporting import export
    from ablate.session.running import mlflow_lines

    sent = export(results, uri=mlflow, say=note)
    if json:
        write_text(form.dumps({"mlflow": sent.where, "sent": sent.sent, "pages": dict(sent.pages)}, indent=2))
        return
    for line in mlflow_lines(sent):
        write_text(line)
    if mlflow is None:
        write_text(f"  {typed('ui', *(() if results == RESULTS else ('--results', from_here(results))))} shows it")


def ui(
    results: ResultsFolder = RESULTS,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; another if it is taken.")] = 5000,
    browse: Annotated[bool, typer.Option("--browse", help="Open it in a browser.")] = False,
) -> None:
    """Show the runs in MLflow's pages, on this machine only, until Ctrl-C."""
    from ablate.store.ui import serve

    serve(results, port=port, browse=browse, say=write_text)
