"""Control characters as text: what would move a cursor, set a title or turn the direction of a line is only shown."""

from __future__ import annotations

import codecs
import html
import re

DIRECTIONS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Invisible characters that change the direction of the text around them."""

_CONTROLS = re.compile(
    # C0 and C1 (0x9b also begins an escape sequence) except tab and line feed, separators that some programs take for
    # the end of a line, and halves of surrogate pairs, which no encoding can write.
    f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff{DIRECTIONS}]"
)


def visible(text: str) -> str:
    r"""Return `text` with each character that could drive a terminal as an escape; tabs and line feeds stay.

    JSON stays the same JSON: it holds no character below 0x20 but white space, and others become its own `\uXXXX`.

    >>> print(visible("\x1b[31mred \u202eder"))
    \x1b[31mred \u202eder
    """
    return _CONTROLS.sub(lambda match: written_out(match[0]), text)


def for_html(text: str, quote: bool = True) -> str:
    """Escape a text for HTML or an attribute of it."""
    return html.escape(visible(text), quote)


def written_out(character: str) -> str:
    r"""Return a character as its escape: `\n`, `\x1b`, `\u202e`.

    >>> print(written_out("\n"), written_out("\x07"), written_out("\x9b"))
    \n \x07 \u009b
    """
    if character in "\t\n\r":
        return {"\t": "\\t", "\n": "\\n", "\r": "\\r"}[character]
    number = ord(character)
    if number > 0xFFFF:
        return f"\\U{number:08x}"
    return f"\\x{number:02x}" if number < 0x20 else f"\\u{number:04x}"


def drives_terminal(character: str) -> bool:
    """Return whether a character moves the cursor, changes what is shown or turns the direction of what follows.

    A carriage return and half a surrogate pair do not count: YAML reads the one as a line end and refuses the other.
    """
    return character != "\r" and not "\ud800" <= character <= "\udfff" and _CONTROLS.match(character) is not None


ENCODABLE = "ablate.escaped"
"""The error handler of a stream, which writes what its encoding lacks as JSON escapes."""


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2)), error.end


codecs.register_error(ENCODABLE, _escaped)
