"""The verb that prints the manual: the pages in `ablate/docs/`, a Markdown file for each topic."""

from __future__ import annotations

import json as json_format
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from ablate.cli.console import console
from ablate.cli.options import Json
from ablate.output.streams import write_data, write_text

FOLDER = Path(__file__).resolve().parents[1] / "docs"
WIDEST = 100
"""The widest line of prose in columns; longer ones are hard to read."""


@dataclass(frozen=True, slots=True)
class ManualPage:
    """A page of the manual. `title` is the question that it answers, `about` the sentence below the title."""

    topic: str
    title: str
    about: str
    file: str
    text: str


def pages() -> dict[str, ManualPage]:
    """Return every page by its topic, which is the name of its file."""
    return {path.stem: _read(path) for path in sorted(FOLDER.glob("*.md"))}


def _read(path: Path) -> ManualPage:
    text = path.read_text(encoding="utf-8")
    title, about, *_ = text.split("\n\n", 2)
    return ManualPage(path.stem, title.removeprefix("# "), " ".join(about.split()), str(path), text)


def complete_topic(incomplete: str) -> list[str]:
    """Return the topics that begin with what was typed."""
    return sorted(path.stem for path in FOLDER.glob(f"{incomplete}*.md"))


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

    manual = pages()
    if topic is None:
        _list(manual, as_json=json)
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

    screen.print(Markdown(page.text, code_theme="ansi_dark", hyperlinks=False), width=min(screen.width, WIDEST))


def _list(manual: dict[str, ManualPage], *, as_json: bool) -> None:
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
    """Return a note on the pages that mention a word that is not a topic."""
    among = [page.topic for page in manual.values() if word.strip() and word.lower() in page.text.lower()]
    return (f"pages that mention it: {', '.join(among)}",) if among else ()
