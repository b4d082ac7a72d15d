"""Questions over time: `questions.jsonl`, a line for each time a question was judged, at whatever seeds.

["question", digest, {"question": …, "number": …, "seeds": […], "looks": […], "level": …, "left": …, "effects": […], …}]

A question is known by what it asks, and not by its seeds or by the space that asks it (`report.judgement.families`). A
judgement of it is known by its `number`, its seeds (of seeds that are added after looks, these looks), and how they
were `measured`. The first line of a judgement says what of α it is held at, for good; the latest one what it found, and
`without` which trials. `left` is the share of α that it leaves. So how often a question was judged is known however its
trials came about, and in what order. Each space that asks it has a line.

Each line stands in `verdicts.jsonl` once more: were this record gone, a question could be judged at its first level
again and again. What either file has lost the other still says.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from ablate.store import checksummed_lines, verdicts
from ablate.store.checksummed_lines import Appender, Reading, compact
from ablate.store.records import ForeignError, QuestionRecord, understood
from ablate.store.schema import TABLES
from ablate.store.serialise import digest

FILE = "questions.jsonl"
WORD = "question"

Document: TypeAlias = Mapping[str, Any]
Basis: TypeAlias = tuple[tuple[int, ...], tuple[int, ...], str]
"""What a judgement is of: its seeds or its looks, and how these were measured."""

Key: TypeAlias = tuple[str, int, Basis]
"""What tells a judgement from others: the question, its number, and what it is of."""

TOLD = ("better", "worse", "equivalent", "undecided", "diverged")
"""The verdicts that the table `questions` counts; better and worse by rank count with the others."""


def basis(seeds: Iterable[int], looks: Iterable[int], measured: str) -> Basis:
    """What a judgement is of: with looks the seeds are those of however many there were so far."""
    after = tuple(looks)
    return () if after else tuple(sorted(seeds)), after, measured


def basis_of(one: Document) -> Basis:
    """What a judgement in the record is of."""
    return basis(one["seeds"], one["looks"], one["measured"])


def read(folder: Path) -> dict[str, tuple[Document, ...]]:
    """The judgements of each question, by their numbers, with what each last found; by both files."""
    return _latest([*_of(checksummed_lines.read(folder / FILE)), *_of(checksummed_lines.read(folder / verdicts.FILE))])


def by_space(folder: Path) -> dict[str, tuple[Document, ...]]:
    """The judgements by each space that they were made for."""
    found: dict[str, tuple[Document, ...]] = {}
    for judgements in read(folder).values():
        for one in judgements:
            for space in one["spaces"]:
                found[space] = (*found.get(space, ()), {**one, "space": space})
    return found


def record(folder: Path, documents: Sequence[Document]) -> None:
    """Add judgements, but those that say what is known; needs the folder's lock. On the disk when it returns."""
    known = {_key(one): one for judgements in read(folder).values() for one in judgements}
    new = []
    for one in documents:
        before = known.get(_key(one))
        if before is None or one["space"] not in before["spaces"] or _said(before) != _said(one):
            new.append({**one, "at": time.time()})
    if new:
        for name in (FILE, verdicts.FILE):
            _append(folder / name, new)


def lacking(folder: Path) -> tuple[list[Document], list[Document]]:
    """What `questions.jsonl` lacks and its copies have, and the other way round."""
    own, copies = _of(checksummed_lines.read(folder / FILE)), _of(checksummed_lines.read(folder / verdicts.FILE))
    return [one for one in copies if one not in own], [one for one in own if one not in copies]


def mend(folder: Path) -> None:
    """Give each of the two files what only the other has; needs the folder's lock."""
    for name, gone in zip((FILE, verdicts.FILE), lacking(folder), strict=True):
        if gone:
            _append(folder / name, gone)


def mark(documents: Sequence[Document]) -> str:
    """A hash of the judgements of a space; empty where there are none."""
    return digest(list(documents)) if documents else ""


def question_rows(documents: Sequence[Document]) -> list[tuple[Any, ...]]:
    """The rows of the table `questions`."""
    return [
        TABLES["questions"].row(
            {name: one[name] for name in ("space", "question", "number", "metrics", "seeds", "alpha", "level")}
            | {verdict: _times(verdict, one) for verdict in TOLD}
            | {
                "comparisons": len({effect["comparison"] for effect in one["effects"]}),
                "looks": one["looks"] or None,
                "without_result": len(one["without"]),
                "left_of_alpha": one["left"] * one["alpha"],
                "judged_at": one["at"],
                "effects": compact(one["effects"]),
            }
        )
        for one in documents
    ]


def _times(verdict: str, one: Document) -> int:
    return sum(effect["verdict"].removesuffix("_by_rank") == verdict for effect in one["effects"])


def _append(path: Path, documents: Sequence[Document]) -> None:
    appender = Appender(path)
    try:
        appender.write([[WORD, digest(dict(one)), dict(one)] for one in documents])
        appender.sync()
    finally:
        appender.close()


def _of(reading: Reading) -> list[Document]:
    found: list[Document] = []
    for entry in reading.records:
        match entry:
            case ["question", str(), document]:
                found.append(understood(QuestionRecord, document, reading.path))
            case ["question", *_]:
                raise ForeignError(reading.path, "a judgement of a question without its digest")
    return found


def _latest(documents: Iterable[Document]) -> dict[str, tuple[Document, ...]]:
    latest: dict[Key, Document] = {}
    for one in sorted(documents, key=lambda one: float(one["at"])):
        spaces = latest[_key(one)]["spaces"] if _key(one) in latest else ()
        latest[_key(one)] = {**one, "spaces": tuple(dict.fromkeys((*spaces, one["space"])))}
    found: dict[str, list[Document]] = {}
    for one in sorted(latest.values(), key=lambda one: int(one["number"])):
        found.setdefault(one["question"], []).append(one)
    return {question: tuple(judgements) for question, judgements in found.items()}


def _key(one: Document) -> Key:
    return one["question"], one["number"], basis_of(one)


def _said(one: Document) -> str:
    """What a judgement says, but for when and by which space."""
    return compact({name: value for name, value in one.items() if name not in ("at", "space", "spaces")})
