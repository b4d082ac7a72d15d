"""Verdicts, and judgements of questions over time, each of which is kept in two files."""

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
class LostVerdicts:
    """Verdicts of a plan that no line has any more: its space, and its id where it is an `earlier` plan.

    `certain` is false where it is not known whether the plan was judged at all.
    """

    space: str
    earlier: str = ""
    certain: bool = True


def faults(folder: Path, ledgers: Mapping[Path, Reading], kept: KeptPlans, stored: Stored) -> Iterator[Fault]:
    """Find lost verdicts, and judgements of questions that only one of the two files has."""
    yield from faults_of_verdicts(folder, ledgers, kept, stored)
    names = (questions.FILE, verdicts.FILE)
    for name, other, gone in zip(names, reversed(names), questions.lacking(folder), strict=True):
        path = folder / name
        if gone:
            what = "is missing" if path not in ledgers else f"lacks {len(gone)} of the judgements of questions"
            finding = Finding("question", "repaired", what, path, f"recovered from {other}", changes=(path,))
            yield Fault((finding,), partial(_give_back, folder))


def faults_of_verdicts(
    folder: Path, ledgers: Mapping[Path, Reading], kept: KeptPlans, stored: Stored
) -> Iterator[Fault]:
    """Find lost verdicts. A run judges its own plan again, and reports those of earlier plans."""
    path = folder / verdicts.FILE
    for gone in verdicts_lost(folder, ledgers, kept, stored):
        what = "no longer has" if gone.certain else "may have had, in what is damaged,"
        what += f" the verdicts of {gone.space}"
        if not gone.earlier:
            remedy = "the next `ablate run` of it judges it again, without training"
            yield Fault((Finding("verdicts", "lost", what, path, remedy),))
            continue
        what += f" under an earlier plan, {gone.earlier}"
        remedy = "an `ablate run` with the settings of that plan judges it again, without training"
        yield Fault((Finding("verdicts", "lost", what, path, remedy),), partial(str, f"{path} {what}: {remedy}"))


def verdicts_lost(folder: Path, ledgers: Mapping[Path, Reading], kept: KeptPlans, stored: Stored) -> list[LostVerdicts]:
    """Return the verdicts of all plans of all spaces, earlier ones included, that no line has any more."""
    path = folder / verdicts.FILE
    reading = ledgers.get(path, checksummed_lines.NOTHING)
    if stored.plans:
        known = verdicts.marks(reading)
        return [gone for gone, mark in _judged(kept, stored) if mark not in known]
    if not (reading.torn or reading.damaged):
        return []
    judged, plans = verdicts.read(folder), _plans(kept)  # no database says what was judged
    return [gone for id, gone in plans if id not in judged.get(gone.space, {})]


def _judged(kept: KeptPlans, stored: Stored) -> Iterator[tuple[LostVerdicts, str]]:
    """Yield the plans that the database has verdicts of, and the digests of these."""
    for space in sorted(stored.plans.keys() & kept.plans.keys()):
        every = kept.every(space)
        *_, latest = every
        digests = {digest: id for id, (digest, _) in every.items()}
        marks = {digests.get(stored.plans[space], latest): stored.judged.get(space, "")}
        marks |= {id: mark for id, _, mark in sorted(stored.earlier.get(space, ()))}
        for id, mark in marks.items():
            if mark and id in every:
                yield LostVerdicts(space, "" if id == latest else id), mark


def _plans(kept: KeptPlans) -> Iterator[tuple[str, LostVerdicts]]:
    for space in sorted(kept.plans):
        *earlier, latest = kept.every(space)
        yield latest, LostVerdicts(space, certain=False)
        yield from ((id, LostVerdicts(space, id, certain=False)) for id in earlier)


def _give_back(folder: Path) -> str:
    questions.reconcile(folder)
    return ""
