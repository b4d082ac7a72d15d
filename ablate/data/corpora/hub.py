"""A split of a data set of the Hugging Face hub, streamed as far as the steps need it."""

from __future__ import annotations

from collections.abc import Iterator
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
from ablate.data.sources import Row
from ablate.source.problems import quote, suggest


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


S = TypeVar("S")
DAMAGED: Final = (OSError, ValueError, SyntaxError)  # Pillow's errors for files of images that are damaged or cut off


@dataclass(frozen=True)
class OfTheHub(Generic[S]):
    """A corpus that is read from some `fields` of a data set, by the settings of the corpus `corpus`.

    It is read once: its stamp never changes, so that a cached corpus needs no network. Delete the cache to read it
    again. `instead` is how a space names a corpus that needs no network.
    """

    settings: S
    corpus: ClassVar[str]
    fields: ClassVar[tuple[str, ...]]
    instead: ClassVar[str]

    @property
    def name(self) -> str:
        return str(getattr(self.settings, self.corpus))

    @property
    def title(self) -> str:
        chosen: Any = self.settings
        config = f", {chosen.config}" if chosen.config else ""
        fields = " and ".join(getattr(chosen, field) for field in self.fields)
        noun = "field" if len(self.fields) == 1 else "fields"
        return f"hub {self.name}{config}, split {chosen.split}, {noun} {fields}, the first {chosen.at_most:,} bytes"

    @property
    def place(self) -> str:
        """The name on the hub: the same on every machine."""
        return f"hub:{self.name}"

    @property
    def notes(self) -> tuple[str, ...]:
        return ()

    def stamp(self) -> str | None:
        chosen: Any = self.settings
        return str(chosen.model_dump_json())

    def rows(self, image: str | None = None) -> Iterator[Row]:
        """Yield the rows of the split. Raises CorpusError, located at the corpus's name, if the hub cannot be read.

        In the field `image` a row has None where its image is damaged; without that name, such a row ends the set.
        """
        from datasets import load_dataset

        chosen: Any = self.settings
        try:
            rows = load_dataset(self.name, chosen.config, split=chosen.split, streaming=True)
            yield from rows if image is None else _each_decoded(rows, image)
        except (OSError, ValueError, RuntimeError) as error:  # no network, no such set or split; a set that is a script
            message = f"cannot read split {quote(chosen.split)} of {quote(self.name)}: {error}"
            notes = (
                "a hub data set needs a network, the right name and split, and access on the hub",
                f"without a network: {self.instead}",
            )
            raise CorpusError([CorpusFault(message, (*CORPUS, self.corpus), notes=notes)]) from error

    def without_field(self, field: str, row: Row, setting: str) -> CorpusError:
        """The error that a row lacks a field, with the fields it has, at the setting that names it."""
        label, notes = suggest(field, row) or "", (f"its fields: {', '.join(sorted(row))}",)
        fault = CorpusFault(f"{quote(self.name)} has no field {quote(field)}", (*CORPUS, setting), label, notes)
        return CorpusError([fault])


def _each_decoded(rows: Any, field: str) -> Iterator[Row]:
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


def _decoded(feature: Any, value: Any) -> object:
    """The image; None for no image or one that is damaged. Raises OSError if its file cannot be read at all."""
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


class HubDataset(OfTheHub[Hub]):
    """The texts in `field` of one split of a data set, in its own order, up to the one that reaches `at_most` bytes."""

    corpus = "hub"
    fields = ("field",)
    instead = "corpus: python_stdlib, or files of your own: corpus: {files: ['texts/**/*.txt']}"

    def stamp(self) -> str | None:
        chosen = self.settings
        config = f"{chosen.config}/" if chosen.config else ""
        return f"{chosen.hub}/{config}{chosen.split}/{chosen.field}/{chosen.at_most}"

    def texts(self) -> Iterator[Text | Skipped]:
        """Yield documents, named by their position. Raises CorpusError if the hub cannot be read or lacks the field."""
        read = 0
        for position, row in enumerate(self.rows()):
            document = self._text(f"{position:09d}", row)
            yield document
            read += len(document.content) if isinstance(document, Text) else 0
            if read >= self.settings.at_most:
                return

    def _text(self, name: str, row: Row) -> Text | Skipped:
        field = self.settings.field
        if field not in row:
            raise self.without_field(field, row, "field")
        text = row[field]
        if not isinstance(text, str):
            return Skipped(name, "contains no text")
        try:
            return Text(name, text.encode("utf-8"))
        except UnicodeEncodeError as error:  # half of a surrogate pair
            return Skipped(name, str(error))


@implements(Hub)
def read(settings: Hub, folder: Path) -> HubDataset:
    return HubDataset(settings)
