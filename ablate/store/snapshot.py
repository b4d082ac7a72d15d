"""Snapshot: a results folder as it is at one moment, also one of an earlier version, and the status of its trials.

It is read without a lock, part by part when first asked for. The segments come first: a trial that is sealed meanwhile
is then among those that have ended, so that nothing is missed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ablate.errors import InputError
from ablate.plan.identity import SCHEME
from ablate.store import claim, durable, files, journal, records
from ablate.store.claim import Holder
from ablate.store.documents import JudgementFile, Question, ResolvedSpace, Specification, digest, plan_id
from ablate.store.durable import compact, writing
from ablate.store.files import GONE, TRIALS, Ending, KeptDocument, Kind, Witness, Written, name_of, trial_of
from ablate.store.journal import Segment
from ablate.store.records import KeptPlans, KeptTable, Request, kept_tables, packed
from ablate.train.events import WITH_RESULT, Outcome

if TYPE_CHECKING:
    from ablate.store.sealed import Examined

MISSING, DAMAGED = "missing", "damaged"
"""The status of a trial whose sealed file is gone, and of one whose file has changed since it was sealed."""


def open_trials(folder: Path) -> set[str]:
    return {path.stem for path in (folder / journal.JOURNAL).glob("*.jsonl")}  # a folder of that name, too


class Snapshot:
    """The content of a folder: plans, endings, open trials, judgements, runs, and what is lost of them."""

    def __init__(self, folder: Path):
        self.folder = folder

    @cached_property
    def open(self) -> frozenset[str]:
        """The trials that have a segment: they run, were interrupted, or were started again."""
        return frozenset(open_trials(self.folder))

    @cached_property
    def segments(self) -> Mapping[str, Segment]:
        read = (journal.read(journal.path_of(self.folder, trial)) for trial in sorted(self.open))
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
        return earlier_witness(self.folder, files.read_witness(self.folder))

    @cached_property
    def endings(self) -> Mapping[str, Ending]:
        """The endings of trials whose sealed file is there."""
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
        return self._sealed.written.get(trial)

    def outcomes(self) -> dict[str, Outcome]:
        """Return how each known trial ended. Those that have a segment are left out."""
        return {trial: ending.outcome for trial, ending in self.endings.items() if trial not in self.open}

    @cached_property
    def lost(self) -> Mapping[str, str]:
        """The files that are gone or damaged, by the witness and the judgements of trials, with their faults."""
        faults = {**self._sealed.faults, **dict(earlier_faults(self.folder))}
        listed = self.witness.written
        for kind in files.DOCUMENTS:
            faults |= self._documents(kind)[1]
        for place in files.FOLDERS:
            there = files.sizes(self.folder, place)
            of_place = {name: written for name, written in listed.items() if name.startswith(f"{place}/")}
            for name, fault in files.lost_among(of_place, there):
                if place != TRIALS or name not in there:  # a trial's file of another size was examined
                    faults.setdefault(name, fault)
        for judgement in records.latest_judgements(self.judgements).values():
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
        kept = records.kept_plans(self._documents("plans")[0])
        begun = {
            trial: segment.beginning.specification
            for trial, segment in self.segments.items()
            if segment.beginning.specification and trial not in kept.specifications
        }
        return KeptPlans(kept.of_space, {**kept.specifications, **begun})

    def specification(self, trial: str) -> Specification:
        """Return the specification of a trial; empty where no file has it."""
        if trial in self.plans.specifications:
            return self.plans.specifications[trial]
        written = self.sealed(trial)
        return (_examined(self.folder, trial, written).specification if written else None) or {}

    @cached_property
    def judgements(self) -> tuple[KeptDocument[JudgementFile], ...]:
        return self._documents("verdicts")[0]

    @cached_property
    def verdicts(self) -> Mapping[str, KeptDocument[JudgementFile]]:
        return records.latest_judgements(self.judgements)

    @cached_property
    def questions(self) -> Mapping[str, tuple[Question, ...]]:
        return records.judged_questions(self.judgements)

    @cached_property
    def requests(self) -> Mapping[str, Request]:
        return records.last_requests(self._documents("runs")[0])

    @cached_property
    def tables(self) -> Mapping[str, tuple[KeptTable, ...]]:
        return kept_tables(self._documents("tables")[0])

    @property
    def paces(self) -> Sequence[KeptDocument[Any]]:
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
    def by_space(self) -> Mapping[str, Sequence[KeptDocument[Any]]]:
        """The documents of each space: plans not replaced, tables, runs, judgements; those of no space under ""."""
        replaced = self.replaced
        of_space: dict[str, list[KeptDocument[Any]]] = {}
        for kind in files.DOCUMENTS:
            for document in self._documents(kind)[0]:
                for space in _spaces_of(document) if document.name not in replaced else ():
                    of_space.setdefault(space, []).append(document)
        return of_space

    @cached_property
    def _read(self) -> dict[Kind, tuple[tuple[KeptDocument[Any], ...], Mapping[str, str]]]:
        return {}

    def _documents(self, kind: Kind) -> tuple[tuple[KeptDocument[Any], ...], Mapping[str, str]]:
        if kind not in self._read:
            found, faults = files.documents(self.folder, kind)
            before = earlier_documents(self.folder, kind)
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
    return name.partition(".")[0]


def _spaces_of(document: KeptDocument[Any]) -> set[str]:
    content = document.content
    own = content["document"]["space"] if "document" in content else content.get("space", "")
    return {str(own), *(str(question["space"]) for question in content.get("questions", ()))}


# The status of every trial of every space, during a run or after


@dataclass(frozen=True, slots=True)
class TrialStatus:
    """One trial of one space.

    `state` is how it ended (finished, diverged, bug, …), or: `running` (a living worker has it), `dead` (its worker
    died), `paused` (something is kept of it, and no worker has it), `missing` or `damaged` (its sealed file is gone or
    changed), `waiting` (nothing is kept). `step` of `steps` are known to be done; `saved` is the step of the last
    checkpoint, `silent` the seconds since the worker was last heard. `scheme` is that of its identity
    (`plan.identity.SCHEME`): under an earlier one, a plan repeats it.
    """

    space: str
    trial_id: str
    variant: str
    seed: int
    state: str
    step: int
    steps: int
    saved: int | None = None
    worker: str = ""
    silent: float | None = None
    scheme: int = SCHEME


@dataclass(frozen=True, slots=True)
class Growing:
    """A space's current plan that grows with its results: `open` if more may follow, `resolved` its complete space."""

    search: bool
    open: bool
    resolved: ResolvedSpace

    @property
    def why(self) -> str:
        return "a search that is not over" if self.search else "not all of it is decided"


