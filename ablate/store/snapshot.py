"""A results folder as it is at one moment, read without a lock, also while a driver writes.

Each part is read when it is first asked for. The segments come first: a trial that is sealed meanwhile is then among
those that have ended, so that nothing is missed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablate.store import earlier, files, judgements, open_trial, plans, requests
from ablate.store.documents import JudgementFile, Question, Specification
from ablate.store.files import GONE, TRIALS, Document, Ending, Kind, Witness, Written, name_of, trial_of
from ablate.store.kept_tables import KeptTable, kept_tables
from ablate.store.open_trial import Segment
from ablate.store.plans import KeptPlans
from ablate.store.requests import Request
from ablate.store.serialise import digest
from ablate.train.events import Outcome

if TYPE_CHECKING:
    from ablate.store.sealed import Examined

MISSING, DAMAGED = "missing", "damaged"
"""The status of a trial whose sealed file is gone, and of one whose file has changed since it was sealed."""


def open_trials(folder: Path) -> set[str]:
    return {path.stem for path in (folder / open_trial.FOLDER).glob("*.jsonl")}  # a folder of that name, too


class Snapshot:
    """What a folder keeps: plans, endings, open trials, judgements, runs, and what is lost of them."""

    def __init__(self, folder: Path):
        self.folder = folder

    @cached_property
    def open(self) -> frozenset[str]:
        """The trials that have a segment: they run, were interrupted, or were started again."""
        return frozenset(open_trials(self.folder))

    @cached_property
    def segments(self) -> Mapping[str, Segment]:
        read = (open_trial.read(open_trial.path_of(self.folder, trial)) for trial in sorted(self.open))
        return {segment.beginning.trial: segment for segment in read if segment}

    @cached_property
    def live(self) -> Mapping[str, Segment]:
        """The segments of trials that have not ended, or were started again after that."""
        ended = self.endings
        return {
            trial: segment
            for trial, segment in self.segments.items()
            if trial not in ended or segment.beginning.attempt > ended[trial].attempt
        }

    @cached_property
    def witness(self) -> Witness:
        return earlier.witness(self.folder, files.read_witness(self.folder))

    @cached_property
    def endings(self) -> Mapping[str, Ending]:
        """How trials have ended whose sealed file is there."""
        return {trial: written.ending for trial, written in self._sealed.written.items() if written.ending}

    @cached_property
    def _sealed(self) -> _Sealed:
        self.segments  # noqa: B018  before the files
        there, listed = files.sizes(self.folder, TRIALS), self.witness.written
        written, faults, unlisted = {}, {}, []
        for name, size in sorted(there.items()):
            trial, known = trial_of(name), listed.get(name)
            if known is not None and known.size == size:
                written[trial] = known
                continue
            examined = _examined(self.folder, trial, known)
            if examined.written is not None:
                written[trial] = examined.written
                unlisted.append(name)
            elif examined.fault != GONE:
                faults[name] = examined.fault
        return _Sealed(written, faults, tuple(unlisted))

    def sealed(self, trial: str) -> Written | None:
        """Return the sealed file of a trial as it was written; None if it is not there."""
        return self._sealed.written.get(trial)

    def outcomes(self) -> dict[str, Outcome]:
        """Return how each known trial ended. Those that have a segment are left out."""
        return {trial: ending.outcome for trial, ending in self.endings.items() if trial not in self.open}

    @cached_property
    def lost(self) -> Mapping[str, str]:
        """The files that are gone or damaged, by the witness and the judgements of trials, and how."""
        faults = {**self._sealed.faults, **dict(earlier.faults(self.folder))}
        listed = self.witness.written
        for kind in files.DOCUMENTS:
            faults |= self._documents(kind)[1]
        for place in files.FOLDERS:
            there = files.sizes(self.folder, place)
            of_place = {name: written for name, written in listed.items() if name.startswith(f"{place}/")}
            for name, fault in files.lost_among(of_place, there):
                if place != TRIALS or name not in there:  # a trial's file of another size was examined
                    faults.setdefault(name, fault)
        for judgement in judgements.latest(self.judgements).values():
            for trial in judgement.content["trials"]:
                if trial not in self.endings and trial not in self.open:
                    faults.setdefault(name_of(trial), GONE)
        # What a driver replaced since the witness was read is no loss, nor is a plan whose later file it does not list.
        dropped = files.read_witness(self.folder).dropped if faults else frozenset()
        later = set(files.names(self.folder, "plans")) - {*listed, *faults, *dropped}
        grown = {_stem(name) for name in later}
        replaced = {
            name
            for name, fault in faults.items()
            if _stem(name) in grown or (name in dropped and (fault == GONE or name not in listed))
        }
        return {name: fault for name, fault in sorted(faults.items()) if name not in replaced}

    @property
    def replaced(self) -> tuple[str, ...]:
        """The files of plans that a later file of the same plan replaces, left there by a crash."""
        now = {plan.file for plans in self.plans.of_space.values() for plan in plans}
        return tuple(name for name in files.names(self.folder, "plans") if name not in now and name not in self.lost)

    @property
    def unlisted(self) -> tuple[str, ...]:
        documents = (name for kind in (*files.DOCUMENTS, files.SOURCES) for name in files.names(self.folder, kind))
        unlisted = (*self._sealed.unlisted, *(name for name in documents if name not in self.witness.written))
        replaced = self.replaced
        return tuple(name for name in unlisted if name not in replaced)

    @cached_property
    def lost_trials(self) -> dict[str, str]:
        """The trials whose sealed file is lost and that were not started again, and what is wrong with it."""
        trials = ((trial_of(name), fault) for name, fault in self.lost.items() if name.startswith(TRIALS))
        return {trial: fault for trial, fault in trials if trial not in self.open}

    @cached_property
    def plans(self) -> KeptPlans:
        """The plans of each space, with specifications; those of trials outside any plan are in their own files."""
        kept = plans.kept_plans(self._documents("plans")[0])
        begun = {
            trial: segment.beginning.specification
            for trial, segment in self.segments.items()
            if segment.beginning.specification and trial not in kept.specifications
        }
        return KeptPlans(kept.of_space, {**kept.specifications, **begun})

    def specification(self, trial: str) -> Specification:
        """Return what a trial was specified as; empty where no file says it."""
        if trial in self.plans.specifications:
            return self.plans.specifications[trial]
        written = self.sealed(trial)
        return (_examined(self.folder, trial, written).specification if written else None) or {}

    @cached_property
    def judgements(self) -> tuple[Document[JudgementFile], ...]:
        return self._documents("verdicts")[0]

    @cached_property
    def verdicts(self) -> Mapping[str, Document[JudgementFile]]:
        return judgements.latest(self.judgements)

    @cached_property
    def questions(self) -> Mapping[str, tuple[Question, ...]]:
        return judgements.questions(self.judgements)

    @cached_property
    def requests(self) -> Mapping[str, Request]:
        return requests.last_of(self._documents("runs")[0])

    @cached_property
    def tables(self) -> Mapping[str, tuple[KeptTable, ...]]:
        """The judged tables of each space, the current one last."""
        return kept_tables(self._documents("tables")[0])

    @property
    def paces(self) -> Sequence[Document[Any]]:
        return self._documents("paces")[0]

    @cached_property
    def listing(self) -> Mapping[str, str]:
        """The digest of each file that is there, by name: for a trial that of its rows, and its attempt."""
        trials = {name_of(trial): f"{end.attempt} {end.digest}" for trial, end in self.endings.items()}
        kept = (document for kind in files.DOCUMENTS for document in self._documents(kind)[0])
        return trials | {document.name: document.digest for document in kept}

    @cached_property
    def mark(self) -> str:
        """The hash of the listing, of what is lost, and of the attempts that have begun and not ended."""
        begun = sorted((trial, segment.beginning.attempt) for trial, segment in self.live.items())
        return digest([sorted(self.listing.items()), sorted(self.lost.items()), begun])

    @cached_property
    def by_space(self) -> Mapping[str, Sequence[Document[Any]]]:
        """The documents of each space: plans, tables, runs, and what was judged; those of no space under "".

        Plans that were replaced are left out: what is read from a folder is the same when they are deleted.
        """
        replaced = self.replaced
        of_space: dict[str, list[Document[Any]]] = {}
        for kind in files.DOCUMENTS:
            for document in self._documents(kind)[0]:
                for space in _spaces_of(document) if document.name not in replaced else ():
                    of_space.setdefault(space, []).append(document)
        return of_space

    @cached_property
    def _read(self) -> dict[Kind, tuple[tuple[Document[Any], ...], Mapping[str, str]]]:
        return {}

    def _documents(self, kind: Kind) -> tuple[tuple[Document[Any], ...], Mapping[str, str]]:
        if kind not in self._read:
            found, faults = files.documents(self.folder, kind)
            before = earlier.documents(self.folder, kind)
            unique = {document.name: document for document in (*before, *found)}  # a crash may leave both
            self._read[kind] = tuple(unique.values()), faults
        return self._read[kind]


@dataclass(frozen=True, slots=True)
class _Sealed:
    written: Mapping[str, Written]
    faults: Mapping[str, str]
    unlisted: tuple[str, ...]


def _examined(folder: Path, trial: str, known: Written | None) -> Examined:
    from ablate.store import sealed  # loads Arrow, which a folder whose witness lists its trials does not need

    return sealed.examine(folder, trial, known)


def _stem(name: str) -> str:
    """Return the part of a name that the files of one plan share."""
    return name.partition(".")[0]


def _spaces_of(document: Document[Any]) -> set[str]:
    content = document.content
    own = content["document"]["space"] if "document" in content else content.get("space", "")
    return {str(own), *(str(question["space"]) for question in content.get("questions", ()))}
