"""The contract of a corpus, to inherit: what plans, caches and workers rely on.

    from ablate.testing import CorpusContract

    class TestPoems(CorpusContract):
        plugins = ("poems.py",)
        corpus = "poems: verses.txt"
        folder = "texts"

pytest finds the tests of such a class; without pytest, `TestPoems().check_all()` runs them. The corpus is written as
behind `data.corpus` of a space, and is read several times: name a small part of a large one.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ablate import api
from ablate.data.text import Skipped, Text, TextSource
from ablate.errors import InputError
from ablate.extension.loader import implementation
from ablate.source.document import NO_HINTS
from ablate.source.problems import Problems
from ablate.source.yaml import parse_yaml
from ablate.space.choice import CorpusChoice
from ablate.space.corpora import CorpusSpec, read_corpus_choice


class CorpusContract:
    """Six tests of one corpus. `folder` is that of the space, where relative paths start; `plugins` are read."""

    corpus: str = ""
    folder: str | Path = "."
    plugins: Sequence[str | Path] = ()

    def test_texts_are_utf_8_under_names_of_their_own(self) -> None:
        """There is a text, no two documents share a name, and whatever is left out says why."""
        found = list(self.opened().texts())
        assert any(isinstance(each, Text) and each.content for each in found), "no document holds any text"
        names = [each.name for each in found]
        assert all(names) and len(set(names)) == len(names), "two documents have one name, or one has none"
        for each in found:
            if isinstance(each, Skipped):
                assert each.reason, f"{each.name} is skipped, and nothing says why"
            else:
                each.content.decode("utf-8")

    def test_order_is_stable(self) -> None:
        """Each reading gives the same documents in the same order."""
        source = self.opened()
        first = list(source.texts())
        assert list(source.texts()) == first, "read again, it gives other documents, or in another order"
        assert list(self.opened().texts()) == first, "opened again, it gives other documents, or in another order"

    def test_stamp_is_stable(self) -> None:
        """What has not changed has one stamp, or none because it is too new; reading changes nothing of that."""
        source = self.opened()
        stamp = source.stamp()
        assert stamp is None or (isinstance(stamp, str) and stamp), f"a stamp is a text or None, not {stamp!r}"
        for _ in source.texts():
            pass
        again = self.opened().stamp()
        assert stamp is None or again == stamp, f"the stamp {stamp!r} became {again!r}, though nothing changed"

    def test_title_and_place(self) -> None:
        """It says what it is called and where it is, and the same each time."""
        source, other = self.opened(), self.opened()
        for name in ("title", "place"):
            said = getattr(source, name)
            assert isinstance(said, str) and said, f"{name} is a text, not {said!r}"
            assert getattr(other, name) == said, f"opened again, its {name} is another"
        assert isinstance(source.notes, tuple), "notes are a tuple of texts"

    def test_is_sent_to_workers(self) -> None:
        """What a space says of it is plain: pickled or written as JSON it comes back as it was."""
        chosen = self.chosen()
        assert pickle.loads(pickle.dumps(chosen)) == chosen, "pickled, it comes back as another"
        written = CorpusChoice.of(json.loads(json.dumps(chosen.plain())))
        assert written == chosen, f"written as JSON, {chosen.plain()} comes back as {written.plain()}"

    def test_no_more_is_read_than_at_most(self) -> None:
        """Of a corpus with `at_most`, reading ends with the document that reaches it."""
        chosen = self.chosen()
        if "at_most" not in chosen.settings:
            return
        small = replace(chosen, settings={**chosen.settings, "at_most": 1})
        texts = [each for each in self.opened(small).texts() if isinstance(each, Text) and each.content]
        assert len(texts) <= 1, f"at_most: 1 is reached by the first text, and {len(texts)} were read"

    def check_all(self) -> None:
        """Every test, one after another; the first AssertionError says what does not hold."""
        for name in dir(self):
            if name.startswith("test_"):
                getattr(self, name)()

    def chosen(self) -> CorpusChoice:
        """The corpus as a space has it; InputError for a mistake in how it is written."""
        problems, written = Problems(), self.corpus
        located = parse_yaml(f"{{{written}}}" if ":" in written and "{" not in written[:1] else written, "corpus")
        chosen = read_corpus_choice(located, located.span, self._known(), "corpus", problems, NO_HINTS)
        problems.raise_if_any()
        if chosen is None:
            raise InputError(f"{type(self).__name__}.corpus names no corpus: {written!r}\n  = name one of a plugin")
        return chosen

    def opened(self, chosen: CorpusChoice | None = None) -> TextSource:
        """What reads the texts, made anew."""
        chosen = chosen or self.chosen()
        spec = self._known()[chosen.name]
        source: TextSource = implementation(spec)(spec.read(chosen.settings), Path(self.folder))
        return source

    def _known(self) -> dict[str, CorpusSpec]:
        return dict(api.catalogue(self.plugins).of_kind(CorpusSpec))
