"""App: the verbs in the order of `--help`, and how errors are handled; `init` and `docs`."""

from __future__ import annotations

import gc
import io
import json as json_format
import os
import sys
import traceback
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Final, Literal, Protocol, TextIO, runtime_checkable

import typer

from ablate.cli import judging, queries, reporting, results, training
from ablate.cli.console import as_json, console, note, tell, typed
from ablate.cli.options import Json, Verb, Verbs, complete_example
from ablate.errors import AblateError, AblateWarning, Mistake
from ablate.output.escape import prepare_streams, write_data, write_text

# Completion by Typer's scripts. The user names the shell, since detecting it fails in containers.

COMPLETION_VARIABLE: Final = "_ABLATE_COMPLETE"


def answer_shell() -> None:
    """Set up completion if a shell requests it; Typer then answers in place of a verb."""
    if COMPLETION_VARIABLE in os.environ:
        from typer._completion_classes import completion_init

        os.environ["COLUMNS"] = "1000"  # else Typer would wrap the help of a verb, and zsh take each line for a word
        completion_init()


def show_script(shell: Literal["bash", "zsh", "fish"] | None) -> None:
    """The callback of `--show-completion`."""
    if shell is not None:
        from typer._completion_shared import get_completion_script

        write_text(get_completion_script(prog_name="ablate", complete_var=COMPLETION_VARIABLE, shell=shell))
        raise typer.Exit


NewName = Annotated[
    str | None,
    typer.Argument(
        metavar="[NAME]", help="The name of the new space (default: mine, or the example's name).", show_default=False
    ),
]
Example = Annotated[
    str | None,
    typer.Option(
        "--example",
        metavar="NAME",
        help="Copy a space that ships: `ablate list spaces` names them.",
        autocompletion=complete_example,
    ),
]


def init(name: NewName = None, example: Example = None) -> None:
    """Write a commented space to start from, or a copy of an included one."""
    from ablate.space.load import write_space

    path = write_space(name, example=example)
    write_text(f"wrote {path}: change it, or try it as it is")
    for verb in ("check", "plan", "run"):
        write_text(f"  {typed(verb, path.stem)}")


# The verb that prints the manual: the pages in `ablate/docs/`, a Markdown file for each topic.

MANUAL = Path(__file__).resolve().parents[1] / "docs"
WIDEST_PROSE = 100  # the widest line of prose in columns; longer ones are hard to read


@dataclass(frozen=True, slots=True)
class ManualPage:
    """A page of the manual. `title` is the question that it answers, `about` the sentence below the title."""

    topic: str
    title: str
    about: str
    file: str
    text: str


def manual_pages() -> dict[str, ManualPage]:
    return {path.stem: _read_page(path) for path in sorted(MANUAL.glob("*.md"))}


def _read_page(path: Path) -> ManualPage:
    text = path.read_text(encoding="utf-8")
    title, about, *_ = text.split("\n\n", 2)
    return ManualPage(path.stem, title.removeprefix("# "), " ".join(about.split()), str(path), text)


def complete_topic(incomplete: str) -> list[str]:
    return sorted(path.stem for path in MANUAL.glob(f"{incomplete}*.md"))


def docs(
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="[TOPIC]",
            help="A page (default: list all).",
            show_default=False,
            autocompletion=complete_topic,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Print a page of the manual, or list its topics."""
    from ablate.source.problems import nearest, quote, unknown

    manual = manual_pages()
    if topic is None:
        _list_topics(manual, as_json=json)
        return
    if topic not in manual:
        raise unknown(
            f"there is no page {quote(topic)} in the manual",
            topic,
            manual,
            "the topics are",
            command="ablate docs",
            notes=() if nearest(topic, manual) else _mentions(topic, manual),
        )
    page = manual[topic]
    if json:
        write_text(json_format.dumps(asdict(page), indent=2, ensure_ascii=False))
        return
    screen = console()
    if not screen.is_terminal:
        write_data(page.text)
        return
    from rich.markdown import Markdown

    screen.print(Markdown(page.text, code_theme="ansi_dark", hyperlinks=False), width=min(screen.width, WIDEST_PROSE))


def _list_topics(manual: dict[str, ManualPage], *, as_json: bool) -> None:
    if as_json:
        listed = [{key: value for key, value in asdict(page).items() if key != "text"} for page in manual.values()]
        write_text(json_format.dumps(listed, indent=2, ensure_ascii=False))
        return
    from rich.table import Table

    from ablate.output.terminal import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for page in manual.values():
        table.add_row(Text(page.topic, style="bold"), Text(page.title))
    console().print(table)
    write_text("\n`ablate docs TOPIC` prints a page.")


def _mentions(word: str, manual: dict[str, ManualPage]) -> tuple[str, ...]:
    among = [page.topic for page in manual.values() if word.strip() and word.lower() in page.text.lower()]
    return (f"pages that mention it: {', '.join(among)}",) if among else ()


VERBS = (
    init,
    queries.check,
    queries.plan,
    training.run,
    training.resume,
    training.retry,
    reporting.report,
    judging.judge,
    results.status,
    queries.sql,
    results.mlflow,
    results.ui,
    queries.show,
    queries.diff,
    reporting.forecast,
    results.bundle,
    results.load,
    results.verify,
    results.doctor,
    queries.machine,
    docs,
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
    """The callback of `--version`."""
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
        code = app(complete_var=COMPLETION_VARIABLE, standalone_mode=False)
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


@runtime_checkable
class _UsageError(Protocol):
    """The errors of Click, which Typer does not export."""

    exit_code: int

    def show(self, file: TextIO | None = None) -> None: ...

    def format_message(self) -> str: ...


def _usage(error: Exception) -> int | None:
    """The exit code of a wrong command line, which is shown; None for any other error."""
    if not isinstance(error, _UsageError):
        return None
    if _asks_for_json():
        verb = getattr(getattr(error, "ctx", None), "command_path", "ablate")
        write_text(as_json([Mistake(error.format_message(), (f"{verb} --help",))]))
    else:
        message = io.StringIO()
        error.show(file=message)
        write_text(message.getvalue(), stderr=True, end="")
    return error.exit_code


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
