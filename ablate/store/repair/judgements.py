"""Verdicts, and how questions were judged over time, each judgement of a question kept in two files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ablate.store import checksummed_lines, questions, verdicts
from ablate.store.checksummed_lines import Reading
from ablate.store.ledger import KeptPlans
from ablate.store.pending_rows import Stored
from ablate.store.repair.faults import Fault
from ablate.store.repair.report import Finding


@dataclass(frozen=True, slots=True)
class Unsaid:
    """What a plan was judged to be, that no line says any more: its space, and its id where it is an `earlier` one.

    `certain` is false where it is not known that it was judged at all.
    """

    space: str
    earlier: str = ""
    certain: bool = True


def faults(folder: Path, ledgers: Mapping[Path, Reading], asked: KeptPlans, stored: Stored) -> Iterator[Fault]:
    """Verdicts that are lost, and judgements of questions that only one of the two files knows of."""
    yield from faults_of_verdicts(folder, ledgers, asked, stored)
    names = (questions.FILE, verdicts.FILE)
    for name, other, gone in zip(names, reversed(names), questions.lacking(folder), strict=True):
        path = folder / name
        if gone:
            what = "is not there" if path not in ledgers else f"lacks {len(gone)} of the judgements of questions"
            finding = Finding("question", "repaired", what, path, f"got back from {other}", changes=(path,))
            yield Fault((finding,), partial(_give_back, folder))


def faults_of_verdicts(
    folder: Path, ledgers: Mapping[Path, Reading], asked: KeptPlans, stored: Stored
) -> Iterator[Fault]:
    """Verdicts that are lost. A run judges its own plan again, and is told of those of earlier ones."""
    path = folder / verdicts.FILE
    for gone in verdicts_lost(folder, ledgers, asked, stored):
        what = "does not say any more" if gone.certain else "may have said, in what is damaged,"
        what += f" what {gone.space} was judged to be"
        if not gone.earlier:
            remedy = "the next `ablate run` of it judges it again, and trains nothing for that"
            yield Fault((Finding("verdicts", "lost", what, path, remedy),))
            continue
        what += f" as an earlier plan, {gone.earlier}"
        remedy = "an `ablate run` with the settings of then judges it again, and trains nothing for that"
        yield Fault((Finding("verdicts", "lost", what, path, remedy),), partial(str, f"{path} {what}: {remedy}"))


def verdicts_lost(folder: Path, ledgers: Mapping[Path, Reading], asked: KeptPlans, stored: Stored) -> list[Unsaid]:
    """What the plans of all spaces were judged to be, the earlier ones too, as far as no line says it any more."""
    path = folder / verdicts.FILE
    reading = ledgers.get(path, checksummed_lines.NOTHING)
    if stored.plans:
        said = verdicts.marks(reading)
        return [gone for gone, mark in _judged(asked, stored) if mark not in said]
    if not (reading.torn or reading.damaged):
        return []
    judged, plans = verdicts.read(folder), _plans(asked)  # no database says who was judged
    return [gone for id, gone in plans if id not in judged.get(gone.space, {})]


def _judged(asked: KeptPlans, stored: Stored) -> Iterator[tuple[Unsaid, str]]:
    """The plans that the database has verdicts of, and the digests of these."""
    for space in sorted(stored.plans.keys() & asked.plans.keys()):
        every = asked.every(space)
        *_, latest = every
        digests = {digest: id for id, (digest, _) in every.items()}
        marks = {digests.get(stored.plans[space], latest): stored.judged.get(space, "")}
        marks |= {id: mark for id, _, mark in sorted(stored.earlier.get(space, ()))}
        for id, mark in marks.items():
            if mark and id in every:
                yield Unsaid(space, "" if id == latest else id), mark


def _plans(asked: KeptPlans) -> Iterator[tuple[str, Unsaid]]:
    for space in sorted(asked.plans):
        *earlier, latest = asked.every(space)
        yield latest, Unsaid(space, certain=False)
        yield from ((id, Unsaid(space, id, certain=False)) for id in earlier)


def _give_back(folder: Path) -> str:
    questions.mend(folder)
    return ""
