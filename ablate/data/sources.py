"""Sources: the protocol of a source of texts, its faults, and local files that a space names.

A planner imports this for every corpus, so nothing here needs NumPy.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal, Protocol, TypeAlias

from ablate.errors import RefusedError
from ablate.source.problems import Problems, quote, suggest
from ablate.space.data import CorpusSettings
from ablate.space.documents import ELSEWHERE, before_wildcards, from_elsewhere

Split: TypeAlias = Literal["train", "tuning", "verdict"]

SPLITS: tuple[Split, ...] = ("train", "tuning", "verdict")
"""Models learn from train, learning rates are chosen on tuning, and verdicts are given on verdict."""


@dataclass(frozen=True, slots=True)
class Text:
    """One document: a name that is the same on every machine, and its text in UTF-8 with newlines as `\\n`.

    Of a corpus with a `layout`, the content is the bytes of a record instead (`data/record_stream.py`).
    """

    name: str
    content: bytes

    @property
    def folder(self) -> str:
        """The unit that is held out: the first folder of the name; for a file outside any folder the file itself."""
        return folder_of(self.name)


def folder_of(name: str) -> str:
    """The first folder of a name; the name itself if it has none."""
    return name.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Skipped:
    """A document that could not be read as text, and why."""

    name: str
    reason: str


class TextSource(Protocol):
    """A source of texts."""

    @property
    def title(self) -> str:
        """The name in reports."""

    @property
    def place(self) -> str:
        """The location on this machine; with the `Data` document it identifies the source."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the location, for the report."""

    def stamp(self) -> str | None:
        """Return a value that changes when the source seems to have changed, without reading any text.

        None if that cannot be told, and the source has to be read.
        """

    def texts(self) -> Iterator[Text | Skipped]:
        """Yield every document, each under a unique name, in an order that is always the same."""


# Errors in a corpus, each with the keys of the value of the space that causes it; the space's reader adds the line.

Keys = tuple[str | int, ...]
CORPUS: Keys = ("data", "corpus")


@dataclass(frozen=True, slots=True)
class CorpusFault:
    """One error: `at` are the keys down to the value that causes it, `beside` to others that it depends on."""

    message: str
    at: Keys = CORPUS
    label: str = ""
    notes: tuple[str, ...] = ()
    beside: tuple[Keys, ...] = ()


class CorpusError(RefusedError):
    """A corpus that is missing, empty or too small."""

    def __init__(self, faults: Iterable[CorpusFault]):
        self.faults = tuple(faults)
        problems = Problems()
        for fault in self.faults:
            problems.add(fault.message, label=fault.label, notes=fault.notes)
        self.text = problems.text()
        super().__init__(self.text, problems.mistakes())
        self.args = (self.faults,)  # from which unpickling rebuilds it in another process

    def __str__(self) -> str:
        return self.text


# Files by name, size and time, and the stamp that shows that nothing changed since they were read.

SETTLED_AFTER_NS = 2_000_000_000
"""A file younger than this could change again without a change of its size or time (file systems have coarse clocks),
so it gets no stamp yet. Git treats its index likewise."""


@dataclass(frozen=True, slots=True, order=True)
class FoundFile:
    """A file: its name within the corpus, its path, its size in bytes and its modification time in nanoseconds.

    A file without a status (a dangling link) has size and time -1.
    """

    name: str
    path: Path
    size: int
    changed: int


def look_at(name: str, path: Path) -> FoundFile:
    """The file at `path`, following links."""
    try:
        status = path.stat()
    except OSError:
        return FoundFile(name, path, -1, -1)
    return FoundFile(name, path, status.st_size, status.st_mtime_ns)


def stamp_of(files: Iterable[FoundFile]) -> str | None:
    """Hash names, sizes and times; None while a file is too young to be trusted."""
    known = sorted(files)
    youngest = max((file.changed for file in known), default=0)
    if youngest > time.time_ns() - SETTLED_AFTER_NS:
        return None
    described = json.dumps([(file.name, file.size, file.changed) for file in known])
    return hashlib.sha256(described.encode()).hexdigest()


