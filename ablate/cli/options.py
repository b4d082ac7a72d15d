"""Arguments and options that several verbs take, each with its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ablate.cli.naming import complete_grammar, complete_space

SpaceFile = Annotated[
    Path,
    typer.Argument(
        metavar="SPACE", help="A space: its file, or its name.", show_default=False, autocompletion=complete_space
    ),
]
Profile = Annotated[str | None, typer.Option(help="A profile of the space, laid over it.")]
Set = Annotated[list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Change a value: recipe.steps=50.")]


def _usable(folder: Path) -> Path:
    from ablate.store.durable import check_folder

    check_folder(folder)
    return folder


ResultsFolder = Annotated[Path, typer.Option("--results", callback=_usable, help="The folder of results.")]
Plugin = Annotated[list[Path] | None, typer.Option(help="A file with a component, optimiser or the like of your own.")]
Json = Annotated[bool, typer.Option("--json", help="As JSON.")]
GrammarFile = Annotated[
    Path,
    typer.Option("--grammar", help="The grammar meant: its file, or its name.", autocompletion=complete_grammar),
]
Workers = Annotated[int | None, typer.Option(min=1, help="Trials at a time (default: all that fit).")]
Mlflow = Annotated[
    str | None,
    typer.Option("--mlflow", metavar="URI", help="A tracking server (default: in the results)."),
]
NoMlflow = Annotated[bool, typer.Option("--no-mlflow", help="Do not mirror the runs to MLflow.")]

RESULTS = Path("results")
GRAMMAR = Path("transformer")
