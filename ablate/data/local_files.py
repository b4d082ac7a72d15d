"""`files: [...]`: local text files named by glob patterns, read through `datasets` (which unpacks `.gz`)."""

from __future__ import annotations

import glob
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ablate.data.survey import FoundFile, look_at, stamp_of
from ablate.data.text import Skipped, Text
from ablate.errors import RefusedError
from ablate.space.paths import ELSEWHERE, from_elsewhere


@dataclass(frozen=True)
class LocalFiles:
    """The files that match `patterns`, which start from `folder` unless they are absolute. `**` matches any depth.

    A pattern that starts from `folder` does not lead out of it, neither by `..` nor by a link.
    """

    patterns: tuple[str, ...]
    folder: Path

    @property
    def title(self) -> str:
        """The patterns."""
        return f"files {', '.join(self.patterns)}"

    @property
    def place(self) -> str:
        """The folder that patterns start from."""
        return str(self.folder.resolve())

    @cached_property
    def files(self) -> tuple[FoundFile, ...]:
        """The files, ordered by name: the path below the deepest folder that holds them all.

        A file that is reached by several patterns or links is there once, so that it cannot be in two splits.
        Raises RefusedError naming every pattern that matches no file, or a file outside the folder.
        """
        matches = {pattern: self._match(pattern) for pattern in self.patterns}
        unmatched = [pattern for pattern, paths in matches.items() if not paths]
        if unmatched:
            raise RefusedError("\n".join(self._complaint(pattern) for pattern in unmatched))
        # Of several names for one file the first in order is kept, whatever the order of patterns.
        paths = sorted({path for found in matches.values() for path in found}, reverse=True)
        distinct = {os.path.realpath(path): path for path in paths}
        root = Path(os.path.commonpath([path.parent for path in distinct.values()]))
        return tuple(sorted(look_at(path.relative_to(root).as_posix(), path) for path in distinct.values()))

    @property
    def notes(self) -> tuple[str, ...]:
        """Which patterns name files outside the folder."""
        return from_elsewhere(self.patterns, self.folder, "text")

    def stamp(self) -> str | None:
        """The stamp of the files."""
        return stamp_of(self.files)

    def texts(self) -> Iterator[Text | Skipped]:
        """Every file, decoded as UTF-8."""
        return _read(self.files)

    def _match(self, pattern: str) -> list[Path]:
        # Not Path.glob, which refuses absolute patterns.
        found = glob.glob(str(Path(pattern).expanduser()), root_dir=self.place, recursive=True)  # noqa: PTH207
        paths = (Path(os.path.normpath(Path(self.place, name))) for name in found)
        files = [path for path in paths if path.is_file()]
        if not Path(pattern).expanduser().is_absolute():
            self._refuse_outside(pattern, files)
        return files

    def _refuse_outside(self, pattern: str, files: Sequence[Path]) -> None:
        place = os.path.realpath(self.folder)
        for file in files:
            if not (real := Path(os.path.realpath(file))).is_relative_to(place):
                raise RefusedError(
                    f"data.corpus.files: '{pattern}' leads to {real}, outside the folder of the space, {place}\n"
                    f"  = {ELSEWHERE}"
                )

    def _complaint(self, pattern: str) -> str:
        if not self.folder.is_dir():
            found = "that folder does not exist"
        elif Path(self.place, pattern).is_dir():
            found = f"it is a folder; its files are '{pattern.rstrip('/')}/**/*.txt', for instance"
        else:
            found = "nothing there matches; mend the pattern or put the files there"
        return f"data.corpus.files: no file matches '{pattern}' from {self.place}: {found}."


def _read(files: Sequence[FoundFile]) -> Iterator[Text | Skipped]:
    """Texts in the order of `files`. A batch that fails is halved until the file that fails is alone."""
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
    """The text of each file; any file that cannot be read fails them all."""
    from datasets import load_dataset

    # Streaming leaves no copy of the texts, and a folder that goes away no lock files in the user's home.
    with tempfile.TemporaryDirectory() as own:
        rows = load_dataset(
            "text",
            data_files=[glob.escape(str(path)) for path in paths],  # `datasets` takes names for patterns
            sample_by="document",
            split="train",
            streaming=True,
            cache_dir=own,
        )
        texts = [row["text"] for row in rows]
    if len(texts) != len(paths):
        raise ValueError(f"`datasets` gave {len(texts)} texts for {len(paths)} file(s)")
    return texts
