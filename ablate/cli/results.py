"""Results: the verbs `status`, `doctor`, `mlflow` and `ui` of a results folder, and `bundle`, `load` and `verify`."""

from __future__ import annotations

import json as form
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ablate.cli.console import from_here, note, show, typed
from ablate.cli.options import RESULTS, Json, Mlflow, ResultsFolder
from ablate.output.escape import write_text
from ablate.output.words import plural


def status(results: ResultsFolder = RESULTS, json: Json = False) -> None:
    """Show which trials run, wait, have ended, or have lost their worker; also during a run."""
    from ablate.report.screens import status
    from ablate.store import durable
    from ablate.store.projection import say_lost
    from ablate.store.snapshot import Snapshot, not_over, standings

    now = Snapshot(results)
    trials = standings(now)
    if json:
        write_text(status.as_json(trials))
    else:
        show(status.screen(trials, results, durable.lock_holder(results), not_over(now)))
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
    from ablate.report.screens.doctor import doctor_screen
    from ablate.store import mirror
    from ablate.store.repair import repair

    repaired = repair(results, dry_run=look, say=note, mirror=mirror.examine, rebuild_mirror=mirror.rebuild)
    if json:
        write_text(form.dumps(repaired.document(), indent=2))
    else:
        show(doctor_screen(repaired))
    raise typer.Exit(repaired.exit_code)


def mlflow(results: ResultsFolder = RESULTS, mlflow: Mlflow = None, json: Json = False) -> None:
    """Send what MLflow lacks of the results: each trial once, with the verdicts. Repeating it sends nothing."""
    from ablate.session.reporting import export_to_mlflow
    from ablate.session.running import mlflow_lines

    sent = export_to_mlflow(results, uri=mlflow, say=note)
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
    from ablate.store.mirror import serve

    serve(results, port=port, browse=browse, say=write_text)


Bundle = Annotated[Path, typer.Argument(metavar="FILE", help="A bundle.", show_default=False)]


def bundle(
    space: Annotated[str, typer.Argument(help="The name of a space that was run.", show_default=False)],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="The file (default: SPACE.zip).")
    ] = None,
    results: ResultsFolder = RESULTS,
    json: Json = False,
) -> None:
    """Write the results of a space, with all that decided them, to one file."""
    from ablate.session.bundling import write_bundle

    done = write_bundle(space, output or Path(f"{space}.zip"), results=results)
    if json:
        write_text(form.dumps(asdict(done) | {"path": str(done.path)}, indent=2))
        return
    write_text(f"{from_here(done.path)}: {done.ended} of {done.trials} trials of {space}, records {done.head[:16]}…")
    if done.ended < done.trials:
        note(f"{done.trials - done.ended} have not ended, and are not in it")
    if done.others:
        note(f"{space} was run as {done.others + 1} plans; the last is in it: `ablate sql @plans` lists all")


def load(file: Bundle, results: ResultsFolder = RESULTS, json: Json = False) -> None:
    """Read a bundle into the results folder, beside what is there."""
    from ablate.session.bundling import load_bundle

    done = load_bundle(file, results=results)
    if json:
        write_text(form.dumps(asdict(done), indent=2))
        return
    write_text(f"{done.space}: {done.new} files are new in {results}, {done.known} were there")
    for line in done.notes:
        note(line)


def verify(
    path: Annotated[Path, typer.Argument(metavar="FILE|FOLDER", help="A bundle, or a results folder.")] = RESULTS,
    retrain: Annotated[
        int, typer.Option(min=0, metavar="K", help="Train so many random trials of each space again, and compare.")
    ] = 0,
    trust: Annotated[
        bool, typer.Option("--trust", help="Run the code of plugins in a bundle, which making its plan needs.")
    ] = False,
    json: Json = False,
) -> None:
    """Check seals, plans and verdicts, computed anew from sealed rows; exit with 1 if anything is wrong."""
    from ablate.report.screens.doctor import verify_screen
    from ablate.session.verifying import verify

    done = verify(path, retrain=retrain, trust=trust)
    if json:
        document = {"path": str(path), "heads": done.heads, "checks": [asdict(check) for check in done.checks]}
        write_text(form.dumps(document, indent=2, ensure_ascii=False))
    else:
        show(verify_screen([asdict(check) for check in done.checks], done.heads))
    raise typer.Exit(1 if done.wrong else 0)