def standings(now: Snapshot) -> tuple[TrialStatus, ...]:
    """Return every trial of every space's current plan, in order. InputError for a folder without results."""
    folder = now.folder
    if not now.plans.of_space and not unplanned(now) and not now.tables:
        lost = "".join(f": lost: {name} {fault}" for name, fault in now.lost.items() if name.startswith("plans/"))
        way_out = f"`ablate doctor --results {folder}` recovers it if it can" if lost else "run a space first"
        raise InputError(f"no results in {folder}{lost}\n  = {way_out}, or name another folder with --results")
    holders, at = claim.holders(folder), time.time()
    return tuple(
        _status(space, str(trial), names.get(variant, variant), seed, now, holders, at)
        for space, plan in now.plans.every_current.items()
        for names in [{v["id"]: v["name"] for v in plan["variants"]}]
        for trial, variant, seed in plan["trials"]
    )


def growing(now: Snapshot) -> dict[str, Growing]:
    """Return the spaces that are searches, and those whose trials decide what is trained next, by name."""
    return {
        space: Growing(search, bool(plan.get("open")), plan["resolved"])
        for space, plan in now.plans.every_current.items()
        for search in [plan["design"] == "search"]
        if search or plan.get("open") or plan.get("looks")
    }


def unplanned(now: Snapshot) -> list[str]:
    """Return the spaces whose last run was stopped before it was planned."""
    if any(name.startswith("plans/") for name in now.lost):
        return []
    return [
        space
        for space, request in now.requests.items()
        for plan in [now.plans.current(space)]
        if plan is None or not request.is_planned_as(plan.document)
    ]


def not_over(now: Snapshot) -> dict[str, str]:
    """Return the spaces that are not over though all their known trials may have ended, and why, by name."""
    open_plans = {space: plan.why for space, plan in growing(now).items() if plan.open}
    stopped = dict.fromkeys(unplanned(now), "no plan of its last run is kept")
    return dict.fromkeys(unjudged(now), "all have ended, but were not judged since") | open_plans | stopped


def unjudged(now: Snapshot) -> set[str]:
    """The spaces whose trials have all ended with a result and were not judged since, because a run was killed. A
    search is left out: only what it confirms is judged."""
    spaces = set()
    for space, plans in now.plans.of_space.items():
        plan = plans[-1].document
        trials = {trial for trial, *_ in plan["trials"]}
        ended = {trial: now.endings[trial] for trial in trials & (now.endings.keys() - now.live.keys())}
        if plan["design"] == "search" or not all(
            trial in ended and ended[trial].kind in WITH_RESULT for trial in trials
        ):
            continue
        judged = now.verdicts.get(plans[-1].id)
        digests = {trial: end.digest[: files.DIGITS] for trial, end in ended.items()}
        if judged is None or judged.content["trials"] != digests:
            spaces.add(space)
    return spaces