# Local files that a space names by glob patterns, and never files outside its folder unless explicitly named.


@dataclass(frozen=True)
class NamedFiles(ABC):
    """The files that match the patterns of `settings`, which start from `folder` unless absolute. `**`: any depth.

    A pattern that starts from `folder` cannot leave it, neither by `..` nor by a link. `documents` says whether each
    file is one document or holds several, in rows.
    """

    settings: CorpusSettings
    folder: Path
    key: ClassVar[str]  # the setting that holds the patterns, which is the name of the corpus
    documents: ClassVar[Literal["files", "rows"]] = "files"

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns as they are written in the space."""
        return self.settings.patterns

    @property
    def title(self) -> str:
        return f"{self.key} {', '.join(self.patterns)}"

    @property
    def place(self) -> str:
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
        return stamp_of(self.files)

    @abstractmethod
    def texts(self) -> Iterator[Text | Skipped]:
        """Yield every document, in an order that is always the same."""

    def fault(self, file: FoundFile, message: str, label: str = "", *notes: str) -> CorpusFault:
        """A fault of a file, to be shown at the pattern that names it."""
        return self._fault(next(p for p, paths in self._matches.items() if file.path in paths), message, label, *notes)

    @cached_property
    def _matches(self) -> dict[str, list[Path]]:
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
        """The fault of a pattern that matches nothing: a missing folder, or a folder that is named as a file."""
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


# Rows of local files, each a document: what JSONL and Parquet have in common.
#
# The unit that is held out is a row, as it is a document on the hub: a data set in rows has no folders of texts that
# quote each other, and is often a single file. A row is named by its file and its number there, so that added rows
# and files leave the order of all others unchanged.


Row: TypeAlias = Mapping[str, object]  # a row of a data set that is not ours: the values of its fields


@dataclass(frozen=True)
class NamedRows(NamedFiles):
    """The texts in `field` of the rows of local files, up to the row that reaches `most_bytes` of text (None: all)."""

    field: str
    most_bytes: int | None
    documents: ClassVar[Literal["files", "rows"]] = "rows"

    @abstractmethod
    def rows(self, file: FoundFile) -> Iterator[tuple[int, object]]:
        """Yield the number of each row of a file and the value of its field; an Absent if it has no such field."""

    @property
    def title(self) -> str:
        capped = "" if self.most_bytes is None else f", the first {self.most_bytes:,} bytes"
        return f"{self.key} {', '.join(self.patterns)}, field {self.field}{capped}"

    def texts(self) -> Iterator[Text | Skipped]:
        """Yield each row as a document, ordered by file and number. Raises CorpusError for a file that cannot be read.

        A field that the first row lacks is an error; a later row without it is skipped, and reported.
        """
        read, first = 0, True
        for file in self.files:
            for number, value in self.rows(file):
                if first and isinstance(value, Absent):
                    raise CorpusError([self.without_field(f"row {number:,} of {file.name}", value.fields)])
                first = False
                document = _document(f"{file.name.replace('/', ':')}:{number:09d}", value, self.field)
                yield document
                read += len(document.content) if isinstance(document, Text) else 0
                if self.most_bytes is not None and read >= self.most_bytes:
                    return

    def without_field(self, what: str, fields: Iterable[str]) -> CorpusFault:
        """The fault that something lacks the field, with the fields it has, to be shown at the field's name."""
        known = sorted(fields)
        label, notes = suggest(self.field, known) or "", (f"its fields: {', '.join(known)}",)
        return CorpusFault(f"{what} has no field {quote(self.field)}", (*CORPUS, "field"), label, notes)


@dataclass(frozen=True, slots=True)
class Absent:
    """The place of a missing text: the row has only these fields."""

    fields: tuple[str, ...]


def _document(name: str, value: object, field: str) -> Text | Skipped:
    if isinstance(value, Absent):
        return Skipped(name, f"has no field {quote(field)}")
    if not isinstance(value, str):
        return Skipped(name, "contains no text")
    try:
        return Text(name, value.encode("utf-8"))
    except UnicodeEncodeError as error:  # half of a surrogate pair, which JSON can spell
        return Skipped(name, str(error))
