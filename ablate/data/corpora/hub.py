"""A split of a data set of the Hugging Face hub, streamed as far as the steps need it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ablate.data.corpora.declare import Bytes, CorpusError, Settings, Skipped, Text, corpus, implements
from ablate.data.hub_rows import hub_rows, without_field

INSTEAD = "corpus: python_stdlib, or files of your own: corpus: {files: ['texts/**/*.txt']}"


@corpus("hub", source="Hugging Face Hub, huggingface.co/datasets", version=1)
class Hub(Settings):
    """`{hub: NAME, split: train, field: text}`: `field` holds the text, `config` names one of several configurations.

    As much as the steps need is read, up to the document that reaches `at_most` bytes: 1 GiB by default, which fits in
    memory.
    """

    hub: str
    config: str | None = None
    split: str
    field: str
    at_most: Bytes = 2**30


@implements(Hub)
def read(settings: Hub, folder: Path) -> HubDataset:
    """Return the reader of the data set; the folder of the space does not matter."""
    return HubDataset(settings.hub, settings.split, settings.field, settings.config, settings.at_most)


@dataclass(frozen=True)
class HubDataset:
    """The texts in `field` of one split of the data set `name`, in its own order.

    They are read up to the document that reaches `most_bytes` of text, and the title says so. `config` is None for a
    set with a single configuration. It is read once: its stamp never changes, so that a cached corpus needs no network.
    Delete the cache to read it again.
    """

    name: str
    split: str
    field: str
    config: str | None
    most_bytes: int

    @property
    def title(self) -> str:
        """The name on the hub, and how much of it is read at most."""
        config = f", {self.config}" if self.config else ""
        return f"hub {self.name}{config}, split {self.split}, field {self.field}, the first {self.most_bytes:,} bytes"

    @property
    def place(self) -> str:
        """The name on the hub: the same on every machine."""
        return f"hub:{self.name}"

    @property
    def notes(self) -> tuple[str, ...]:
        """No notes: the title says everything."""
        return ()

    def stamp(self) -> str | None:
        """Return a stamp that never changes for these settings."""
        config = f"{self.config}/" if self.config else ""
        return f"{self.name}/{config}{self.split}/{self.field}/{self.most_bytes}"

    def texts(self) -> Iterator[Text | Skipped]:
        """Yield documents, named by their position. Raises CorpusError if the hub cannot be read or lacks the field."""
        read = 0
        for position, row in enumerate(hub_rows(self.name, self.config, self.split, corpus="hub", instead=INSTEAD)):
            document = self._text(f"{position:09d}", row)
            yield document
            read += len(document.content) if isinstance(document, Text) else 0
            if read >= self.most_bytes:
                return

    def _text(self, name: str, row: Mapping[str, Any]) -> Text | Skipped:
        if self.field not in row:
            raise CorpusError([without_field(self.name, self.field, row, "field")])
        text = row[self.field]
        if not isinstance(text, str):
            return Skipped(name, "contains no text")
        try:
            return Text(name, text.encode("utf-8"))
        except UnicodeEncodeError as error:  # half of a surrogate pair
            return Skipped(name, str(error))
