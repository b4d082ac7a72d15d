"""Local JSONL files of one JSON object per line, one field of which holds a document."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import ClassVar

from ablate.data.corpora.declare import Bytes, CorpusError, NamedRows, Patterns, Settings, corpus, implements
from ablate.data.sources import Absent, FoundFile, Row
from ablate.source.problems import shorten

WAY = 'a JSONL file has one object per line, in UTF-8: {"text": "…"}'


@corpus("jsonl", source="JSON Lines, jsonlines.org", version=1)
class Jsonl(Settings):
    """`{jsonl: ['texts/*.jsonl'], field: text}`: patterns as for `files`. The unit that is held out is a line.

    At most `at_most` bytes of text are read (null: no limit), and no more than the steps need.
    """

    jsonl: Patterns
    field: str
    at_most: Bytes | None = None

    @property
    def patterns(self) -> tuple[str, ...]:
        return self.jsonl


@implements(Jsonl)
def read(settings: Jsonl, folder: Path) -> JsonLines:
    return JsonLines(settings, folder, settings.field, settings.at_most)


@dataclass(frozen=True)
class JsonLines(NamedRows):
    """JSONL in UTF-8; `.gz` is decompressed. Read line by line, so that an error is reported with its line."""

    key: ClassVar[str] = "jsonl"

    def rows(self, file: FoundFile) -> Iterator[tuple[int, object]]:
        """Yield the lines, numbered from 1, without the empty ones."""
        try:
            with _opened(file) as lines:
                for number, line in enumerate(lines, 1):
                    if not line.isspace():
                        row = self._row(file, number, line)
                        yield number, row[self.field] if self.field in row else Absent(tuple(row))
        except (OSError, EOFError, zlib.error) as error:  # a disk error, or a .gz file that is not gzip
            raise CorpusError([self.fault(file, f"cannot read {file.path}: {error}")]) from error

    def _row(self, file: FoundFile, number: int, line: bytes) -> Row:
        try:
            row = json.loads(line.rstrip(b"\r\n").decode("utf-8-sig" if number == 1 else "utf-8"))
        except json.JSONDecodeError as error:
            why = f"{error.msg.removesuffix(' at')} (column {error.colno})"
        except (ValueError, RecursionError) as error:
            why = str(error)
        else:
            if isinstance(row, dict):
                return row
            why = "it is not an object"
        shown = f"the line: {shorten(line.decode('utf-8', 'replace').strip())}"
        message = f"{file.path}, line {number:,}, is not a JSON object: {why}"
        raise CorpusError([self.fault(file, message, "", shown, WAY)])


def _opened(file: FoundFile) -> gzip.GzipFile | BufferedReader:
    return gzip.open(file.path) if file.path.suffix == ".gz" else file.path.open("rb")
