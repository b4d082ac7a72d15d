"""A source, read and divided into splits."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ablate.data.hub import HubDataset
from ablate.data.local_files import LocalFiles
from ablate.data.refusal import CorpusError, Fault
from ablate.data.splits import assign_splits
from ablate.data.standard_library import StandardLibrary
from ablate.data.text import SPLITS, Skipped, Source, Split, Text, folder_of
from ablate.errors import InputError
from ablate.space.documents import Data, Files, Hub


@dataclass(frozen=True, slots=True)
class Corpus:
    """The texts of each split, ordered by name, what could not be read, and what is to be said of the source."""

    title: str
    texts: Mapping[Split, tuple[Text, ...]]
    skipped: tuple[Skipped, ...]
    notes: tuple[str, ...] = ()

    def bytes_of(self, split: Split) -> int:
        """Bytes of text in a split."""
        return sum(len(text.content) for text in self.texts[split])

    @property
    def digest(self) -> str:
        """A hash of the contents of all texts, in order, with their splits. Names and times do not enter it."""
        running = hashlib.sha256()
        for split in SPLITS:
            running.update(f"{split} {len(self.texts[split])}\n".encode())
            for text in self.texts[split]:
                running.update(f"{len(text.content)}\n".encode())
                running.update(text.content)
        return running.hexdigest()


def source_of(data: Data, folder: Path) -> Source:
    """The source that `data` names; relative patterns start from `folder`."""
    match data.corpus:
        case Files(files=patterns):
            return LocalFiles(patterns, folder)
        case Hub(hub=name, config=config, split=split, field=field, at_most=most):
            return HubDataset(name, split, field, config, most)
        case "python_stdlib":
            return StandardLibrary.of_this_interpreter()


def read_corpus(data: Data, folder: Path) -> Corpus:
    """Every text that `data` names, in the split of its folder.

    Raises CorpusError when nothing can be read, or when there are too few folders for the splits asked; InputError
    when the shares held out leave nothing to train on.
    """
    return divide(source_of(data, folder), data)


def divide(source: Source, data: Data) -> Corpus:
    """`read_corpus` for a source at hand."""
    if data.tuning + data.verdict >= 1:
        raise InputError(
            f"data: tuning {data.tuning:.0%} and verdict {data.verdict:.0%} together leave nothing to train on; "
            "hold out less, for instance 5% each."
        )
    found = list(source.texts())
    texts = [each for each in found if isinstance(each, Text)]
    skipped = tuple(each for each in found if isinstance(each, Skipped))
    if not any(text.content for text in texts):
        raise CorpusError([_empty(source, len(texts), skipped)])
    sizes: defaultdict[str, int] = defaultdict(int)
    for text in texts:
        sizes[text.folder] += len(text.content)
    splits = assign_splits(sizes, tuning=data.tuning, verdict=data.verdict)
    _require_every_split(source, data, sizes)
    members = {split: tuple(text for text in texts if splits[text.folder] == split) for split in SPLITS}
    return Corpus(title=source.title, texts=members, skipped=skipped, notes=source.notes)


def survey(data: Data, folder: Path) -> None:
    """Raise CorpusError where `data` names files that are not there, are all empty, or are too few for the splits.

    No text is read, and no hub is asked.
    """
    source = source_of(data, folder)
    if not isinstance(source, LocalFiles):
        return
    sizes: defaultdict[str, int] = defaultdict(int)
    for file in source.files:
        sizes[folder_of(file.name)] += max(0, file.size)
    if not any(sizes.values()):
        raise CorpusError([_empty(source, len(source.files), ())])
    _require_every_split(source, data, sizes)


def _empty(source: Source, read: int, skipped: tuple[Skipped, ...]) -> Fault:
    found = [f"{read:,} empty"] * (read > 0) + [f"{len(skipped):,} that could not be read"] * (len(skipped) > 0)
    reasons = tuple(f"{each.name}: {each.reason}" for each in skipped[:5])
    message = f"{source.title} holds no text: {' and '.join(found) or 'there is no document'}"
    return Fault(message, notes=(*reasons, "name files that hold UTF-8 text"))


def _require_every_split(source: Source, data: Data, sizes: Mapping[str, int]) -> None:
    """Raise CorpusError where there are fewer folders with text than splits that are asked for."""
    asked = {"train": 1.0, "tuning": data.tuning, "verdict": data.verdict}
    needed = [split for split in SPLITS if asked[split] > 0]
    folders = sorted(name for name, size in sizes.items() if size > 0)
    if len(folders) >= len(needed):
        return
    has = f"{len(folders)} {'folder' if len(folders) == 1 else 'folders'} of text ({', '.join(folders)})"
    message = f"{source.title} has {has}, and {len(needed)} are needed: one for each of {', '.join(needed)}"
    notes = (
        "a folder, or a file outside any folder, goes to one split as a whole",
        "name more files, or divide a large one: split --number=l/20 input.txt part-",
    )
    raise CorpusError([Fault(message, notes=notes)])
