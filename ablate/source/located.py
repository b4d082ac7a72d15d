"""Immutable values with their position: `Scalar`, `Mapping`, `Items`, each with its `Span` of a `Source`."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

Atom: TypeAlias = bool | int | float | str | None  # the value of a scalar

_BREAK = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class Source:
    """A text and the name that messages give it: a path, or `--set`."""

    name: str
    text: str = field(repr=False)

    @cached_property
    def _starts(self) -> tuple[int, ...]:
        return (0, *(match.end() for match in _BREAK.finditer(self.text)))

    def line(self, number: int) -> str:
        """Return line `number`, from 1, without its line break; empty past the end."""
        if number > len(self._starts):
            return ""
        end = self._starts[number] if number < len(self._starts) else len(self.text)
        return self.text[self._starts[number - 1] : end].rstrip("\r\n")

    def offset(self, line: int, column: int) -> int:
        return self._starts[line - 1] + column - 1

    def whole_line(self, number: int) -> Span:
        start = self.offset(number, 1)
        return self.span(start, start + len(self.line(number)))

    def span(self, start: int, end: int) -> Span:
        """Return the span of the characters from `start` up to but not including `end`."""
        return Span(self, *self._place(start), *self._place(end))

    def _place(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a source. Lines and columns count from 1, in characters; the end is exclusive."""

    source: Source
    line: int
    column: int
    end_line: int
    end_column: int

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    @property
    def start(self) -> int:
        return self.source.offset(self.line, self.column)

    @property
    def end(self) -> int:
        return self.source.offset(self.end_line, self.end_column)


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value. `text` is what was written, with quotes, escapes and folding undone: `1e-6` for the value 1e-06.

    Two scalars are equal if value and text are, whatever their places.
    """

    value: Atom
    text: str
    span: Span = field(compare=False, repr=False)

    def within(self, start: int, end: int | None = None) -> Span:
        """Return the span of characters `start` to `end` of `text`; of all of it if escapes or folding moved them."""
        at = self.span.text.find(self.text)
        if at < 0:
            return self.span
        origin = self.span.start + at
        return self.span.source.span(origin + start, origin + (len(self.text) if end is None else end))


@dataclass(frozen=True)
class Mapping:
    """Keys and values in the order written; no key is there twice."""

    entries: tuple[tuple[Scalar, Located], ...]
    span: Span = field(compare=False, repr=False)

    @cached_property
    def _entry(self) -> dict[Atom, tuple[Scalar, Located]]:
        return {key.value: (key, value) for key, value in self.entries}

    def __contains__(self, key: object) -> bool:
        return key in self._entry

    def __getitem__(self, key: Atom) -> Located:
        return self._entry[key][1]

    def __iter__(self) -> Iterator[Atom]:
        return iter(self._entry)

    def __len__(self) -> int:
        return len(self.entries)

    def get(self, key: Atom) -> Located | None:
        """Return the value of a key; None if the key is missing (a null that is written is a Scalar)."""
        return self._entry[key][1] if key in self._entry else None

    def key(self, key: Atom) -> Scalar:
        """Return a key as it is written here, with its place; KeyError if it is missing."""
        return self._entry[key][0]


@dataclass(frozen=True, slots=True)
class Items:
    items: tuple[Located, ...]
    span: Span = field(compare=False, repr=False)

    def __iter__(self) -> Iterator[Located]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


Located: TypeAlias = Scalar | Mapping | Items


def to_python(located: Located) -> Any:
    """Return the plain Python value: None, bool, int, float, str, list or dict."""
    match located:
        case Scalar(value=value):
            return value
        case Mapping(entries=entries):
            return {key.value: to_python(value) for key, value in entries}
        case Items(items=items):
            return [to_python(item) for item in items]
