"""Rows of local files, each a document: what JSONL and Parquet have in common.

The unit that is held out is a row, as it is a document on the hub: a data set in rows has no folders of texts that
quote each other, and is often a single file. A row is named by its file and its number there, so that added rows and
files leave the order of all others unchanged.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from ablate.data.local_files import NamedFiles
from ablate.data.refusal import CORPUS, CorpusError, CorpusFault
from ablate.data.survey import FoundFile
from ablate.data.text import Skipped, Text
from ablate.source.problems import quote, suggest


@dataclass(frozen=True)
class NamedRows(NamedFiles):
    """The texts in `field` of the rows of local files, up to the row that reaches `most_bytes` of text (None: all)."""

    field: str
    most_bytes: int | None
    documents: ClassVar[Literal["files", "rows"]] = "rows"

    @abstractmethod
    def rows(self, file: FoundFile) -> Iterator[tuple[int, object]]:
        """Yield the number of each row of a file and the value of its field; an Absent if it has no such field."""

    @property
    def title(self) -> str:
        """The patterns, the field, and how much is read if that is not all."""
        capped = "" if self.most_bytes is None else f", the first {self.most_bytes:,} bytes"
        return f"{self.key} {', '.join(self.patterns)}, field {self.field}{capped}"

    def texts(self) -> Iterator[Text | Skipped]:
        """Yield each row as a document, ordered by file and number. Raises CorpusError for a file that cannot be read.

        A field that the first row lacks is an error; a later row without it is skipped, and reported.
        """
        read, first = 0, True
        for file in self.files:
            for number, value in self.rows(file):
                if first and isinstance(value, Absent):
                    raise CorpusError([self.without_field(f"row {number:,} of {file.name}", value.fields)])
                first = False
                document = _document(f"{file.name.replace('/', ':')}:{number:09d}", value, self.field)
                yield document
                read += len(document.content) if isinstance(document, Text) else 0
                if self.most_bytes is not None and read >= self.most_bytes:
                    return

    def without_field(self, what: str, fields: Iterable[str]) -> CorpusFault:
        """Return the fault that something lacks the field, with the fields it has, to be shown at the field's name."""
        known = sorted(fields)
        label, notes = suggest(self.field, known) or "", (f"its fields: {', '.join(known)}",)
        return CorpusFault(f"{what} has no field {quote(self.field)}", (*CORPUS, "field"), label, notes)


@dataclass(frozen=True, slots=True)
class Absent:
    """Stands for a missing text: the row has only these fields."""

    fields: tuple[str, ...]


def _document(name: str, value: object, field: str) -> Text | Skipped:
    if isinstance(value, Absent):
        return Skipped(name, f"has no field {quote(field)}")
    if not isinstance(value, str):
        return Skipped(name, "contains no text")
    try:
        return Text(name, value.encode("utf-8"))
    except UnicodeEncodeError as error:  # half of a surrogate pair, which JSON can spell
        return Skipped(name, str(error))
