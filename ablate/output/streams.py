"""What is written to standard output and standard error without a console's layout: lines, words, data."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from ablate.output.escape import ENCODABLE, visible

if TYPE_CHECKING:
    from rich.console import Console


def write_text(text: str, *, stderr: bool = False, end: str = "\n") -> None:
    """Write words or JSON, escaped wherever they go."""
    stream = sys.stderr if stderr else sys.stdout
    stream.write(visible(text) + end)
    stream.flush()


def write_data(text: str) -> None:
    """Write data: in a pipe or a file as they are, in UTF-8; on a terminal escaped."""
    if sys.stdout.isatty():
        write_text(text, end="")
        return
    sys.stdout.flush()
    if (binary := getattr(sys.stdout, "buffer", None)) is None:  # a caller's stand-in that holds text
        sys.stdout.write(text)
    else:
        binary.write(text.encode("utf-8"))
        binary.flush()


def line_writer(console: Console, style: str = "") -> Callable[[str], None]:
    """What prints one line after the other on a console; also one that a caller brings along is given no markup."""
    from ablate.output.terminal import Text

    return lambda text: console.print(Text(text, style))


def escape_what_cannot_be_encoded() -> None:
    """Let a terminal or log of another encoding than UTF-8 show escapes for what it lacks, and not end the program."""
    for stream in (sys.stdout, sys.stderr):
        if (reconfigure := getattr(stream, "reconfigure", None)) is not None:
            reconfigure(errors=ENCODABLE)
