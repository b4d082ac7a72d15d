"""Completion by Typer's scripts. The user names the shell, since detecting it fails in containers."""

from __future__ import annotations

import os
from typing import Final, Literal

import typer

from ablate.output.streams import write_text

VARIABLE: Final = "_ABLATE_COMPLETE"
"""The environment variable by which a shell requests completions."""


def answer_shell() -> None:
    """Set up completion if a shell requests it; Typer then answers in place of a verb."""
    if VARIABLE in os.environ:
        from typer._completion_classes import completion_init

        os.environ["COLUMNS"] = "1000"  # else Typer would wrap the help of a verb, and zsh take each line for a word
        completion_init()


def show_script(shell: Literal["bash", "zsh", "fish"] | None) -> None:
    """Print the completion script for a shell; for `--show-completion`."""
    if shell is not None:
        from typer._completion_shared import get_completion_script

        write_text(get_completion_script(prog_name="ablate", complete_var=VARIABLE, shell=shell))
        raise typer.Exit