def _status(
    space: str, trial: str, variant: str, seed: int, snapshot: Snapshot, holders: Mapping[str, Holder], now: float
) -> TrialStatus:
    specification = snapshot.plans.specifications.get(trial, {})
    steps = int(specification.get("recipe", {}).get("steps", 0))
    scheme = specification.get("identity", 1) if specification else SCHEME
    whole = partial(TrialStatus, space, trial, variant, seed, scheme=scheme, steps=steps)
    if trial in snapshot.endings and trial not in snapshot.live:
        outcome = snapshot.endings[trial].outcome
        return whole(state=outcome.kind, step=outcome.step)
    segment, holder = snapshot.live.get(trial), holders.get(trial)
    rows, marks = (segment.rows, segment.marks) if segment else ((), ())
    saved = marks[-1].saved.step if marks else None
    # A row at step s belongs to step number s + 1, which is done.
    step = max([row[0] + 1 for row in rows] + [saved or 0, holder.step if holder else 0])
    step = min(step, steps) if steps else step
    if holder:
        state, worker = "running" if holder.alive else "dead", f"{holder.host}:{holder.pid}"
        return whole(state=state, step=step, saved=saved, worker=worker, silent=now - holder.heard)
    if not segment and trial in snapshot.lost_trials:
        return whole(state=MISSING if snapshot.lost_trials[trial] == files.GONE else DAMAGED, step=0)
    return whole(state="paused" if rows or marks else "waiting", step=step, saved=saved)


# Results folders of earlier versions, which kept lines in place of files; the next run converts them.
#
#     plans.jsonl      ["plan", digest, {…}], ["seen", {…}], ["trial", {…}] and a second copy of ["run", {…}]
#     outcomes.jsonl   ["ended", {…}], ["forgotten", {…}]
#     runs.jsonl       ["run", {…}]
#     verdicts.jsonl   ["judged", digest, {…}] and a second copy of ["question", digest, {…}]
#     questions.jsonl  ["question", digest, {…}]
#     paces.jsonl      ["paces", {…}]
#
# Their documents have numbers below one, so that everything written since comes after them.

EARLIER_OUTCOMES = "outcomes.jsonl"
EARLIER_LINES = ("questions.jsonl", "verdicts.jsonl", "runs.jsonl", "paces.jsonl", EARLIER_OUTCOMES, "plans.jsonl")
"""The files of lines, in the order in which they are put aside: plans last, since verdicts are read with them."""
EARLIER = "earlier"
Record: TypeAlias = Mapping[str, Any]


def is_earlier(folder: Path) -> bool:
    return any((folder / name).exists() for name in EARLIER_LINES)


def earlier_documents(folder: Path, kind: files.Kind) -> tuple[KeptDocument[Record], ...]:
    if not is_earlier(folder):
        return ()
    contents = list(_EARLIER_CONTENTS[kind](folder))
    return tuple(_earlier_document(kind, *numbered) for numbered in enumerate(contents, 1 - len(contents)))


def earlier_witness(folder: Path, now: Witness) -> Witness:
    written = dict(_earlier_written(folder))
    return Witness({**written, **now.written}, now.dropped, now.damaged, now.torn) if written else now


def earlier_faults(folder: Path) -> Iterator[tuple[str, str]]:
    for name in EARLIER_LINES:
        if damaged := durable.read_lines(folder / name).damaged:
            yield name, f"is damaged in line {', '.join(map(str, damaged))}"


def convert_earlier(folder: Path) -> str:
    """Write the documents of the lines as files, and put the lines aside; return that it was done. Needs the lock.

    It can be repeated after a crash at any moment: the same lines give the same files.
    """
    for kind in files.DOCUMENTS:
        for document in earlier_documents(folder, kind):
            stem = document.content["plan"] if kind == "plans" else ""
            content = {name: value for name, value in document.content.items() if name not in ("format", "number")}
            files.keep(folder, kind, content, document.number, stem=stem)
    known = files.read_witness(folder).written
    files.bear_witness(folder, [each for name, each in _earlier_written(folder) if name not in known])
    aside = folder / EARLIER
    with writing(aside):
        aside.mkdir(exist_ok=True)
        for name in EARLIER_LINES:
            if (folder / name).exists():
                (folder / name).rename(aside / name)
    return f"{folder} is of an earlier version: its lines are converted to files, and kept in {EARLIER}"


