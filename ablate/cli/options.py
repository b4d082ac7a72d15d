"""Arguments and options that several verbs share, each with its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ablate.cli.naming import complete_grammar, complete_space

SpaceFile = Annotated[
    Path,
    typer.Argument(
        metavar="SPACE", help="A space: its file or its name.", show_default=False, autocompletion=complete_space
    ),
]
Profile = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="A profile of the space, such as smoke, laid over it; `ablate list spaces` names them."
    ),
]
Set = Annotated[list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Change a value: recipe.steps=50.")]


def _usable(folder: Path) -> Path:
    from ablate.store.durable import check_folder

    check_folder(folder)
    return folder


ResultsFolder = Annotated[Path, typer.Option("--results", callback=_usable, help="The results folder.")]
Plugin = Annotated[
    list[Path] | None, typer.Option(metavar="FILE", help="A file with your own component, optimiser or the like.")
]
Json = Annotated[bool, typer.Option("--json", help="As JSON.")]
GrammarFile = Annotated[
    Path,
    typer.Option("--grammar", help="The grammar: its file or its name.", autocompletion=complete_grammar),
]
Workers = Annotated[int | None, typer.Option(min=1, help="Trials at a time (default: as many as fit).")]
Mlflow = Annotated[
    str | None,
    typer.Option("--mlflow", metavar="URI", help="A tracking server (default: a store in the results folder)."),
]
NoMlflow = Annotated[bool, typer.Option("--no-mlflow", help="Do not mirror the runs to MLflow.")]

RESULTS = Path("results")
GRAMMAR = Path("transformer")
