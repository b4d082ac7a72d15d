"""Verdicts, and how questions were judged over time, each judgement of a question kept in two files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from ablate.store import questions, verdicts
from ablate.store.changes import Stored
from ablate.store.ledger import Asked
from ablate.store.lines import Reading
from ablate.store.repair.faults import Fault
from ablate.store.repair.report import Finding


def faults(folder: Path, ledgers: Mapping[Path, Reading], asked: Asked, stored: Stored) -> Iterator[Fault]:
    """Verdicts that are lost, and judgements of questions that only one of the two files knows of."""
    for space in verdicts_lost(folder, ledgers, asked, stored):
        what = f"does not say any more what {space} was judged to be"
        remedy = "the next `ablate run` of it judges it again, and trains nothing for that"
        yield Fault((Finding("verdicts", "lost", what, folder / verdicts.FILE, remedy),))
    names = (questions.FILE, verdicts.FILE)
    for name, other, gone in zip(names, reversed(names), questions.lacking(folder), strict=True):
        path = folder / name
        if gone:
            what = "is not there" if path not in ledgers else f"lacks {len(gone)} of the judgements of questions"
            finding = Finding("question", "repaired", what, path, f"got back from {other}", changes=(path,))
            yield Fault((finding,), partial(_give_back, folder))


def verdicts_lost(folder: Path, ledgers: Mapping[Path, Reading], asked: Asked, stored: Stored) -> list[str]:
    """The spaces that were judged, and whose verdicts no line says any more."""
    path = folder / verdicts.FILE
    lost = verdicts.lost(folder, {space: mark for space, mark in stored.judged.items() if space in asked.plans})
    if path in ledgers and (ledgers[path].torn or ledgers[path].damaged) and not stored.plans:
        lost += sorted(asked.plans.keys() - verdicts.read(folder).keys())  # no database says who was judged
    return lost


def _give_back(folder: Path) -> str:
    questions.mend(folder)
    return ""
