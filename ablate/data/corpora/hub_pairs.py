"""Pairs of a split of a data set of the Hugging Face hub, such as translations and questions with their answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ablate.data.corpora.declare import Bytes, Settings, Skipped, Text, corpus, implements
from ablate.data.corpora.hub import OfTheHub
from ablate.data.sources import Row


@corpus("hub_pairs", source="Hugging Face Hub, huggingface.co/datasets", version=1)
class HubPairs(Settings):
    """`{hub_pairs: NAME, split: train, source: FIELD, target: FIELD}`; `config` names one of several configurations.

    A field inside another is named by both, as `translation.en`. As much as the steps need is read, up to the pair
    that reaches `at_most` bytes: 1 GiB by default, which fits in memory.
    """

    hub_pairs: str
    config: str | None = None
    split: str
    source: str
    target: str
    at_most: Bytes = 2**30

    @property
    def pairs(self) -> bool:
        return True


@implements(HubPairs)
def read(settings: HubPairs, folder: Path) -> HubOfPairs:
    return HubOfPairs(settings)


class HubOfPairs(OfTheHub[HubPairs]):
    """The pairs of one split of a data set, in its own order, up to the pair that reaches `at_most` bytes of text.

    A row without text in one of its fields is skipped as a whole.
    """

    corpus = "hub_pairs"
    fields = ("source", "target")
    instead = "corpus: code_docstrings, pairs of code and summary from Python's own library"

    def texts(self) -> Iterator[Text | Skipped]:
        """Yield the source and the target of each row, named by its position. Raises CorpusError as `hub` does."""
        size = 0
        for position, row in enumerate(self.rows()):
            name = f"{position:09d}"
            texts = [self._content(row, setting) for setting in self.fields]
            if not all(texts):
                yield Skipped(name, "contains no text in one of its fields")
                continue
            for side, content in zip(self.fields, texts, strict=True):
                yield Text(f"{name}/{side}", content)
                size += len(content)
            if size >= self.settings.at_most:
                return

    def _content(self, row: Row, setting: str) -> bytes:
        """The text in a field; empty if it holds none. Raises CorpusError if there is no such field."""
        inside: object = row
        for word in getattr(self.settings, setting).split("."):
            if not isinstance(inside, Mapping) or word not in inside:
                known = inside if isinstance(inside, Mapping) else row
                raise self.without_field(word, known, setting)
            inside = inside[word]
        return inside.encode("utf-8", "ignore") if isinstance(inside, str) else b""
