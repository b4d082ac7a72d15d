"""The verbs, and how errors are handled."""

from __future__ import annotations

import gc
import io
import sys
import traceback
import warnings
from typing import Annotated, Literal, TextIO

import typer

from ablate.cli import evidence, forecasting, judging, maintenance, manual, queries, reporting, starting, training
from ablate.cli.completion import VARIABLE, answer_shell, show_script
from ablate.cli.console import as_json, note, tell
from ablate.cli.verb import Verb, Verbs
from ablate.errors import AblateError, AblateWarning, Mistake
from ablate.output.streams import prepare_streams, write_text

VERBS = (
    starting.init,
    queries.check,
    queries.plan,
    training.run,
    training.resume,
    training.retry,
    reporting.report,
    judging.judge,
    maintenance.status,
    queries.sql,
    maintenance.mlflow,
    maintenance.ui,
    queries.show,
    queries.diff,
    forecasting.forecast,
    evidence.bundle,
    evidence.load,
    evidence.verify,
    maintenance.doctor,
    queries.machine,
    manual.docs,
)

app = typer.Typer(
    cls=Verbs,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Which edit of a transformer block mattered, by how much, is it noise, and what does it cost?",
)
for verb in VERBS:
    app.command(cls=Verb)(verb)
app.add_typer(queries.listing, name="list")


def show_version(requested: bool) -> None:
    """Print the version; for `--version`."""
    if requested:
        from ablate import __version__

        write_text(f"ablate {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version.")
    ] = False,
    completion: Annotated[
        Literal["bash", "zsh", "fish"] | None,
        typer.Option(
            "--show-completion", callback=show_script, is_eager=True, help="Print the completion script for a shell."
        ),
    ] = None,
) -> None:
    """Take the options in front of a verb; their callbacks do the work."""


def main() -> None:
    """Run the command line. A user's mistake gives a message and exit code 2; a bug of ours keeps its traceback.

    With `--json` a mistake is JSON on standard output, also one in the words themselves.
    """
    prepare_streams()
    warnings.showwarning = _show_warning
    try:
        answer_shell()
        code = app(complete_var=VARIABLE, standalone_mode=False)
    except AblateError as error:
        if _asks_for_json():
            write_text(as_json(error.mistakes))
        else:
            tell(error)
        code = error.exit_code
    except typer.Abort:
        code = 1
    except Exception as error:  # noqa: BLE001  shown in full, as Python would, but escaped
        if (code := _usage(error)) is None:
            write_text(traceback.format_exc(), stderr=True, end="")
            code = 1
    gc.freeze()  # else Python collects every object of torch before it exits, which takes a second or two
    sys.exit(code)


def _asks_for_json() -> bool:
    words = sys.argv[1:]
    return "--json" in words[: words.index("--") if "--" in words else None]


def _usage(error: Exception) -> int | None:
    """Show what is wrong with the command line, and return the exit code; None for any other error."""
    show, code = getattr(error, "show", None), getattr(error, "exit_code", None)
    if show is None or code is None:
        return None
    if _asks_for_json():
        verb = getattr(getattr(error, "ctx", None), "command_path", "ablate")
        write_text(as_json([Mistake(error.format_message(), (f"{verb} --help",))]))  # type: ignore[attr-defined]
    else:
        message = io.StringIO()
        show(file=message)
        write_text(message.getvalue(), stderr=True, end="")
    return int(code)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning of ours as a note, without the line of code that raised it."""
    if issubclass(category, AblateWarning):
        note(str(message))
    else:
        write_text(warnings.formatwarning(message, category, filename, lineno, line), stderr=True, end="")
