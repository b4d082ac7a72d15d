"""A source, read and divided into splits."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ablate.data.hub import HubDataset
from ablate.data.local_files import LocalFiles
from ablate.data.splits import assign_splits
from ablate.data.standard_library import StandardLibrary
from ablate.data.text import SPLITS, Skipped, Source, Split, Text
from ablate.errors import InputError, RefusedError
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
        case Hub(hub=name, config=config, split=split, field=field):
            return HubDataset(name, split, field, config)
        case "python_stdlib":
            return StandardLibrary.of_this_interpreter()


def read_corpus(data: Data, folder: Path) -> Corpus:
    """Every text that `data` names, in the split of its folder.

    Raises RefusedError when nothing can be read, or when there are too few folders for the splits asked; InputError
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
        raise RefusedError(_empty(source, len(texts), skipped))
    sizes: defaultdict[str, int] = defaultdict(int)
    for text in texts:
        sizes[text.folder] += len(text.content)
    splits = assign_splits(sizes, tuning=data.tuning, verdict=data.verdict)
    _require_every_split(source, data, sizes, splits)
    members = {split: tuple(text for text in texts if splits[text.folder] == split) for split in SPLITS}
    return Corpus(title=source.title, texts=members, skipped=skipped, notes=source.notes)


def _empty(source: Source, read: int, skipped: tuple[Skipped, ...]) -> str:
    lines = [f"data.corpus: {source.title} holds no text: {read} empty, {len(skipped)} that could not be read."]
    lines += [f"  {each.name}: {each.reason}" for each in skipped[:5]]
    return "\n".join([*lines, "Name files that hold UTF-8 text."])


def _require_every_split(source: Source, data: Data, sizes: Mapping[str, int], splits: Mapping[str, Split]) -> None:
    """Raise RefusedError where a split that was asked for is left without text."""
    asked = {"train": 1.0, "tuning": data.tuning, "verdict": data.verdict}
    needed = [split for split in SPLITS if asked[split] > 0]
    given = {splits[name] for name, size in sizes.items() if size > 0}
    if given >= set(needed):
        return
    folders = sorted(name for name, size in sizes.items() if size > 0)
    shown = ", ".join(folders[:5]) + (", …" if len(folders) > 5 else "")
    raise RefusedError(
        f"data.corpus: {source.title} has {len(folders)} folder(s) with text ({shown}), and {len(needed)} are needed, "
        f"one for each of {', '.join(needed)}.\n"
        "A folder, or a file outside any folder, goes to one split as a whole. Divide a large file into some twenty "
        "(for instance `split --number=l/20 input.txt part-`), or name more files."
    )
