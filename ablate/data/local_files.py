"""`files: [...]`: local text files named by glob patterns, read through `datasets` (which unpacks `.gz`)."""

from __future__ import annotations

import glob
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ablate.data.refusal import CORPUS, CorpusError, Fault
from ablate.data.survey import FoundFile, look_at, stamp_of
from ablate.data.text import Skipped, Text
from ablate.source.problems import quote
from ablate.space.paths import ELSEWHERE, before_wildcards, from_elsewhere


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
        Raises CorpusError naming every pattern that matches no file, or a file outside the folder.
        """
        matches = {pattern: self._match(pattern) for pattern in self.patterns}
        outside = (self._outside(pattern, paths) for pattern, paths in matches.items())
        faults = [fault for fault in outside if fault is not None]
        faults += [self._unmatched(pattern) for pattern, paths in matches.items() if not paths]
        if faults:
            raise CorpusError(faults)
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
        return [path for path in paths if path.is_file()]

    def _fault(self, pattern: str, message: str, label: str, *notes: str) -> Fault:
        return Fault(message, (*CORPUS, "files", self.patterns.index(pattern)), label, notes)

    def _outside(self, pattern: str, files: Sequence[Path]) -> Fault | None:
        if Path(pattern).expanduser().is_absolute():
            return None
        place = os.path.realpath(self.folder)
        for file in files:
            if not (real := Path(os.path.realpath(file))).is_relative_to(place):
                message = f"{quote(pattern)} leads to {real}, outside the folder of the space, {place}"
                return self._fault(pattern, message, "", ELSEWHERE)
        return None

    def _unmatched(self, pattern: str) -> Fault:
        """Why nothing matches, as far as that is seen: a folder that is not there, one that is named as a file."""
        expanded = Path(pattern).expanduser()
        whole = Path(self.place, expanded)
        there = before_wildcards(whole)
        ways: tuple[str, ...] = ("mend the pattern, or put the files there",)
        missing = next((folder for folder in (*reversed(there.parents), there) if not folder.exists()), None)
        if whole.is_dir():
            label, ways = "it is a folder", (f"name its files: {pattern.rstrip('/')}/**/*.txt, for instance",)
        elif missing is not None:
            label = f"there is no {missing}"
        else:
            label = "nothing there matches"
        if not expanded.is_absolute():
            ways = (f"patterns start from the folder of the space, {self.place}", *ways)
            if glob.glob(pattern, recursive=True):  # noqa: PTH207
                ways = (*ways, f"it matches from where you are: write {Path.cwd() / pattern}")
        return self._fault(pattern, f"no file matches {quote(pattern)}", label, *ways)


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
        raise ValueError(f"`datasets` gave {len(texts)} texts for {len(paths)} files")
    return texts