def _earlier_document(kind: files.Kind, number: int, content: Record) -> KeptDocument[Record]:
    stem = f"{content['plan']}." if kind == "plans" else ""
    return KeptDocument(f"{kind}/{stem}{files.digest_of(files.encoded(content, number))}.json", number, content)


def _earlier_records(folder: Path, name: str, word: str) -> Iterator[Any]:
    path = folder / name
    for record in durable.read_lines(path).records:
        match record:
            case [str(first), *_, dict(content)] if first == word:
                yield content
            case [str(first), *_] if first == word:
                raise files.ForeignError(path, f"the line {compact(record)[:100]}")


def _earlier_plans(folder: Path) -> Iterator[Record]:
    specifications = {each["trial"]: each for each in _earlier_records(folder, "plans.jsonl", "trial")}
    first_seen: dict[str, float] = {}
    for seen in _earlier_records(folder, "plans.jsonl", "seen"):
        first_seen.setdefault(seen["plan"], seen["at"])
    plans: dict[str, Record] = {}
    for plan in _earlier_records(folder, "plans.jsonl", "plan"):
        id = plan_id(plan["space"], asked=digest(plan["resolved"]))
        plans.pop(id, None)
        plans[id] = plan
    left = dict(specifications)
    for number, (id, plan) in enumerate(plans.items(), 1):
        own = [left.pop(trial, specifications[trial]) for trial, *_ in plan["trials"] if trial in specifications]
        own += left.values() if number == len(plans) else ()  # of trials that were begun for no plan that is kept
        yield {"plan": id, "first_seen": first_seen.get(id), "document": plan, "specifications": packed(own)}


def _earlier_judgements(folder: Path) -> Iterator[Record]:
    endings = dict(_earlier_endings(folder))
    trials_of = {plan["plan"]: [trial for trial, *_ in plan["document"]["trials"]] for plan in _earlier_plans(folder)}
    for verdicts in _earlier_records(folder, "verdicts.jsonl", "judged"):
        plan = plan_id(verdicts["space"], asked=verdicts["asked"])
        ended = {trial: endings[trial] for trial in trials_of.get(plan, ()) if trial in endings}
        # Verdicts that do not say how trials had ended count as the latest.
        states = digest(sorted((trial, ending.outcome.kind) for trial, ending in ended.items()))
        same = verdicts.get("ended", states) == states
        trials = {trial: ending.digest[: files.DIGITS] for trial, ending in ended.items()} if same else {}
        yield {"space": verdicts["space"], "plan": plan, "at": 0.0, "trials": trials, "verdicts": verdicts} | {
            "questions": []
        }
    judged: dict[str, Record] = {}
    for name in ("questions.jsonl", "verdicts.jsonl"):
        judged |= {compact(question): question for question in _earlier_records(folder, name, "question")}
    if judged:
        over_time = sorted(judged.values(), key=lambda question: float(question["at"]))
        yield {"space": "", "plan": "", "at": 0.0, "trials": {}, "verdicts": None, "questions": over_time}


def _earlier_runs(folder: Path) -> Iterable[Record]:
    runs: dict[str, Record] = {}
    for name in ("runs.jsonl", "plans.jsonl"):
        runs |= {compact(run): run for run in _earlier_records(folder, name, "run")}
    return sorted(runs.values(), key=lambda run: float(run.get("at", 0)))


_EARLIER_CONTENTS: Mapping[files.Kind, Callable[[Path], Iterable[Record]]] = {
    "plans": _earlier_plans,
    "verdicts": _earlier_judgements,
    "runs": _earlier_runs,
    "paces": partial(_earlier_records, name="paces.jsonl", word="paces"),
    "tables": lambda folder: (),
}


def _earlier_endings(folder: Path) -> Iterator[tuple[str, Ending]]:
    yield from ((trial_of(name), each.ending) for name, each in _earlier_written(folder) if each.ending)


def _earlier_written(folder: Path) -> Iterable[tuple[str, Written]]:
    """Return the trials that the index lists, with the length and checksum of each file as far as they were kept."""
    written: dict[str, Written] = {}
    for record in durable.read_lines(folder / EARLIER_OUTCOMES).records:
        match record:
            case ["ended", {"trial": str(trial), "file": [int(size), int(crc)]} as ended]:
                name = name_of(trial)
                written[name] = Written(name, size, f"{crc:08x}", files.ending_of(ended, folder / EARLIER_OUTCOMES))
            case ["ended", {"trial": str(trial)} as ended]:
                name = name_of(trial)
                written[name] = Written(name, -1, "", files.ending_of(ended, folder / EARLIER_OUTCOMES))
            case ["forgotten", {"trial": str(trial)}]:
                written.pop(name_of(trial), None)
    return written.items()
