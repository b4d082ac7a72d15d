"""Printing to the terminal, and command lines as they were typed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablate.output.escape import write_text

if TYPE_CHECKING:
    from ablate.errors import AblateError, Mistake
    from ablate.output.terminal import Console

INTERRUPTED = 130  # the exit code of a command that was stopped by Ctrl-C, as in shells


def console(*, stderr: bool = False) -> Console:
    from ablate.output.terminal import Console

    return Console(stderr=stderr)


def show(renderable: Any) -> None:
    console().print(renderable)


def note(text: str) -> None:
    """Print a remark that is not part of the answer."""
    write_text(f"note: {text}", stderr=True)


def tell(error: AblateError) -> None:
    text = str(error)
    write_text(text if text.startswith("error") else f"error: {text}", stderr=True)


def as_json(mistakes: Iterable[Mistake]) -> str:
    """Mistakes as JSON, each with its place, its text and the way out: `{"mistakes": [{"message", …}]}`."""
    return json.dumps({"mistakes": [asdict(mistake) for mistake in mistakes]}, indent=2, ensure_ascii=False)


def again() -> str:
    """The command that continues from here: as it was typed, without `--fresh`, which would start over."""
    return typed(*(word for word in sys.argv[1:] if word != "--fresh"))


def page_of(space: str, results: Path, default: Path) -> str:
    """The command that writes the page of a space."""
    return typed("report", space, *(() if results == default else ("--results", from_here(results))))


def from_here(path: Path) -> str:
    """A path as one from the working directory, so that no screen says where that is."""
    return os.path.relpath(path) if path.is_absolute() else str(path)


def typed(*words: str) -> str:
    """A command line of this program, called as it was called now."""
    import shlex
    import shutil

    program, installed = Path(sys.argv[0]), shutil.which("ablate")
    on_path = installed is not None and program.exists() and Path(installed).samefile(program)
    name = "ablate" if on_path or program.name != "ablate" else str(program)
    return shlex.join([name, *words])
