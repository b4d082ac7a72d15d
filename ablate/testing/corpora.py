"""The contract of a corpus, to inherit: seven checks of what plans, caches and workers rely on.

`ablate docs corpus` shows its use. The corpus is written as in `data.corpus` of a space, and is read several times: use
a small part of a large one.
"""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path

from ablate import api
from ablate.data.record_stream import words_of
from ablate.data.sources import Skipped, Text, TextSource
from ablate.errors import InputError
from ablate.extension.loader import implementation
from ablate.source.document import NO_HINTS
from ablate.source.problems import Problems
from ablate.source.yaml import parse_yaml
from ablate.space.data import CorpusSettings, CorpusSpec, read_corpus_choice
from ablate.space.documents import CorpusChoice
from ablate.testing.contract import Contract


class CorpusContract(Contract):
    """Seven tests of one corpus. `folder` is that of the space, to which paths are relative; `plugins` are read."""

    corpus: str = ""
    folder: str | Path = "."

    def test_texts_are_utf_8_under_names_of_their_own(self) -> None:
        """There is a text, or a record of the layout; no two share a name, and every skipped one has a reason."""
        documents = list(self.opened().texts())
        assert any(isinstance(each, Text) and each.content for each in documents), "no document contains any text"
        names = [each.name for each in documents]
        assert all(names) and len(set(names)) == len(names), "two documents share a name, or one has none"
        for each in documents:
            if isinstance(each, Skipped):
                assert each.reason, f"{each.name} is skipped without a reason"
            elif (layout := self.settings().layout) is None:
                each.content.decode("utf-8")
            else:
                wrong = f"{each.name} has {len(each.content)} bytes, not those of a record of {layout}"
                assert len(each.content) == 2 * words_of(layout), wrong

    def test_order_is_stable(self) -> None:
        """Each reading gives the same documents in the same order."""
        source = self.opened()
        first = list(source.texts())
        assert list(source.texts()) == first, "read again, it gives other documents or another order"
        assert list(self.opened().texts()) == first, "opened again, it gives other documents or another order"

    def test_stamp_is_stable(self) -> None:
        """An unchanged corpus keeps its stamp (or has None while it is too new), also after reading."""
        source = self.opened()
        stamp = source.stamp()
        assert stamp is None or (isinstance(stamp, str) and stamp), f"a stamp must be a string or None, not {stamp!r}"
        for _ in source.texts():
            pass
        again = self.opened().stamp()
        assert stamp is None or again == stamp, f"the stamp {stamp!r} became {again!r}, though nothing changed"

    def test_title_and_place(self) -> None:
        """It has a title and a place, the same each time."""
        source, other = self.opened(), self.opened()
        for name in ("title", "place"):
            text = getattr(source, name)
            assert isinstance(text, str) and text, f"{name} must be a string, not {text!r}"
            assert getattr(other, name) == text, f"opened again, its {name} is different"
        assert isinstance(source.notes, tuple), "notes must be a tuple of strings"

    def test_is_sent_to_workers(self) -> None:
        """Its settings are plain data: pickling or JSON and back leaves them unchanged."""
        chosen = self.chosen()
        assert pickle.loads(pickle.dumps(chosen)) == chosen, "pickling and unpickling changes it"
        written = CorpusChoice.of(json.loads(json.dumps(chosen.plain())))
        assert written == chosen, f"written as JSON, {chosen.plain()} comes back as {written.plain()}"

    def test_no_more_is_read_than_at_most(self) -> None:
        """With `at_most`, reading ends at the document, or the pair, that reaches it."""
        chosen = self.chosen()
        if "at_most" not in chosen.settings:
            return
        small = replace(chosen, settings={**chosen.settings, "at_most": 1})
        texts = [each for each in self.opened(small).texts() if isinstance(each, Text) and each.content]
        assert len(texts) <= 1 + self.are_pairs(), (
            f"at_most: 1 is reached by the first text, but {len(texts)} were read"
        )

    def test_pairs_stand_side_by_side(self) -> None:
        """Where its settings say that it has pairs, each source is followed by its target, in the same folder."""
        if not self.are_pairs():
            return
        texts = [each for each in self.opened().texts() if isinstance(each, Text)]
        assert len(texts) % 2 == 0, f"{len(texts)} texts are no pairs: one has no other"
        for source, target in zip(texts[::2], texts[1::2], strict=True):
            assert source.folder == target.folder, f"{source.name} and {target.name} are a pair, but not in one folder"

    def chosen(self) -> CorpusChoice:
        """Return the corpus as a space has it; InputError for a mistake in its YAML."""
        problems, written = Problems(), self.corpus
        located = parse_yaml(f"{{{written}}}" if ":" in written and "{" not in written[:1] else written, "corpus")
        chosen = read_corpus_choice(located, located.span, self._known(), "corpus", problems, NO_HINTS)
        problems.raise_if_any()
        if chosen is None:
            raise InputError(
                f"{type(self).__name__}.corpus names no corpus: {written!r}\n  = name one that a plugin declares"
            )
        return chosen

    def opened(self, chosen: CorpusChoice | None = None) -> TextSource:
        """Return a new reader of the texts."""
        chosen = chosen or self.chosen()
        spec = self._known()[chosen.name]
        source: TextSource = implementation(spec)(spec.read(chosen.settings), Path(self.folder))
        return source

    def are_pairs(self) -> bool:
        """Return whether the settings of the corpus say that its texts are pairs."""
        return self.settings().pairs

    def settings(self) -> CorpusSettings:
        """Return the settings of the corpus, read."""
        chosen = self.chosen()
        settings: CorpusSettings = self._known()[chosen.name].read(chosen.settings)
        return settings

    def _known(self) -> dict[str, CorpusSpec]:
        return dict(api.catalogue(self.plugins).of_kind(CorpusSpec))
