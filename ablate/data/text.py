"""A text of a corpus, the splits it can go to, and what a source of texts is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

Split: TypeAlias = Literal["train", "tuning", "verdict"]

SPLITS: tuple[Split, ...] = ("train", "tuning", "verdict")
"""Models learn from train, learning rates are chosen on tuning, and verdicts are given on verdict."""


@dataclass(frozen=True, slots=True)
class Text:
    """One document: a name that is the same on every machine, and its text in UTF-8 with newlines as `\\n`."""

    name: str
    content: bytes

    @property
    def folder(self) -> str:
        """What is held out as one: the first folder of the name, or for a file outside any folder the file itself."""
        return folder_of(self.name)


def folder_of(name: str) -> str:
    """The first folder of a name; the name itself where it has none."""
    return name.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Skipped:
    """A document that was found but could not be read as text, and why."""

    name: str
    reason: str


class TextSource(Protocol):
    """Where texts come from."""

    @property
    def title(self) -> str:
        """What it is called in reports."""

    @property
    def place(self) -> str:
        """Where it is on this machine; with the `Data` document it identifies the source."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be said of where it is."""

    def stamp(self) -> str | None:
        """A value that changes when the source seems to have changed, found without reading any text.

        None where that cannot be told, and the source has to be read.
        """

    def texts(self) -> Iterator[Text | Skipped]:
        """Every document, each of another name, in an order that is always the same."""
