"""Local Parquet files with a text column, one document per row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ablate.data.corpora.declare import (
    CORPUS,
    Bytes,
    CorpusError,
    CorpusFault,
    NamedRows,
    Patterns,
    Settings,
    corpus,
    implements,
)
from ablate.data.sources import FoundFile
from ablate.source.problems import quote

BATCH = 1024  # rows in memory at a time


@corpus("parquet", source="Apache Parquet, parquet.apache.org", version=1)
class Parquet(Settings):
    """`{parquet: ['texts/*.parquet'], field: text}`: patterns as for `files`. The unit that is held out is a row.

    At most `at_most` bytes of text are read (null: no limit), and no more than the steps need.
    """

    parquet: Patterns
    field: str
    at_most: Bytes | None = None

    @property
    def patterns(self) -> tuple[str, ...]:
        return self.parquet


@implements(Parquet)
def read(settings: Parquet, folder: Path) -> ParquetRows:
    return ParquetRows(settings, folder, settings.field, settings.at_most)


@dataclass(frozen=True)
class ParquetRows(NamedRows):
    """A text column of Parquet files, read a batch of rows at a time."""

    key: ClassVar[str] = "parquet"

    def rows(self, file: FoundFile) -> Iterator[tuple[int, object]]:
        """Yield the rows, numbered from 0. Raises CorpusError if the file is not Parquet or the column is not text."""
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile

        try:
            with ParquetFile(file.path) as opened:
                self._check_column(file, opened.schema_arrow)
                batches = opened.iter_batches(batch_size=BATCH, columns=[self.field])
                yield from enumerate(_text(value) for batch in batches for value in self._column(batch))
        except (OSError, ArrowException) as error:
            way = "name complete Parquet files"
            raise CorpusError([self.fault(file, f"cannot read {file.path} as Parquet: {error}", "", way)]) from error

    def _column(self, batch: Any) -> Any:
        """The column itself: `columns=` also reads a structure's field whose dotted name is the same."""
        return batch.column(batch.schema.get_field_index(self.field))

    def _check_column(self, file: FoundFile, schema: Any) -> None:
        if self.field not in schema.names:
            raise CorpusError([self.without_field(str(file.path), schema.names)])
        if schema.names.count(self.field) > 1:
            message = f"{file.path} has {schema.names.count(self.field)} columns named {quote(self.field)}"
            raise CorpusError([CorpusFault(message, (*CORPUS, "field"), notes=("write it with unique column names",))])
        kind = schema.field(self.field).type
        if not _is_text(kind):
            texts = [column.name for column in schema if _is_text(column.type)]
            way = f"its text columns: {', '.join(texts)}" if texts else "it has no text column"
            message = f"field {quote(self.field)} of {file.path} holds {kind}, not text"
            raise CorpusError([CorpusFault(message, (*CORPUS, "field"), notes=(way,))])


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    return any(is_kind(kind) for is_kind in (types.is_string, types.is_large_string, types.is_string_view))


def _text(value: Any) -> object:
    try:
        return value.as_py()
    except UnicodeDecodeError:
        return None
