"""The judged tables that a folder keeps: runs that were trained elsewhere, with what was asked of them.

{"table": id, "first_seen": …, "document": {"space": …, "rows": digest, "question": {…}, "runs": […], …}}

The table of a space with the largest number is its current one: the last that was judged. Its cells, as they were
read, are a source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ablate.store.documents import TableDocument, TableFile
from ablate.store.files import Document


@dataclass(frozen=True, slots=True)
class KeptTable:
    """A judged table as it is kept: its file, its id, when it was judged first, and its document."""

    file: str
    number: int
    id: str
    first_seen: float
    document: TableDocument

    @property
    def space(self) -> str:
        return self.document["space"]


def kept_tables(documents: Iterable[Document[TableFile]]) -> Mapping[str, tuple[KeptTable, ...]]:
    """Return the tables of each space from their documents, given in the order of their numbers; of one, the latest."""
    tables: dict[str, KeptTable] = {}
    for file in documents:
        content = file.content
        tables.pop(content["table"], None)
        tables[content["table"]] = KeptTable(
            file.name, file.number, content["table"], content["first_seen"], content["document"]
        )
    of_space: dict[str, tuple[KeptTable, ...]] = {}
    for table in tables.values():
        of_space[table.space] = (*of_space.get(table.space, ()), table)
    return of_space


def runs_in(document: TableDocument) -> Iterator[tuple[str, int | str, str, str | None, float | None]]:
    """Yield the variant, the seed, the status, and a metric with its value, of each run; None for a run without one."""
    for variant, seed, status, metrics in document["runs"]:
        for metric, value in metrics.items() or [(None, None)]:
            yield variant, seed, status, metric, value


def seeds_in(seeds: Sequence[Any]) -> list[int] | None:
    """Return seeds that are numbers, as a column has them; None for names."""
    return [int(seed) for seed in seeds] if all(isinstance(seed, int) for seed in seeds) else None
