"""The verb that writes a space to start from."""

from __future__ import annotations

from typing import Annotated

import typer

from ablate.cli.console import typed
from ablate.cli.naming import complete_example
from ablate.output.streams import write_text

Name = Annotated[
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


def init(name: Name = None, example: Example = None) -> None:
    """Write a commented space to start from, or a copy of an included one."""
    from ablate.space.template import write_space

    path = write_space(name, example=example)
    write_text(f"wrote {path}: change it, or try it as it is")
    for verb in ("check", "plan", "run"):
        write_text(f"  {typed(verb, path.stem)}")
