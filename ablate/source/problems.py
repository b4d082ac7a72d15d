"""Mistakes: collected, all shown at once, each with its place, the reason and the way out."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ablate.errors import InputError
from ablate.source.excerpt import drawn, excerpt
from ablate.source.located import Span

SHOWN = 50
"""More mistakes than this are counted, not shown."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake: `label` stands at the carets, `notes` below them; `also` are other places with their labels."""

    message: str
    span: Span | None = None
    label: str = ""
    notes: tuple[str, ...] = ()
    also: tuple[tuple[Span, str], ...] = ()


class Problems:
    """Collects mistakes, so that one reading finds them all.

    >>> problems = Problems()
    >>> problems.add("nothing to compare", notes=("name a block in `design`",))
    >>> print(problems.text())
    error: nothing to compare
      = name a block in `design`
    """

    def __init__(self) -> None:
        self._found: dict[Problem, None] = {}  # a dict, because identical mistakes count once and order matters

    def add(
        self,
        message: str,
        span: Span | None = None,
        *,
        label: str = "",
        notes: Iterable[str] = (),
        also: Iterable[tuple[Span, str]] = (),
    ) -> None:
        """Note a mistake."""
        self.append(Problem(message, span, label, tuple(notes), tuple(also)))

    def append(self, problem: Problem) -> None:
        """Note a mistake that is described already."""
        self._found.setdefault(problem)

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Problem]:
        """By place: those without one first, then source after source as they were met, line and column."""
        met: dict[str, int] = {}
        for problem in self._found:
            if problem.span is not None:
                met.setdefault(problem.span.source.name, len(met))
        return iter(sorted(self._found, key=lambda problem: _order(problem, met)))

    def text(self) -> str:
        """Every mistake rendered, an empty line between two."""
        found = list(self)
        shown = [render(problem) for problem in found[:SHOWN]]
        if len(found) > SHOWN:
            shown.append(f"… and {len(found) - SHOWN} more")
        return "\n\n".join(shown)

    def raise_if_any(self) -> None:
        """Raise InputError with all of them, if there are any."""
        if self._found:
            raise InputError(self.text())


def _order(problem: Problem, met: dict[str, int]) -> tuple[int, int, int]:
    if problem.span is None:
        return -1, 0, 0
    return met[problem.span.source.name], problem.span.line, problem.span.column


def render(problem: Problem) -> str:
    """A problem as text: message, place, line, carets with label, notes; without a span, message and notes alone."""
    spans = [span for span in (problem.span, *(span for span, _ in problem.also)) if span is not None]
    gutter = max((len(str(span.line)) for span in spans), default=1)
    lines = [f"error: {drawn(problem.message)}"]
    notes = problem.notes
    if problem.span is not None:
        lines += excerpt(problem.span, problem.label, gutter)
    elif problem.label:
        notes = (problem.label, *notes)
    for span, label in problem.also:
        lines += excerpt(span, label, gutter, arrow=":::")
    lines += [f"{'':{gutter}} = {drawn(note)}" for note in notes]
    return "\n".join(lines)


def nearest(word: object, choices: Iterable[object]) -> str | None:
    """The choice a misspelt word most likely means; None if none is close."""
    text = str(word)
    if len(text) > 60:  # difflib compares each pair of letters, and no name is that long
        return None
    names = {str(choice).lower(): str(choice) for choice in choices}
    close = difflib.get_close_matches(text.lower(), names, n=1, cutoff=0.65)
    return names[close[0]] if close else None


def suggest(word: object, choices: Iterable[object]) -> str | None:
    """`did you mean 'x'?`, if some choice is close to the word.

    >>> suggest("qk_nrom", ["softcap", "qk_norm"])
    "did you mean 'qk_norm'?"
    """
    meant = nearest(word, choices)
    return None if meant is None else f"did you mean {quote(meant)}?"


def quote(word: object) -> str:
    """A word of the user's in quotes, escaped, and short enough for a line."""
    return repr(shorten(str(word)))


def shorten(text: str) -> str:
    """At most sixty characters."""
    return text if len(text) <= 60 else text[:59] + "…"
