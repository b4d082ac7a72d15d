"""Local files that a space names by glob patterns, and never files outside its folder unless explicitly named."""

from __future__ import annotations

import glob
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal

from ablate.data.refusal import CORPUS, CorpusError, CorpusFault
from ablate.data.survey import FoundFile, look_at, stamp_of
from ablate.data.text import Skipped, Text
from ablate.source.problems import quote
from ablate.space.corpora import Settings
from ablate.space.paths import ELSEWHERE, before_wildcards, from_elsewhere


@dataclass(frozen=True)
class NamedFiles(ABC):
    """The files that match the patterns of `settings`, which start from `folder` unless absolute. `**`: any depth.

    A pattern that starts from `folder` cannot leave it, neither by `..` nor by a link. `documents` says whether each
    file is one document or holds several, in rows.
    """

    settings: Settings
    folder: Path
    key: ClassVar[str]
    """The setting that holds the patterns, which is the name of the corpus."""
    documents: ClassVar[Literal["files", "rows"]] = "files"

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns as they are written in the space."""
        return self.settings.patterns

    @property
    def title(self) -> str:
        """The name of the corpus, and the patterns."""
        return f"{self.key} {', '.join(self.patterns)}"

    @property
    def place(self) -> str:
        """The folder that patterns start from."""
        return str(self.folder.resolve())

    @cached_property
    def files(self) -> tuple[FoundFile, ...]:
        """The files, ordered by name: the path below the deepest folder that holds them all.

        A file that is reached by several patterns or links is listed once, so that it cannot be in two splits.
        Raises CorpusError naming every pattern that matches no file, or a file outside the folder.
        """
        outside = (self._outside(pattern, paths) for pattern, paths in self._matches.items())
        faults = [fault for fault in outside if fault is not None]
        faults += [self._unmatched(pattern) for pattern, paths in self._matches.items() if not paths]
        if faults:
            raise CorpusError(faults)
        # Of several names for one file the first in order is kept, whatever the order of patterns.
        paths = sorted({path for matches in self._matches.values() for path in matches}, reverse=True)
        distinct = {os.path.realpath(path): path for path in paths}
        root = Path(os.path.commonpath([path.parent for path in distinct.values()]))
        return tuple(sorted(look_at(path.relative_to(root).as_posix(), path) for path in distinct.values()))

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the patterns that name files outside the folder."""
        return from_elsewhere(self.patterns, self.folder, "text")

    def stamp(self) -> str | None:
        """The stamp of the files."""
        return stamp_of(self.files)

    @abstractmethod
    def texts(self) -> Iterator[Text | Skipped]:
        """Yield every document, in an order that is always the same."""

    def fault(self, file: FoundFile, message: str, label: str = "", *notes: str) -> CorpusFault:
        """Return a fault of a file, to be shown at the pattern that names it."""
        return self._fault(next(p for p, paths in self._matches.items() if file.path in paths), message, label, *notes)

    @cached_property
    def _matches(self) -> dict[str, list[Path]]:
        """The files that each pattern matches."""
        return {pattern: self._match(pattern) for pattern in self.patterns}

    def _match(self, pattern: str) -> list[Path]:
        # Not Path.glob, which refuses absolute patterns.
        names = glob.glob(str(Path(pattern).expanduser()), root_dir=self.place, recursive=True)  # noqa: PTH207
        paths = (Path(os.path.normpath(Path(self.place, name))) for name in names)
        return [path for path in paths if path.is_file()]

    def _fault(self, pattern: str, message: str, label: str, *notes: str) -> CorpusFault:
        return CorpusFault(message, (*CORPUS, self.key, self.patterns.index(pattern)), label, notes)

    def _outside(self, pattern: str, files: Sequence[Path]) -> CorpusFault | None:
        if Path(pattern).expanduser().is_absolute():
            return None
        place = os.path.realpath(self.folder)
        for file in files:
            if not (real := Path(os.path.realpath(file))).is_relative_to(place):
                message = f"{quote(pattern)} leads to {real}, outside the folder of the space, {place}"
                return self._fault(pattern, message, "", ELSEWHERE)
        return None

    def _unmatched(self, pattern: str) -> CorpusFault:
        """Explain why a pattern matches nothing: a missing folder, or a folder that is named as a file."""
        expanded = Path(pattern).expanduser()
        whole = Path(self.place, expanded)
        there = before_wildcards(whole)
        ways: tuple[str, ...] = ("fix the pattern, or put the files there",)
        missing = next((folder for folder in (*reversed(there.parents), there) if not folder.exists()), None)
        if whole.is_dir():
            ending = "txt" if self.documents == "files" else self.key
            label, ways = "it is a folder", (f"name its files, for instance {pattern.rstrip('/')}/**/*.{ending}",)
        elif missing is not None:
            label = f"there is no {missing}"
        else:
            label = "nothing there matches"
        if not expanded.is_absolute():
            ways = (f"patterns start from the folder of the space, {self.place}", *ways)
            if glob.glob(pattern, recursive=True):  # noqa: PTH207
                ways = (*ways, f"it matches from your current folder: write {Path.cwd() / pattern}")
        return self._fault(pattern, f"no file matches {quote(pattern)}", label, *ways)
