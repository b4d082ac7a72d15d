"""User texts within Markdown: every character is shown as it is, and none begins a list, a link, a table or HTML.

Escapes are those of CommonMark with GitHub's tables, and only where a character could be markup: `eval_loss`,
`[-0.08, -0.02]` and `p < 0.05` stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ablate.output.escape import visible

_MEANS = re.compile(
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
_NUMBERED = re.compile(r"^(\d+)([.)])(?= |$)")
_CODE = re.compile(r"`([^`\n]+)`")


def escape(text: str, newline: str = "<br>") -> str:
    r"""Escape a text as part of a line: of a cell, of a list, of a paragraph.

    >>> print(escape("+qk_norm and *this* [link](http://a) | <b> __init__"))
    +qk_norm and \*this\* [link\](http://a) \| \<b> \_\_init\_\_
    """
    lines = "\n".join(line.strip(" \t") for line in visible(text).split("\n")).strip("\n")
    return newline.join(map(_escaped_line, lines.split("\n")))


def paragraph(text: str) -> str:
    """Escape a text of several lines as a paragraph, with its line breaks."""
    return escape(text, "\n")


def sentence(text: str) -> str:
    """Escape a sentence of ours, in which text between backticks is code.

    >>> print(sentence("`a_*b` is *not* code"))
    `a_*b` is \\*not\\* code
    """
    parts = _CODE.split(" ".join(visible(text).split("\n")))
    # A part after code does not begin a line, so that it needs no escapes against lists and headings.
    return "".join(code(part) if place % 2 else _within(part, first=not place) for place, part in enumerate(parts))


def code(text: str) -> str:
    """Return a text as code within a line, between more backticks than it contains.

    >>> print(code("a`b"))
    `` a`b ``
    """
    line = " ".join(visible(text).split("\n"))
    marks = "`" * (_longest_run(line) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") or "`" in line else ""
    return f"{marks}{pad}{line}{pad}{marks}" if line else ""


def code_cell(text: str) -> str:
    """Return a text as code in a table cell, where a bar would end the cell even within code."""
    return code(text).replace("|", "\\|")


def fenced(language: str, text: str) -> str:
    """Return a fenced block of code, whatever the text contains; empty for an empty text."""
    body = visible(text).strip("\n")
    marks = "`" * max(3, _longest_run(body) + 1)
    return f"{marks}{language}\n{body}\n{marks}" if body else ""


def table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table of texts."""
    lines = [[escape(cell) for cell in row] for row in (heading, *rows)]
    return ["| " + " | ".join(row) + " |" for row in (lines[0], ["---"] * len(heading), *lines[1:])]


def _escaped_line(line: str) -> str:
    line = line.strip(" \t")
    line = _MEANS.sub(lambda match: f"\\{match[0]}", line)
    return _NUMBERED.sub(r"\1\\\2", line)


def within(text: str) -> str:
    """Escape a text that follows another on the same line."""
    return _within(text, first=False)


def _within(part: str, *, first: bool) -> str:
    """Escape a part of a line, keeping the blanks around it."""
    before, after = part[: len(part) - len(part.lstrip())], part[len(part.rstrip()) :] if part.strip() else ""
    return before + (_escaped_line(part) if first else _escaped_line("x" + part.strip())[1:]) + after


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
