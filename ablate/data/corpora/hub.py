"""A split of a data set of the Hugging Face hub, streamed as far as the steps need it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, TypeVar

from ablate.data.corpora.declare import (
    CORPUS,
    Bytes,
    CorpusError,
    CorpusFault,
    Settings,
    Skipped,
    Text,
    corpus,
    implements,
)
from ablate.source.problems import quote, suggest

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


# What every corpus of the hub reads: the rows of a data set, streamed in its own order, and the error where they
# cannot be read.

S = TypeVar("S")
DAMAGED: Final = (OSError, ValueError, SyntaxError)
"""What Pillow raises for files of images that are damaged or cut off."""


@dataclass(frozen=True)
class OfTheHub(Generic[S]):
    """A corpus that is read from several `fields` of a data set, by the settings of the corpus `corpus`.

    It is read once: its stamp never changes, so that a cached corpus needs no network. Delete the cache to read it
    again.
    """

    settings: S
    corpus: ClassVar[str]
    fields: ClassVar[tuple[str, str]]

    @property
    def name(self) -> str:
        """The name of the data set."""
        return str(getattr(self.settings, self.corpus))

    @property
    def title(self) -> str:
        """The name on the hub, and how much of it is read at most."""
        chosen: Any = self.settings
        config = f", {chosen.config}" if chosen.config else ""
        fields = " and ".join(getattr(chosen, field) for field in self.fields)
        return f"hub {self.name}{config}, split {chosen.split}, fields {fields}, the first {chosen.at_most:,} bytes"

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
        chosen: Any = self.settings
        return str(chosen.model_dump_json())


def hub_rows(
    name: str, config: str | None, split: str, *, corpus: str, instead: str, image: str | None = None
) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of one split. Raises CorpusError, located at the setting `corpus`, if the hub cannot be read.

    `instead` is how a space names a corpus that needs no network. In the field `image` a row has None where its image
    is damaged; without that name, such a row ends the set.
    """
    from datasets import load_dataset

    try:
        rows = load_dataset(name, config, split=split, streaming=True)
        yield from rows if image is None else _each_decoded(rows, image)
    except (OSError, ValueError, RuntimeError) as error:  # no network, no such set or split; a set that is a script
        message = f"cannot read split {quote(split)} of {quote(name)}: {error}"
        notes = (
            "a hub data set needs a network, the right name and split, and access on the hub",
            f"without a network: {instead}",
        )
        raise CorpusError([CorpusFault(message, (*CORPUS, corpus), notes=notes)]) from error


def _each_decoded(rows: Any, field: str) -> Iterator[Mapping[str, Any]]:
    """Yield the rows, the images of one field decoded as the set says, and not by its iteration: that ends at a fault.

    What is no set of images, or does not say so, is yielded as it is.
    """
    from datasets import Image

    feature = (rows.features or {}).get(field)
    if not isinstance(feature, Image) or not feature.decode:
        yield from rows
        return
    for row in rows.cast_column(field, Image(decode=False)):
        yield {**row, field: _decoded(feature, row[field])}


def _decoded(feature: Any, value: Mapping[str, Any] | None) -> Any:
    """Return an image; None for no image or one that is damaged. Raises OSError if its file cannot be read at all."""
    if value is None:
        return None
    content = value["bytes"]
    if content is None and value["path"] is not None:
        from datasets.utils.file_utils import xopen

        with xopen(value["path"], "rb") as file:  # a path on this machine, on the hub, or in an archive there
            content = file.read()
    try:
        return feature.decode_example({"bytes": content, "path": None})
    except DAMAGED:
        return None


def without_field(name: str, field: str, row: Mapping[str, Any], setting: str) -> CorpusFault:
    """Return the fault that a row of a data set lacks a field, with the fields it has, at the setting that names it."""
    label, notes = suggest(field, row) or "", (f"its fields: {', '.join(sorted(row))}",)
    return CorpusFault(f"{quote(name)} has no field {quote(field)}", (*CORPUS, setting), label, notes)
