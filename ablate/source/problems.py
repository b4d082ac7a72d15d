"""Mistakes: collected, all shown at once, each with its place, the reason and the way out."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ablate.errors import AblateError, InputError, Mistake
from ablate.output.escape import written_out
from ablate.source.located import Mapping, Scalar, Span

SHOWN = 50  # at most this many mistakes are shown; further ones are counted
LINE = 120  # names that take more characters than this are not listed in full if a command lists them
NEAREST = 3


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake: `label` is printed at the carets, `notes` below them; `also` are other places with their labels."""

    message: str
    span: Span | None = None
    label: str = ""
    notes: tuple[str, ...] = ()
    also: tuple[tuple[Span, str], ...] = ()

    def is_at(self, places: Iterable[Span]) -> bool:
        at = self.span
        return at is not None and any(
            at.source == place.source and place.start <= at.start and at.end <= place.end for place in places
        )


class Problems:
    """Collects mistakes, so that one reading finds them all.

    >>> problems = Problems()
    >>> problems.add("nothing to compare", notes=("name a block in `design`",))
    >>> print(problems.text())
    error: nothing to compare
      = name a block in `design`
    """

    def __init__(self) -> None:
        self._problems: dict[Problem, None] = {}  # a dict, because identical mistakes count once and order matters

    def add(
        self,
        message: str,
        span: Span | None = None,
        *,
        label: str = "",
        notes: Iterable[str] = (),
        also: Iterable[tuple[Span, str]] = (),
    ) -> None:
        self.append(Problem(message, span, label, tuple(notes), tuple(also)))

    def add_unknown(
        self,
        message: str,
        span: Span | None,
        word: object,
        choices: Iterable[object],
        lead: str,
        *,
        command: str = "",
        used: Container[object] = (),
        notes: Iterable[str] = (),
    ) -> None:
        """Note a word that is none of `choices`, with the one that was probably meant and, after `lead`, all choices.

        If they do not fit on a line, the nearest are listed, with the `command` that lists all. Those `used` already
        are suggested only if no other is close.
        """
        known = tuple(map(str, choices))
        label = suggest(word, [choice for choice in known if choice not in used]) or suggest(word, known)
        self.add(message, span, label=label or "", notes=(*listed(word, known, lead, command), *notes))

    def append(self, problem: Problem) -> None:
        self._problems.setdefault(problem)

    def __len__(self) -> int:
        return len(self._problems)

    def __iter__(self) -> Iterator[Problem]:
        """Iterate by place: mistakes without one first, then by source as first met, line and column."""
        met: dict[str, int] = {}
        for problem in self._problems:
            if problem.span is not None:
                met.setdefault(problem.span.source.name, len(met))
        return iter(sorted(self._problems, key=lambda problem: _order(problem, met)))

    def text(self) -> str:
        problems = list(self)
        shown = [render(problem) for problem in problems[:SHOWN]]
        if len(problems) > SHOWN:
            shown.append(f"… and {len(problems) - SHOWN} more")
        return "\n\n".join(shown)

    def errors(self) -> tuple[InputError, ...]:
        """Return all of them as one error; an empty tuple if there are none."""
        return (InputError(self.text(), self.mistakes()),) if self._problems else ()

    def mistakes(self) -> tuple[Mistake, ...]:
        return tuple(map(_mistake, self))

    def raise_if_any(self) -> None:
        for error in self.errors():
            raise error


def _order(problem: Problem, met: dict[str, int]) -> tuple[int, int, int]:
    if problem.span is None:
        return -1, 0, 0
    return met[problem.span.source.name], problem.span.line, problem.span.column


def render(problem: Problem) -> str:
    """Render a problem as text: message, place, line, carets with label, notes; without a span, message and notes."""
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
    """Return the choice that a misspelt word most likely means; None if none is close."""
    return next(iter(_close(word, choices, 1, cutoff=0.65)), None)


def _close(word: object, choices: Iterable[object], most: int, cutoff: float) -> list[str]:
    text = str(word)
    if len(text) > 60:  # no name is that long, and difflib is quadratic in the length
        return []
    names = {str(choice).lower(): str(choice) for choice in choices}
    return [names[match] for match in difflib.get_close_matches(text.lower(), names, n=most, cutoff=cutoff)]


def suggest(word: object, choices: Iterable[object]) -> str | None:
    """Return `did you mean 'x'?` if some choice is close to the word.

    >>> suggest("qk_nrom", ["softcap", "qk_norm"])
    "did you mean 'qk_norm'?"
    """
    meant = nearest(word, choices)
    return None if meant is None else f"did you mean {quote(meant)}?"


def listed(word: object, choices: Sequence[str], lead: str, command: str = "") -> tuple[str, ...]:
    """List the choices for an unknown word: all on one line if they fit, or if no `command` lists them.

    >>> listed("rms", ("layer_norm", "rms_norm"), "slot norm accepts", "ablate list components")
    ('slot norm accepts: layer_norm, rms_norm',)
    >>> listed("norm7", [f"norm_{n}" for n in range(40)], "slot norm accepts", "ablate list components")
    ('the nearest names: norm_7, norm_37, norm_27', 'slot norm accepts: those that `ablate list components` lists')
    """
    whole = f"{lead}: {', '.join(choices) or 'none'}"
    if not command or len(whole) <= LINE:
        return (whole,)
    near = _close(word, choices, NEAREST, cutoff=0.6)
    shown = (f"the nearest names: {', '.join(near)}",) if len(near) > 1 else ()
    return (*shown, f"{lead}: those that `{command}` lists")


