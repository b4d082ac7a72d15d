"""Questions over time: `questions.jsonl`, a line for each time a question was judged, at whatever seeds.

["question", digest, {"question": …, "number": …, "seeds": […], "looks": […], "level": …, "left": …, "effects": […], …}]

A question is known by what it asks, and not by its seeds or by the space that asks it (`report.judgement.families`). A
judgement of it is known by its seeds; of seeds that are added after looks, by these looks. The first line of a
judgement says its `number` and what of α it is held at, for good; the latest one what it found. `left` is the share of
α that it leaves. So how often a question was judged is known however its trials came about, and in what order.

Each line stands in `verdicts.jsonl` once more: were this record gone, a question could be judged at its first level
again and again. What either file has lost the other still says.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from ablate.store import lines, verdicts
from ablate.store.describe import digest
from ablate.store.lines import Appender, Reading, compact
from ablate.store.records import ForeignError, QuestionRecord, understood

FILE = "questions.jsonl"
WORD = "question"

Document: TypeAlias = Mapping[str, Any]
Key: TypeAlias = tuple[str, tuple[int, ...], tuple[int, ...]]
"""What tells a judgement from others: the question, and its seeds or its looks."""

TOLD = ("better", "worse", "equivalent", "undecided", "diverged")
"""The verdicts that the table `questions` counts; better and worse by rank count with the others."""


def key_of(question: str, seeds: Iterable[int], looks: Iterable[int]) -> Key:
    """What tells that judgement from others: with looks the seeds are those of however many there were so far."""
    after = tuple(looks)
    return question, () if after else tuple(sorted(seeds)), after


def read(folder: Path) -> dict[str, tuple[Document, ...]]:
    """The judgements of each question, by their numbers, with what each last found; by both files."""
    return _latest([*_of(lines.read(folder / FILE)), *_of(lines.read(folder / verdicts.FILE))])


def by_space(folder: Path) -> dict[str, tuple[Document, ...]]:
    """The judgements by the space that each was first made for."""
    found: dict[str, tuple[Document, ...]] = {}
    for judgements in read(folder).values():
        for one in judgements:
            found[one["space"]] = (*found.get(one["space"], ()), one)
    return found


def record(folder: Path, documents: Sequence[Document]) -> None:
    """Add judgements, but those that say what is known; needs the folder's lock. On the disk when it returns."""
    known = {_key(one): one for judgements in read(folder).values() for one in judgements}
    new = []
    for one in documents:
        before = known.get(_key(one))
        if before is None or _said(before) != _said(one):
            new.append({**one, "at": time.time()})
    if new:
        for name in (FILE, verdicts.FILE):
            _append(folder / name, new)


def lacking(folder: Path) -> tuple[list[Document], list[Document]]:
    """What `questions.jsonl` lacks and its copies have, and the other way round."""
    own, copies = _of(lines.read(folder / FILE)), _of(lines.read(folder / verdicts.FILE))
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
        (
            one["space"],
            one["question"],
            one["number"],
            one["metrics"],
            len({effect["comparison"] for effect in one["effects"]}),
            one["seeds"],
            one["looks"] or None,
            one["alpha"],
            one["level"],
            one["left"] * one["alpha"],
            *(_times(verdict, one) for verdict in TOLD),
            one["at"],
            compact(one["effects"]),
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
        first = latest.get(_key(one), one)
        latest[_key(one)] = {**one, **{name: first[name] for name in ("number", "space")}}
    found: dict[str, list[Document]] = {}
    for one in sorted(latest.values(), key=lambda one: int(one["number"])):
        found.setdefault(one["question"], []).append(one)
    return {question: tuple(judgements) for question, judgements in found.items()}


def _key(one: Document) -> Key:
    return key_of(one["question"], one["seeds"], one["looks"])


def _said(one: Document) -> str:
    """What a judgement says, but for when and by which space."""
    return compact({name: value for name, value in one.items() if name not in ("at", "space")})
