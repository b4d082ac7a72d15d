"""The files that own the results: written whole, never changed, named by content; and the witness of what was written.

A document is KIND/DIGEST.json. That of a plan is PLAN.DIGEST.json, and replaces the file of that plan before it grew.
What is on the disk is a result, whether the witness lists it or not. What the witness lists and the disk lacks, or has
with another size or digest, is lost; the DuckDB file has copies from which it can be brought back.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from pydantic import StrictFloat, StrictInt, TypeAdapter, ValidationError

from ablate.errors import InputError, RefusedError
from ablate.store import durable
from ablate.store.durable import UNFINISHED, Appender, check_folder, compact, reading, write_whole, writing
from ablate.train.events import Outcome, OutcomeKind

WITNESS = "witness.jsonl"
TRIALS = "trials"
Content = TypeVar("Content")
Kind: TypeAlias = Literal["plans", "runs", "verdicts", "paces", "tables"]
"""The kinds of documents: JSON with a number, which orders those of a kind, and the format that it was written in."""
DOCUMENTS: tuple[Kind, ...] = ("plans", "runs", "verdicts", "paces", "tables")
SOURCES = "sources"
FOLDERS = (TRIALS, *DOCUMENTS, SOURCES)
FORMAT = 1
GONE = "is gone"
DIGITS, CRC_DIGITS = 16, 8


class ForeignError(RefusedError):
    """A whole line or file that is not as this version writes it."""

    def __init__(self, path: Path, fault: str):
        self.fault = fault
        super().__init__(
            f"{path} is not as this version of ablate writes it: {fault}\n"
            "  = perhaps a newer version wrote it: use that one for these results, or another folder with --results"
        )


@dataclass(frozen=True, slots=True)
class Ending:
    """The ending of an attempt at a trial, both in its sealed file and in the witness.

    `kind`, `step` and `detail` are those of its outcome. `digest` is the SHA-256 of its rows, clocks left out: same
    digest, same bits. `began` and `ended` are seconds since 1970.
    """

    trial: str
    attempt: StrictInt
    kind: OutcomeKind
    step: StrictInt
    detail: dict[str, object]
    rows: StrictInt
    digest: str
    began: StrictFloat
    ended: StrictFloat
    versions: Mapping[str, str]

    @property
    def outcome(self) -> Outcome:
        return Outcome(self.kind, self.step, self.detail)


ENDING = TypeAdapter(Ending)


@dataclass(frozen=True, slots=True)
class Written:
    """A file as the witness saw it written: `size` is in bytes, `digest` a CRC-32 for trials of earlier versions."""

    name: str
    size: int
    digest: str
    ending: Ending | None = None

    def has(self, content: bytes) -> bool:
        found = f"{zlib.crc32(content):08x}" if len(self.digest) == CRC_DIGITS else digest_of(content)
        return found == self.digest


@dataclass(frozen=True, slots=True)
class KeptDocument(Generic[Content]):
    """A JSON document: the name of its file within the folder, its number, and its content (see `documents`)."""

    name: str
    number: int
    content: Content

    @property
    def digest(self) -> str:
        return digest_in(self.name)


@dataclass(frozen=True, slots=True)
class Witness:
    """The lines of the witness; `dropped` are names replaced or known to be lost, `torn` bytes of an unfinished one."""

    written: Mapping[str, Written]
    dropped: frozenset[str] = frozenset()
    damaged: tuple[int, ...] = ()
    torn: int = 0


def name_of(trial_id: str) -> str:
    return f"{TRIALS}/{trial_id}.parquet"


def trial_of(name: str) -> str:
    return name.removeprefix(f"{TRIALS}/").removesuffix(".parquet")


def path_of(folder: Path, trial_id: str) -> Path:
    return folder / name_of(trial_id)


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:DIGITS]


def digest_in(name: str) -> str:
    return name.rpartition("/")[2].removesuffix(".json").rpartition(".")[2]


def encoded(content: Mapping[str, object], number: int) -> bytes:
    return compact({"format": FORMAT, "number": number, **content}).encode() + b"\n"


def keep(folder: Path, kind: Kind, content: Mapping[str, object], number: int, *, stem: str = "") -> KeptDocument[Any]:
    """Write a document durably; needs the lock. One whose name begins with a `stem` replaces that before it."""
    written = encoded(content, number)
    name = f"{kind}/{stem}{'.' if stem else ''}{digest_of(written)}.json"
    before = [each for each in names(folder, kind) if stem and each.startswith(f"{kind}/{stem}.") and each != name]
    put_listed(folder, name, written, replaced=before)
    for each in before:
        _unlink(folder / each)
    return KeptDocument(name, number, json.loads(written))


def withdraw(folder: Path, name: str) -> None:
    """Delete a document that turned out to be of no use; needs the lock."""
    bear_witness(folder, (), replaced=[name])
    _unlink(folder / name)


def _unlink(path: Path) -> None:
    with writing(path):
        path.unlink(missing_ok=True)


def keep_source(folder: Path, content: bytes) -> str:
    digest = digest_of(content)
    name = f"{SOURCES}/{digest}"
    if whole(folder, name)[0] is None:
        put_listed(folder, name, content)
    return digest


def whole(folder: Path, name: str) -> tuple[bytes | None, str]:
    """Return the bytes of a document or a source; None, and what is wrong, if they are not those it is named by."""
    try:
        with reading(folder / name):
            content = (folder / name).read_bytes()
    except FileNotFoundError:
        return None, GONE
    if digest_of(content) != digest_in(name):
        return None, "is empty" if not content else "is not as it was written: some of its bytes have changed"
    return content, ""


def documents(folder: Path, kind: Kind) -> tuple[tuple[KeptDocument[Any], ...], Mapping[str, str]]:
    """Read all whole documents of a kind, in the order of their numbers, and what is wrong with others, by name."""
    kept, faults = [], {}
    for name in names(folder, kind):
        content, fault = whole(folder, name)
        if content is None:
            if fault != GONE:  # one that was replaced since the folder was listed is no loss
                faults[name] = fault
            continue
        try:
            document = json.loads(content)
        except (ValueError, RecursionError):
            document = None
        ours = isinstance(document, dict) and document.get("format") == FORMAT
        if not ours or type(document.get("number")) is not int:
            raise ForeignError(folder / name, "its format is of another version")
        kept.append(KeptDocument(name, document["number"], document))
    return tuple(sorted(kept, key=lambda document: (document.number, document.name))), faults


def names(folder: Path, kind: str) -> list[str]:
    return sorted(sizes(folder, kind))


def sizes(folder: Path, kind: str) -> dict[str, int]:
    try:
        with os.scandir(folder / kind) as entries:
            return {
                f"{kind}/{entry.name}": entry.stat().st_size
                for entry in entries
                if UNFINISHED not in entry.name and entry.is_file()
            }
    except FileNotFoundError:
        return {}


def read_witness(folder: Path) -> Witness:
    content = durable.read_lines(folder / WITNESS)
    written: dict[str, Written] = {}
    dropped: set[str] = set()
    for record in content.records:
        match record:
            case ["written", {"name": str(name), "size": int(size), "digest": str(digest), "ending": dict(ending)}]:
                written[name] = Written(name, size, digest, ending_of(ending, folder / WITNESS))
            case ["written", {"name": str(name), "size": int(size), "digest": str(digest)}]:
                written[name] = Written(name, size, digest)
            case ["replaced", {"name": str(name)}]:
                written.pop(name, None)
                dropped.add(name)
            case ["written" | "replaced", *_]:
                raise ForeignError(folder / WITNESS, f"the line {compact(record)[:100]}")
    return Witness(written, frozenset(dropped), content.damaged, content.torn)


def ending_of(document: object, path: Path) -> Ending:
    """Read the document of an ending; ForeignError for one that no version like this one writes."""
    try:
        return ENDING.validate_python(document)
    except ValidationError:
        raise ForeignError(path, f"how a trial ended: {compact(document)[:100]}") from None


def bear_witness(folder: Path, written: Iterable[Written], replaced: Iterable[str] = ()) -> None:
    """Add lines to the witness, durably; needs the folder's lock."""
    with closing(Appender(folder / WITNESS)) as appender:
        # What is torn of these lines is of files that are there, and never the word that one was replaced.
        appender.write([*(["replaced", {"name": name}] for name in replaced), *map(_line, written)])


