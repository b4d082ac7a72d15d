"""Questions over time: `questions.jsonl`, a line for each time a question was judged, at whatever seeds.

["question", digest, {"question": …, "number": …, "seeds": […], "looks": […], "level": …, "left": …, "effects": […], …}]

A question is identified by what it asks, not by its seeds or by the space that asks it (`report.judgement.families`). A
judgement of it is identified by its `number`, its seeds (or its looks, where seeds are added after looks), and how they
were `measured`. The first line of a judgement fixes the share of α that it is tested at; the latest line has its
result, and in `without` the trials without a result. `left` is the share of α that it leaves. So how often a question
was judged is known in whatever way and order its trials came about. Each space that asks it has a line.

Each line is also in `verdicts.jsonl`: if this record were lost, a question could be judged at its first level again and
again. What one of the files has lost is still in the other.
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
"""The basis of a judgement: its seeds or its looks, and how these were measured."""

Key: TypeAlias = tuple[str, int, Basis]
"""What identifies a judgement: the question, its number, and its basis."""

COUNTED = ("better", "worse", "equivalent", "undecided", "diverged")
"""The verdicts that the table `questions` counts; better_by_rank counts as better and worse_by_rank as worse."""


def basis(seeds: Iterable[int], looks: Iterable[int], measured: str) -> Basis:
    """Return the basis of a judgement: with looks, however many seeds there were so far, the looks alone."""
    after = tuple(looks)
    return () if after else tuple(sorted(seeds)), after, measured


def basis_of(document: Document) -> Basis:
    """Return the basis of a judgement in the record."""
    return basis(document["seeds"], document["looks"], document["measured"])


def read(folder: Path) -> dict[str, tuple[Document, ...]]:
    """Read the judgements of each question from both files, in order of number, each with its latest result."""
    return _latest([*_of(checksummed_lines.read(folder / FILE)), *_of(checksummed_lines.read(folder / verdicts.FILE))])


def by_space(folder: Path) -> dict[str, tuple[Document, ...]]:
    """Read the judgements by each space that they were made for."""
    of_space: dict[str, tuple[Document, ...]] = {}
    for judgements in read(folder).values():
        for document in judgements:
            for space in document["spaces"]:
                of_space[space] = (*of_space.get(space, ()), {**document, "space": space})
    return of_space


def record(folder: Path, documents: Sequence[Document]) -> None:
    """Add judgements, except those already known; needs the folder's lock. On the disk when it returns."""
    known = {_key(document): document for judgements in read(folder).values() for document in judgements}
    new = []
    for document in documents:
        before = known.get(_key(document))
        if before is None or document["space"] not in before["spaces"] or _content(before) != _content(document):
            new.append({**document, "at": time.time()})
    if new:
        for name in (FILE, verdicts.FILE):
            _append(folder / name, new)


def lacking(folder: Path) -> tuple[list[Document], list[Document]]:
    """Return what `questions.jsonl` lacks and its copies have, and vice versa."""
    own, copies = _of(checksummed_lines.read(folder / FILE)), _of(checksummed_lines.read(folder / verdicts.FILE))
    return [copy for copy in copies if copy not in own], [document for document in own if document not in copies]


def reconcile(folder: Path) -> None:
    """Append to each of the two files what only the other has; needs the folder's lock."""
    for name, gone in zip((FILE, verdicts.FILE), lacking(folder), strict=True):
        if gone:
            _append(folder / name, gone)


def mark(documents: Sequence[Document]) -> str:
    """Return a hash of the judgements of a space; empty where there are none."""
    return digest(list(documents)) if documents else ""


def question_rows(documents: Sequence[Document]) -> list[tuple[Any, ...]]:
    """Return the rows of the table `questions`."""
    return [
        TABLES["questions"].row(
            {name: document[name] for name in ("space", "question", "number", "metrics", "seeds", "alpha", "level")}
            | {verdict: _times(verdict, document) for verdict in COUNTED}
            | {
                "comparisons": len({effect["comparison"] for effect in document["effects"]}),
                "looks": document["looks"] or None,
                "without_result": len(document["without"]),
                "left_of_alpha": document["left"] * document["alpha"],
                "judged_at": document["at"],
                "effects": compact(document["effects"]),
            }
        )
        for document in documents
    ]


def _times(verdict: str, document: Document) -> int:
    return sum(effect["verdict"].removesuffix("_by_rank") == verdict for effect in document["effects"])


def _append(path: Path, documents: Sequence[Document]) -> None:
    appender = Appender(path)
    try:
        appender.write([[WORD, digest(dict(document)), dict(document)] for document in documents])
        appender.sync()
    finally:
        appender.close()


def _of(reading: Reading) -> list[Document]:
    documents: list[Document] = []
    for entry in reading.records:
        match entry:
            case ["question", str(), document]:
                documents.append(understood(QuestionRecord, document, reading.path))
            case ["question", *_]:
                raise ForeignError(reading.path, "a judgement of a question without its digest")
    return documents


def _latest(documents: Iterable[Document]) -> dict[str, tuple[Document, ...]]:
    latest: dict[Key, Document] = {}
    for document in sorted(documents, key=lambda document: float(document["at"])):
        key = _key(document)
        spaces = latest[key]["spaces"] if key in latest else ()
        latest[key] = {**document, "spaces": tuple(dict.fromkeys((*spaces, document["space"])))}
    by_question: dict[str, list[Document]] = {}
    for document in sorted(latest.values(), key=lambda document: int(document["number"])):
        by_question.setdefault(document["question"], []).append(document)
    return {question: tuple(judgements) for question, judgements in by_question.items()}


def _key(document: Document) -> Key:
    return document["question"], document["number"], basis_of(document)


def _content(document: Document) -> str:
    """Return the content of a judgement, without when it was made and for which space."""
    return compact({name: value for name, value in document.items() if name not in ("at", "space", "spaces")})
