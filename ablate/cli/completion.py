"""Completion by Typer's scripts. The shell is named: to ask the system which one runs fails in containers."""

from __future__ import annotations

import os
from typing import Final, Literal

import typer

from ablate.output.streams import write_text

VARIABLE: Final = "_ABLATE_COMPLETE"
"""The variable by which a shell asks for what may come next."""


def answer_shell() -> None:
    """Know the shells if one of them asks; Typer then answers in place of a verb."""
    if VARIABLE in os.environ:
        from typer._completion_classes import completion_init

        os.environ["COLUMNS"] = "1000"  # Typer would fold what it says of a verb, and zsh take each line for a word
        completion_init()


def show_script(shell: Literal["bash", "zsh", "fish"] | None) -> None:
    """Print the script that has a shell complete; for `--show-completion`."""
    if shell is not None:
        from typer._completion_shared import get_completion_script

        write_text(get_completion_script(prog_name="ablate", complete_var=VARIABLE, shell=shell))
        raise typer.Exit
