"""Escapes: what would move a cursor, set a title or turn the direction of a line is only shown, and no text is markup.

Control characters first, for a terminal and for HTML; then texts within Markdown, LaTeX and CSV; then the streams.
"""

from __future__ import annotations

import codecs
import html
import re
import sys
from collections.abc import Sequence

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
    """True if a character moves the cursor, changes what is shown or turns the direction of what follows.

    A carriage return and half a surrogate pair do not count: YAML reads the one as a line end and refuses the other.
    """
    return character != "\r" and not "\ud800" <= character <= "\udfff" and _CONTROLS.match(character) is not None


ENCODABLE = "ablate.escaped"  # the error handler of a stream, which writes what its encoding lacks as JSON escapes


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2)), error.end


codecs.register_error(ENCODABLE, _escaped)


# User texts within Markdown, escaped by CommonMark with GitHub's tables, only where a character could be markup:
# `eval_loss`, `[-0.08, -0.02]` and `p < 0.05` stay as they are.

_MARKDOWN = re.compile(
    r"""
    [\\`*|~$]                                       # escapes, code, emphasis, cells, struck out, formulas
    | (?<![^\W_])_ | _(?![^\W_])                    # emphasis; within a word it means nothing
    | <(?![ =\d])                                   # HTML, addresses
    | &(?=\#?\w+;)                                  # entities
    | !(?=\[) | \](?=[(\[:]) | ^\[                  # images, links and what they refer to, boxes to tick
    | \#(?=\#*$)                                    # the end of a heading
    | ^(?:[>#=]|[-+](?=\ |$|[-+]))                  # quotes, headings, lists, rules
    """,
    re.VERBOSE,
)
_NUMBERED_ITEM = re.compile(r"^(\d+)([.)])(?= |$)")
_CODE = re.compile(r"`([^`\n]+)`")


def for_markdown(text: str, newline: str = "<br>") -> str:
    r"""Escape a text as part of a line: of a cell, of a list, of a paragraph.

    >>> print(for_markdown("+qk_norm and *this* [link](http://a) | <b> __init__"))
    +qk_norm and \*this\* [link\](http://a) \| \<b> \_\_init\_\_
    """
    lines = "\n".join(line.strip(" \t") for line in visible(text).split("\n")).strip("\n")
    return newline.join(map(_escaped_line, lines.split("\n")))


def markdown_paragraph(text: str) -> str:
    return for_markdown(text, "\n")


def markdown_sentence(text: str) -> str:
    """Escape a sentence of ours, in which text between backticks is code.

    >>> print(markdown_sentence("`a_*b` is *not* code"))
    `a_*b` is \\*not\\* code
    """
    parts = _CODE.split(" ".join(visible(text).split("\n")))
    # A part after code does not begin a line, so that it needs no escapes against lists and headings.
    return "".join(
        markdown_code(part) if place % 2 else _markdown_part(part, first=not place) for place, part in enumerate(parts)
    )


def markdown_code(text: str) -> str:
    """Return a text as code within a line, between more backticks than it contains.

    >>> print(markdown_code("a`b"))
    `` a`b ``
    """
    line = " ".join(visible(text).split("\n"))
    marks = "`" * (_longest_run(line) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") or "`" in line else ""
    return f"{marks}{pad}{line}{pad}{marks}" if line else ""


def markdown_code_cell(text: str) -> str:
    """Return a text as code in a table cell, where a bar would end the cell even within code."""
    return markdown_code(text).replace("|", "\\|")


def markdown_fence(language: str, text: str) -> str:
    """Return a fenced block of code, whatever the text contains; empty for an empty text."""
    body = visible(text).strip("\n")
    marks = "`" * max(3, _longest_run(body) + 1)
    return f"{marks}{language}\n{body}\n{marks}" if body else ""


def markdown_table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [[for_markdown(cell) for cell in row] for row in (heading, *rows)]
    return ["| " + " | ".join(row) + " |" for row in (lines[0], ["---"] * len(heading), *lines[1:])]


def _escaped_line(line: str) -> str:
    line = line.strip(" \t")
    line = _MARKDOWN.sub(lambda match: f"\\{match[0]}", line)
    return _NUMBERED_ITEM.sub(r"\1\\\2", line)


def markdown_within(text: str) -> str:
    """Escape a text that follows another on the same line."""
    return _markdown_part(text, first=False)


def _markdown_part(part: str, *, first: bool) -> str:
    """Escape a part of a line, keeping the blanks around it."""
    before, after = part[: len(part) - len(part.lstrip())], part[len(part.rstrip()) :] if part.strip() else ""
    return before + (_escaped_line(part) if first else _escaped_line("x" + part.strip())[1:]) + after


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


# Text within LaTeX: what LaTeX would read as a command or a comment is escaped, and Greek letters are commands.

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    "-": r"{-}",  # two of them would be a dash
    "[": "{[}",  # after \\ it would begin an argument
    "]": "{]}",
    "*": "{*}",
    "×": r"$\times$",
    "÷": r"$\div$",
    "±": r"$\pm$",
    "→": r"$\rightarrow$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "∞": r"$\infty$",
    "…": r"\ldots{}",
    "–": "--",
    "\n": " ",
    "\t": " ",
}
GREEK = dict(
    zip(
        "αβγδεζηθικλμνξπρστυφχψω",
        (
            *("alpha", "beta", "gamma", "delta", "varepsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda"),
            *("mu", "nu", "xi", "pi", "rho", "sigma", "tau", "upsilon", "varphi", "chi", "psi", "omega"),
        ),
        strict=True,
    )
)
_LATEX |= {letter: rf"$\{name}$" for letter, name in GREEK.items()}
_MINUS = re.compile(r"(?<![\w.])-(?=[\d.])")


def for_latex(text: str) -> str:
    r"""Escape a text for a paragraph or a table of LaTeX.

    >>> print(for_latex("peak_kurtosis & 50 %"))
    peak\_kurtosis \& 50 \%
    """
    return "".join(_LATEX.get(letter, letter) for letter in visible(text))


def numbers_for_latex(text: str) -> str:
    r"""Escape a text with numbers, whose minus signs become those of LaTeX.

    >>> print(numbers_for_latex("-0.061 [-0.089, -0.032]"))
    $-$0.061 {[}$-$0.089, $-$0.032{]}
    """
    return "$-$".join(for_latex(part) for part in _MINUS.split(text))


# Texts within a CSV that a spreadsheet opens: what it would read as a formula gets an apostrophe in front.

FORMULAS = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
"""The beginnings of formulas in one spreadsheet or another."""


def no_formula(text: str) -> str:
    """Return `text` as a cell that stays text. Numbers stay numbers; a leading apostrophe gets another in front.

    >>> no_formula("+qk_norm"), no_formula("+1.5e-3"), no_formula("'a")
    ("'+qk_norm", '+1.5e-3', "''a")
    """
    if not text.startswith((*FORMULAS, "'")):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


# Output to standard output and standard error without a console's layout: lines, messages, data.


def write_text(text: str, *, stderr: bool = False, end: str = "\n") -> None:
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


def prepare_streams() -> None:
    """Have a stream that is not UTF-8 show escapes for characters it lacks, and not raise an error; and have a log show
    each line when it is written."""
    for stream in (sys.stdout, sys.stderr):
        if (reconfigure := getattr(stream, "reconfigure", None)) is not None:
            reconfigure(errors=ENCODABLE, line_buffering=True)
