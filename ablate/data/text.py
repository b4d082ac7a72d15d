"""A text of a corpus, the splits it can go to, and the protocol of a source of texts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

Split: TypeAlias = Literal["train", "tuning", "verdict"]

SPLITS: tuple[Split, ...] = ("train", "tuning", "verdict")
"""Models learn from train, learning rates are chosen on tuning, and verdicts are given on verdict."""


@dataclass(frozen=True, slots=True)
class Text:
    """One document: a name that is the same on every machine, and its text in UTF-8 with newlines as `\\n`.

    Of a corpus with a `layout`, the content is the bytes of a record instead (`data/record_stream.py`).
    """

    name: str
    content: bytes

    @property
    def folder(self) -> str:
        """The unit that is held out: the first folder of the name; for a file outside any folder the file itself."""
        return folder_of(self.name)


def folder_of(name: str) -> str:
    """Return the first folder of a name; the name itself if it has none."""
    return name.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Skipped:
    """A document that could not be read as text, and why."""

    name: str
    reason: str


class TextSource(Protocol):
    """A source of texts."""

    @property
    def title(self) -> str:
        """The name in reports."""

    @property
    def place(self) -> str:
        """The location on this machine; with the `Data` document it identifies the source."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the location, for the report."""

    def stamp(self) -> str | None:
        """Return a value that changes when the source seems to have changed, without reading any text.

        None if that cannot be told, and the source has to be read.
        """

    def texts(self) -> Iterator[Text | Skipped]:
        """Yield every document, each under a unique name, in an order that is always the same."""
