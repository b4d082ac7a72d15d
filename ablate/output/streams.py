"""Output to standard output and standard error without a console's layout: lines, messages, data."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from ablate.output.escape import ENCODABLE, visible

if TYPE_CHECKING:
    from rich.console import Console


def write_text(text: str, *, stderr: bool = False, end: str = "\n") -> None:
    """Write a message or JSON, always escaped."""
    stream = sys.stderr if stderr else sys.stdout
    stream.write(visible(text) + end)
    stream.flush()


def write_data(text: str) -> None:
    """Write data: unchanged, in UTF-8, to a pipe or a file; escaped to a terminal."""
    if sys.stdout.isatty():
        write_text(text, end="")
        return
    sys.stdout.flush()
    if (binary := getattr(sys.stdout, "buffer", None)) is None:  # a caller's replacement that holds text
        sys.stdout.write(text)
    else:
        binary.write(text.encode("utf-8"))
        binary.flush()


def line_writer(console: Console, style: str = "", *, whole: bool = False) -> Callable[[str], None]:
    """Return a function that prints lines on a console, without markup, also on a console of the caller's.

    Lines that stay `whole`, with an address to click on, are broken by the terminal alone.
    """
    from ablate.output.terminal import Text

    return lambda text: console.print(Text(text, style), soft_wrap=whole)


def prepare_streams() -> None:
    """Have a terminal or log that is not UTF-8 show escapes for characters it lacks, instead of raising an error, and
    have a log show each line when it is written."""
    for stream in (sys.stdout, sys.stderr):
        if (reconfigure := getattr(stream, "reconfigure", None)) is not None:
            reconfigure(errors=ENCODABLE, line_buffering=True)
