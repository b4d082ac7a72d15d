"""Where things are printed, and what was typed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablate.output.streams import write_text

if TYPE_CHECKING:
    from ablate.errors import AblateError
    from ablate.output.terminal import Console

INTERRUPTED = 130
"""The exit code of what was stopped by Ctrl-C, as shells have it."""


def console(*, stderr: bool = False) -> Console:
    """The terminal, or what stands for it."""
    from ablate.output.terminal import Console

    return Console(stderr=stderr)


def show(renderable: Any) -> None:
    """Print a table or a text."""
    console().print(renderable)


def note(text: str) -> None:
    """Something to know that is no part of the answer."""
    write_text(f"note: {text}", stderr=True)


def tell(error: AblateError) -> None:
    """Say what the user can mend."""
    text = str(error)
    write_text(text if text.startswith("error") else f"error: {text}", stderr=True)


def again() -> str:
    """The command that goes on from here: as it was typed, but for `--fresh`, which would start over."""
    return typed(*(word for word in sys.argv[1:] if word != "--fresh"))


def page_of(space: str, results: Path, default: Path) -> str:
    """The command that writes the page of a space."""
    return typed("report", space, *(() if results == default else ("--results", str(results))))


def typed(*words: str) -> str:
    """A command line of this program, called as it was called."""
    import shlex
    import shutil

    program, found = Path(sys.argv[0]), shutil.which("ablate")
    on_path = found is not None and program.exists() and Path(found).samefile(program)
    name = "ablate" if on_path or program.name != "ablate" else str(program)
    return shlex.join([name, *words])
