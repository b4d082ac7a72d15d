"""Local text files, each a document."""

from __future__ import annotations

import glob
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ablate.data.corpora.declare import NamedFiles, Patterns, Settings, Skipped, Text, corpus, implements
from ablate.data.sources import FoundFile


@corpus("files", source="this work", version=1)
class Files(Settings):
    """`{files: ['texts/**/*.txt']}`: glob patterns relative to the space's folder, which they do not leave, or
    absolute. What is held out is a folder as a whole (see `data/corpus.py`).
    """

    files: Patterns

    @property
    def patterns(self) -> tuple[str, ...]:
        return self.files


@implements(Files)
@dataclass(frozen=True)
class LocalFiles(NamedFiles):
    """Text files, read through `datasets`, which decompresses `.gz`."""

    key: ClassVar[str] = "files"

    def texts(self) -> Iterator[Text | Skipped]:
        return _read(self.files)


def _read(files: Sequence[FoundFile]) -> Iterator[Text | Skipped]:
    """Yield texts in the order of `files`. A batch that fails is halved until the failing file is alone."""
    try:
        texts = _texts([file.path for file in files])
    except (OSError, ValueError) as error:  # a UnicodeDecodeError is a ValueError
        if len(files) == 1:
            yield Skipped(files[0].name, str(error))
            return
        middle = len(files) // 2
        yield from _read(files[:middle])
        yield from _read(files[middle:])
        return
    yield from (Text(file.name, text.encode("utf-8")) for file, text in zip(files, texts, strict=True))


def _texts(paths: Sequence[Path]) -> list[str]:
    from datasets import load_dataset

    # Streaming leaves no copy of the texts, and a temporary cache folder no lock files in the user's home.
    with tempfile.TemporaryDirectory() as own:
        rows = load_dataset(
            "text",
            data_files=[glob.escape(str(path)) for path in paths],  # `datasets` reads names as patterns
            sample_by="document",
            split="train",
            streaming=True,
            cache_dir=own,
        )
        texts = [row["text"] for row in rows]
    if len(texts) != len(paths):
        raise ValueError(f"`datasets` gave {len(texts)} texts for {len(paths)} files")
    return texts