def unknown(
    message: str, word: object, choices: Iterable[object], lead: str, *, command: str = "", notes: Iterable[str] = ()
) -> InputError:
    """Return the error for a word that is in no file and none of `choices`; see `Problems.add_unknown`."""
    problems = Problems()
    problems.add_unknown(message, None, word, choices, lead, command=command, notes=notes)
    return InputError(problems.text(), problems.mistakes())


def refusal(message: str, span: Span | None = None, *, label: str = "", notes: Iterable[str] = ()) -> InputError:
    """Return the error of a single problem, to be raised."""
    problems = Problems()
    problems.add(message, span, label=label, notes=notes)
    return InputError(problems.text(), problems.mistakes())


def together(errors: Iterable[AblateError]) -> InputError:
    parts = tuple(errors)
    mistakes = tuple(mistake for error in parts for mistake in error.mistakes)
    return InputError("\n\n".join(str(error) for error in parts), mistakes)


def _mistake(problem: Problem) -> Mistake:
    ways = tuple(drawn(way) for way in (problem.label, *problem.notes) if way)
    if (span := problem.span) is None:
        return Mistake(drawn(problem.message), ways)
    return Mistake(
        drawn(problem.message),
        ways,
        file=shown_name(span.source.name),
        line=span.line,
        column=span.column,
        end_line=span.end_line,
        end_column=span.end_column,
        text=span.source.line(span.line),
    )


def quote(word: object) -> str:
    """Return a word of the user's in quotes, escaped, and short enough for a line."""
    return repr(shorten(str(word)))


def shorten(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"


# A line of source with carets under a span: tabs, wide and combining characters keep the carets in place.

WINDOW = 100  # of a longer line, this many characters around the span are shown
LEFT_OF_SPAN = 40  # how many characters of a long line stay to the left of the span
TAB = 4


def excerpt(span: Span, label: str, gutter: int, arrow: str = "-->") -> list[str]:
    """Return four lines: the place, an empty one, the source, the carets with their label."""
    line = span.source.line(span.line)
    start = span.column - 1
    end = span.end_column - 1 if span.end_line == span.line else len(line.rstrip())
    low, high = _window(len(line), start)
    before = ("…" if low else "") + drawn(line[low:start])
    marked = drawn(line[start : min(end, high)], width(before))
    after = drawn(line[min(max(start, end), high) : high], width(before + marked)) + ("…" if high < len(line) else "")
    carets = " " * width(before) + "^" * max(1, width(marked))
    return [
        f"{'':{gutter}}{arrow} {shown_name(span.source.name)}:{span.line}:{span.column}",
        f"{'':{gutter}} |",
        f"{span.line:>{gutter}} | {before}{marked}{after}".rstrip(),
        f"{'':{gutter}} | {carets} {drawn(label)}".rstrip(),
    ]


def _window(length: int, start: int) -> tuple[int, int]:
    if length <= WINDOW:
        return 0, length
    low = max(0, min(start - LEFT_OF_SPAN, length - WINDOW))
    return low, low + WINDOW


def drawn(text: str, column: int = 0) -> str:
    """Return `text` as one line of a terminal, from `column` on: tabs as spaces, invisible characters as escapes."""
    cells = []
    for character in text:
        if character == "\t":
            cell = " " * (TAB - column % TAB)
        elif character.isprintable():
            cell = character
        else:
            cell = written_out(character)
        column += width(cell)
        cells.append(cell)
    return "".join(cells)


def width(text: str) -> int:
    """Return how many terminal columns `text` fills: two for East Asian wide characters, none for combining ones."""
    return len(text) if text.isascii() else sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def shown_name(name: str) -> str:
    """Return a file's name as it is shown: relative to the current directory when it is below it."""
    path = Path(name)
    try:
        shown = str(path.relative_to(Path.cwd())) if path.is_absolute() else name
    except (ValueError, OSError):  # not below it, or the current directory is gone
        shown = name
    return drawn(shown)


def note_unknown(
    located: Mapping, known: Collection[str], problems: Problems, message: str, after: str = "", *, lead: str = "it has"
) -> list[Scalar]:
    """Note and return the keys that are not `known`: each with a message before and after its name, and the known."""
    unknown = [key for key, _ in located.entries if key.value not in known]
    for key in unknown:
        problems.add_unknown(f"{message} {quote(key.text)}{after}", key.span, key.text, known, lead)
    return unknown


def missing_keys(located: Mapping, required: Iterable[str], unknown: Iterable[Scalar]) -> list[str]:
    """Return the keys that are missing, except those that an `unknown` key was probably meant to be."""
    missing = [word for word in required if word not in located]
    meant = {nearest(key.text, missing) for key in unknown}
    return [word for word in missing if word not in meant]
