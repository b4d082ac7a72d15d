"""A source, read and divided into splits."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ablate.block.catalogue import Catalogue
from ablate.components.registry import declarations
from ablate.data.local_files import NamedFiles
from ablate.data.local_rows import NamedRows
from ablate.data.refusal import CORPUS, CorpusError, CorpusFault
from ablate.data.splits import assign_splits
from ablate.data.text import SPLITS, Skipped, Split, Text, TextSource, folder_of
from ablate.data.tokenizer import vocab_size_of
from ablate.errors import InputError
from ablate.extension.loader import implementation
from ablate.source.problems import quote, unknown
from ablate.space.corpora import CorpusSpec, Layout
from ablate.space.documents import Data

FIELDS = ("field", "image", "source")
"""The settings that name the field of a row which holds an example, or the first half of one."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """The texts of each split, ordered by name, the documents that could not be read, and notes on the source."""

    title: str
    texts: Mapping[Split, tuple[Text, ...]]
    skipped: tuple[Skipped, ...]
    notes: tuple[str, ...] = ()

    def bytes_of(self, split: Split) -> int:
        """Return the bytes of text in a split."""
        return sum(len(text.content) for text in self.texts[split])

    @property
    def digest(self) -> str:
        """A hash of the contents of all texts, in order, with their splits; names and times are left out."""
        running = hashlib.sha256()
        for split in SPLITS:
            running.update(f"{split} {len(self.texts[split])}\n".encode())
            for text in self.texts[split]:
                running.update(f"{len(text.content)}\n".encode())
                running.update(text.content)
        return running.hexdigest()


def corpus_of(data: Data, catalogue: Catalogue | None = None) -> CorpusSpec:
    """Return the corpus that `data` names, from the `catalogue` (by default that of what ships and is installed).

    Raises InputError if there is none of that name, for example because a plugin was not given this time.
    """
    known = (declarations() if catalogue is None else catalogue).of_kind(CorpusSpec)
    name = data.corpus.name
    if name not in known:
        way = "name the file that declares it: --plugin FILE.py"
        message = f"there is no corpus {quote(name)}"
        raise unknown(message, name, known, "corpora", command="ablate list corpora", notes=(way,))
    return known[name]


def outputs_of(data: Data, catalogue: Catalogue | None = None) -> int:
    """Return the size of the vocabulary, or the number of classes, which are known before anything is read."""
    layout = corpus_of(data, catalogue).layout(data.corpus.settings)
    return vocab_size_of(data.tokenizer) if layout is None else layout.classes


def source_of(data: Data, folder: Path, catalogue: Catalogue | None = None) -> TextSource:
    """Return the source that `data` names; relative patterns start from `folder`."""
    spec = corpus_of(data, catalogue)
    source: TextSource = implementation(spec)(spec.read(data.corpus.settings), folder)
    return source


def read_corpus(data: Data, folder: Path, catalogue: Catalogue | None = None) -> Corpus:
    """Read every text that `data` names, each into the split of its folder.

    Raises CorpusError if nothing can be read, or if there are too few folders for the requested splits; InputError
    if the shares held out leave nothing to train on.
    """
    layout = corpus_of(data, catalogue).layout(data.corpus.settings)
    return divide(source_of(data, folder, catalogue), data, layout)


def divide(source: TextSource, data: Data, layout: Layout | None = None) -> Corpus:
    """Read a source, whose examples are of a `layout` if they are no text, and divide it into splits.

    See `read_corpus`.
    """
    if data.tuning + data.verdict >= 1:
        raise InputError(
            f"data: tuning {data.tuning:.0%} and verdict {data.verdict:.0%} together leave nothing to train on; "
            "hold out less, for instance 5% each."
        )
    documents = list(source.texts())
    texts = [each for each in documents if isinstance(each, Text)]
    skipped = tuple(each for each in documents if isinstance(each, Skipped))
    if not any(text.content for text in texts):
        raise CorpusError([_empty(source, data, layout, len(texts), skipped)])
    sizes: defaultdict[str, int] = defaultdict(int)
    for text in texts:
        sizes[text.folder] += len(text.content)
    splits = assign_splits(sizes, tuning=data.tuning, verdict=data.verdict)
    _require_every_split(source, data, layout, sizes)
    members = {split: tuple(text for text in texts if splits[text.folder] == split) for split in SPLITS}
    return Corpus(title=source.title, texts=members, skipped=skipped, notes=source.notes)


def survey(data: Data, folder: Path, catalogue: Catalogue | None = None) -> None:
    """Raise CorpusError if `data` names files that are missing, are all empty, or are too few for the splits.

    No text is read and no hub is contacted, so the number of rows in a file is not checked yet.
    """
    source = source_of(data, folder, catalogue)
    if not isinstance(source, NamedFiles):
        return
    sizes: defaultdict[str, int] = defaultdict(int)
    for file in source.files:
        sizes[folder_of(file.name)] += max(0, file.size)
    if not any(sizes.values()):
        raise CorpusError([_empty(source, data, None, len(source.files), ())])
    if source.documents == "files":
        _require_every_split(source, data, None, sizes)


def _empty(
    source: TextSource, data: Data, layout: Layout | None, read: int, skipped: tuple[Skipped, ...]
) -> CorpusFault:
    """Return the fault that nothing could be read, at the setting that names the field of a row, if there is one."""
    counts = [f"{read:,} empty"] * (read > 0) + [f"{len(skipped):,} that could not be read"] * (len(skipped) > 0)
    reasons = tuple(f"{each.name}: {each.reason}" for each in skipped[:5])
    nouns, nothing = ("text", "there are no documents") if layout is None else (_plural(layout), "there are none")
    message = f"{source.title} contains no {nouns}: {' and '.join(counts) or nothing}"
    if setting := next((each for each in FIELDS if each in data.corpus.settings), None):
        rest = ", or other files" if isinstance(source, NamedRows) else ""
        return CorpusFault(message, (*CORPUS, setting), notes=(*reasons, f"name a field that contains {nouns}{rest}"))
    way = "name files that contain UTF-8 text" if layout is None else f"name a corpus of {nouns}"
    return CorpusFault(message, notes=(*reasons, way))


def _plural(layout: Layout) -> str:
    return "images" if layout.kind == "images" else "examples"


def _require_every_split(source: TextSource, data: Data, layout: Layout | None, sizes: Mapping[str, int]) -> None:
    """Raise CorpusError if there are fewer folders with text, rows or images than requested splits."""
    shares = {"train": 1.0, "tuning": data.tuning, "verdict": data.verdict}
    needed = [split for split in SPLITS if shares[split] > 0]
    folders = sorted(name for name, size in sizes.items() if size > 0)
    if len(folders) >= len(needed):
        return
    by_folder = isinstance(source, NamedFiles) and source.documents == "files"
    noun = "folder" if by_folder else "row"
    of = " of text"
    if layout is not None:
        noun, of = _plural(layout).removesuffix("s"), ""
    has = f"{len(folders)} {noun if len(folders) == 1 else f'{noun}s'}{of} ({', '.join(folders)})"
    message = f"{source.title} has {has}, but {len(needed)} are needed: one each for {', '.join(needed)}"
    notes = (
        "a folder, or a file outside any folder, goes to one split as a whole",
        "name more files, or divide a large one: split --number=l/20 input.txt part-",
    )
    if layout is not None:
        most = ", raise at_most" if "at_most" in data.corpus.settings else ""
        more = f"name a corpus of more {noun}s{most}, or hold out fewer splits (data.tuning, data.verdict)"
        notes = (f"an {noun} goes to one split as a whole", more)
    elif not by_folder:
        notes = ("a row goes to one split as a whole", "name more rows, or raise at_most if it is set")
    raise CorpusError([CorpusFault(message, notes=notes)])
