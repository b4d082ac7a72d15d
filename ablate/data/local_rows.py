"""Rows of local files, each a document: what JSONL and Parquet have in common.

A row is what is held out as a whole, as a document of the hub is: a data set that is kept in rows has no folders of
texts that quote each other, and often is a single file. It is named by its file and its number there, so that rows and
files that are added leave the order of all others as it was.
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
        """The number of each row of a file, and what its field holds; an Absent where it has no such field."""

    @property
    def title(self) -> str:
        """The patterns, the field, and how much of it is read where that is not all."""
        capped = "" if self.most_bytes is None else f", the first {self.most_bytes:,} bytes"
        return f"{self.key} {', '.join(self.patterns)}, field {self.field}{capped}"

    def texts(self) -> Iterator[Text | Skipped]:
        """Each row as a document, ordered by file and number. Raises CorpusError for a file that cannot be read.

        A field that the first row lacks is a mistake; a later row without it is skipped, and named.
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
        """That something has other fields, and which, to be shown at the field that is said."""
        known = sorted(fields)
        label, notes = suggest(self.field, known) or "", (f"its fields: {', '.join(known)}",)
        return CorpusFault(f"{what} has no field {quote(self.field)}", (*CORPUS, "field"), label, notes)


@dataclass(frozen=True, slots=True)
class Absent:
    """In the place of a text: the row has these fields alone."""

    fields: tuple[str, ...]


def _document(name: str, value: object, field: str) -> Text | Skipped:
    if isinstance(value, Absent):
        return Skipped(name, f"has no field {quote(field)}")
    if not isinstance(value, str):
        return Skipped(name, "holds no text")
    try:
        return Text(name, value.encode("utf-8"))
    except UnicodeEncodeError as error:  # half of a surrogate pair, which JSON can spell
        return Skipped(name, str(error))
