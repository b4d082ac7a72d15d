"""Verbs for results that travel: `bundle`, `load` and `verify`."""

from __future__ import annotations

import json as form
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ablate.cli.console import from_here, note, show
from ablate.cli.options import RESULTS, Json, ResultsFolder
from ablate.output.streams import write_text

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
    from ablate.report.screens import verified
    from ablate.session.verifying import verify

    done = verify(path, retrain=retrain, trust=trust)
    if json:
        document = {"path": str(path), "heads": done.heads, "checks": [asdict(check) for check in done.checks]}
        write_text(form.dumps(document, indent=2, ensure_ascii=False))
    else:
        show(verified.screen([asdict(check) for check in done.checks], done.heads))
    raise typer.Exit(1 if done.wrong else 0)
