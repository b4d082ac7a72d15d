"""The verbs, and what becomes of an error."""

from __future__ import annotations

import sys
import warnings
from typing import TextIO

import typer

from ablate.cli import asking, keeping, reporting, training
from ablate.cli.verb import Verb
from ablate.errors import AblateError, AblateWarning

VERBS = (
    asking.check,
    asking.plan,
    training.run,
    training.resume,
    reporting.report,
    keeping.status,
    asking.sql,
    keeping.ui,
    asking.show,
    asking.diff,
    keeping.doctor,
)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Which edit of a transformer block mattered, by how much, is it noise, and what does it cost?",
)
for verb in VERBS:
    app.command(cls=Verb)(verb)
app.add_typer(asking.listing, name="list")


def main() -> None:
    """Run the command line. A mistake of the user's is a message and exit code 2; a bug of ours keeps its traceback."""
    warnings.showwarning = _show_warning
    try:
        app()
    except AblateError as error:
        text = str(error)
        typer.echo(text if text.startswith("error") else f"error: {text}", err=True)
        sys.exit(error.exit_code)


_show_any_warning = warnings.showwarning


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A warning of ours is a note, without the line of code that gave it."""
    if issubclass(category, AblateWarning):
        typer.echo(f"note: {message}", err=True)
    else:
        _show_any_warning(message, category, filename, lineno, file, line)
