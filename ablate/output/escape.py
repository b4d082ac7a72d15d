"""Control characters as text: what moves a cursor, sets a title or turns the direction of a line is shown, not done."""

from __future__ import annotations

import codecs
import html
import re

DIRECTIONS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Characters without a form, which turn the direction of the text around them."""

_CONTROLS = re.compile(
    # C0 and C1 (0x9b begins an escape sequence, too) but for tab and line feed, separators that end a line for some
    # programs and not for others, and halves of surrogate pairs, which no encoding can write.
    f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff{DIRECTIONS}]"
)


def visible(text: str) -> str:
    r"""`text` with each character that could drive a terminal written out; tabs and line feeds stay.

    JSON stays the same JSON: it holds no character below 0x20 but white space, and others become its own `\uXXXX`.

    >>> print(visible("\x1b[31mred \u202eder"))
    \x1b[31mred \u202eder
    """
    return _CONTROLS.sub(lambda found: written_out(found[0]), text)


def for_html(text: str, quote: bool = True) -> str:
    """A text within HTML or an attribute of it."""
    return html.escape(visible(text), quote)


def written_out(character: str) -> str:
    r"""A character as its escape: `\n`, `\x1b`, `\u202e`.

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
    """Whether a character moves the cursor, changes what is shown or turns the direction of what follows.

    A carriage return and half a surrogate pair do not: YAML reads the one as the end of a line and refuses the other.
    """
    return character != "\r" and not "\ud800" <= character <= "\udfff" and _CONTROLS.match(character) is not None


ENCODABLE = "ablate.escaped"
"""The error handler of a stream: what its encoding lacks is written as JSON would write it."""


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2)), error.end


codecs.register_error(ENCODABLE, _escaped)