def rewrite_witness(folder: Path, written: Iterable[Written]) -> None:
    write_whole(folder / WITNESS, b"".join(durable.encoded_line(_line(each)) for each in written))


def next_number(known: Iterable[KeptDocument[Any]]) -> int:
    return 1 + max((document.number for document in known), default=0)


def has_results(folder: Path) -> bool:
    """True if anything was ever kept in a folder, or in one of an earlier version."""
    return any((folder / name).exists() for name in (*FOLDERS, WITNESS, "ablate.duckdb", "plans.jsonl"))


def check_results(folder: Path) -> None:
    """Raise InputError for a folder in which nothing was kept, and what `check_folder` raises."""
    check_folder(folder)
    if not has_results(folder):
        raise InputError(f"no results in {folder}\n  = run a space first, or name another folder with --results")


def _line(written: Written) -> list[object]:
    return ["written", {name: value for name, value in asdict(written).items() if value is not None}]


def put_listed(
    folder: Path, name: str, content: bytes, *, ending: Ending | None = None, replaced: Iterable[str] = ()
) -> None:
    """Write a file under its name, and the folder of its kind where that is gone; then let the witness list it."""
    path = folder / name
    with writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content)
    bear_witness(folder, [Written(name, len(content), digest_of(content), ending)], replaced)


def lost_among(listed: Mapping[str, Written], there: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    for name, written in listed.items():
        if name not in there:
            yield name, GONE
        elif there[name] != written.size:
            yield name, "is empty" if not there[name] else f"has {there[name]:,} bytes of {written.size:,}"
