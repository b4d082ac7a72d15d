"""The two files of things that happen once: `plans.jsonl` (what was requested) and `outcomes.jsonl` (how trials ended).

    ["plan", digest, {"space": …}]     the latest line of a plan counts; that of a space is its current plan
    ["seen", {"plan": …, "at": …}]     when a plan was first requested, in seconds since 1970
    ["trial", {"trial": …}]            each trial's specification, once
    ["run", {"space": …}]              a run as it was requested, a second copy (see `requests`)
    ["ended", {"trial": …}]            an `Ending`; the latest line of a trial counts
    ["forgotten", {"trial": …}]        its sealed file was damaged or is gone: how it ended is no longer known

Reading needs no lock and no database. Each line's checksum is verified every time, and that is all that happens to most
lines of `plans.jsonl`: a document's name comes first in it, and the rest is parsed on first access. So 20,000
specifications of 2.5 kB cost a tenth of a second, and files deleted or added by hand count at once.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ablate.store import checksummed_lines, open_trial
from ablate.store.checksummed_lines import Reading, compact
from ablate.store.ending import Ending
from ablate.store.records import (
    EndedRecord,
    ForeignError,
    ForgottenRecord,
    PlanRecord,
    SeenRecord,
    TrialRecord,
    understood,
)
from ablate.store.serialise import digest, plan_id
from ablate.train.events import Outcome

PLANS = "plans.jsonl"
OUTCOMES = "outcomes.jsonl"
SEALED = "trials"

HEAD = re.compile(
    rb'\["(?:plan","(?P<digest>[^"]*)"|trial"),(?P<document>)\{"(?P<key>space|trial)":(?P<name>"(?:[^"\\]|\\.)*")'
)
"""The beginning of a line of `plans.jsonl`, up to the name in its document."""

RESOLVED = re.compile(rb'"source":"(?:[^"\\]|\\.)*","resolved":')
"""What precedes, in the document of a plan, the part that identifies it."""

DECODER = json.JSONDecoder()


class KeptDocument(Mapping[str, Any]):
    """A JSON object of a `kind` of record as it was written at `path`, parsed on first access."""

    def __init__(self, written: bytes, kind: Any, path: Path):
        self._written, self._kind, self._path = written, kind, path

    @property
    def text(self) -> str:
        """The object as one line of JSON."""
        return self._written.decode()

    @cached_property
    def _parsed(self) -> dict[str, Any]:
        try:
            parsed: dict[str, Any] = json.loads(self._written)
        except (ValueError, RecursionError) as error:
            raise ForeignError(self._path, f"a line that is not JSON ({error})") from None
        understood(self._kind, parsed, self._path)
        return parsed

    def resolved(self) -> Any:
        """Return the resolved space of a plan without parsing the rest: a search has a line for each proposal."""
        if not (before := RESOLVED.search(self._written)):
            return self._parsed["resolved"]
        return DECODER.raw_decode(self._written[before.end() :].decode())[0]

    def __getitem__(self, key: str) -> Any:
        return self._parsed[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parsed)

    def __len__(self) -> int:
        return len(self._parsed)


def text_of(document: Mapping[str, Any]) -> str:
    """Return a document as one line of JSON."""
    return document.text if isinstance(document, KeptDocument) else compact(document)


@dataclass(frozen=True, slots=True)
class KeptPlans:
    """What was requested: the current plan of each space with its digest, and every trial's specification.

    `earlier` has the other plans by space and id, in the order in which they were last requested, and `first_seen` when
    each plan was first requested, as far as that was kept.
    """

    plans: dict[str, tuple[str, Mapping[str, Any]]]
    trials: dict[str, Mapping[str, Any]]
    earlier: dict[str, dict[str, tuple[str, Mapping[str, Any]]]] = field(default_factory=dict)
    first_seen: dict[str, float] = field(default_factory=dict)

    def add(self, space: str, digest: str, plan: Mapping[str, Any]) -> None:
        """Make a plan the current one of its space; a plan that has grown replaces itself."""
        if space in self.plans:
            before = self.plans[space]
            earlier = self.earlier.setdefault(space, {})
            earlier.pop(id_of(space, before[1]), None)
            earlier[id_of(space, before[1])] = before
            earlier.pop(id_of(space, plan), None)
        self.plans[space] = digest, plan

    def see(self, plan: str, at: float) -> None:
        """Record when a plan was requested; the first time counts."""
        self.first_seen[plan] = min(at, self.first_seen.get(plan, at))

    def every(self, space: str) -> dict[str, tuple[str, Mapping[str, Any]]]:
        """Return all plans of a space by id, the current one last."""
        latest = self.plans[space]
        return {**self.earlier.get(space, {}), id_of(space, latest[1]): latest}

    def copy(self) -> KeptPlans:
        """Return a copy of what was requested so far."""
        earlier = {space: dict(plans) for space, plans in self.earlier.items()}
        return KeptPlans(dict(self.plans), dict(self.trials), earlier, dict(self.first_seen))


def id_of(space: str, plan: Mapping[str, Any]) -> str:
    """Return the id of a plan from its document, of which only the resolved space is parsed."""
    return plan_id(space, asked=digest(plan.resolved() if isinstance(plan, KeptDocument) else plan["resolved"]))


def kept_plans(reading: Reading) -> KeptPlans:
    """Read the lines of `plans.jsonl`."""
    kept = KeptPlans({}, {})
    for body in reading.bodies:
        if body.startswith(b'["seen"'):
            seen = understood(SeenRecord, next(iter(json.loads(body)[1:]), None), reading.path)
            kept.see(seen["plan"], seen["at"])
            continue
        if not (head := HEAD.match(body)):
            if body.startswith((b'["plan"', b'["trial"')):
                raise ForeignError(reading.path, "a line that begins " + body[1:60].decode(errors="replace"))
            continue
        is_trial = head["key"] == b"trial"
        written = body[head.start("document") : -1]
        name, document = (
            _name(head["name"]),
            KeptDocument(written, TrialRecord if is_trial else PlanRecord, reading.path),
        )
        if is_trial:
            kept.trials[name] = document
        else:
            kept.add(name, head["digest"].decode(), document)
    return kept


def plan_lines(reading: Reading) -> Iterator[tuple[int, str, str]]:
    """Yield the number, space and digest of each line of a plan, without parsing it."""
    for number, body in zip(reading.numbers, reading.bodies, strict=True):
        if (head := HEAD.match(body)) and head["key"] == b"space":
            yield number, _name(head["name"]), head["digest"].decode()


def _name(written: bytes) -> str:
    """Decode a JSON string, the fast way where nothing is escaped: there are tens of thousands."""
    return str(json.loads(written)) if b"\\" in written else written[1:-1].decode()


def endings(reading: Reading) -> dict[str, Ending]:
    """Read the lines of `outcomes.jsonl`."""
    ends: dict[str, Ending] = {}
    for record in reading.records:
        match record:
            case ["ended", *content]:
                ending = understood(EndedRecord, next(iter(content), None), reading.path)
                ends[ending["trial"]] = Ending.of(ending)
            case ["forgotten", *content]:
                trial = understood(ForgottenRecord, next(iter(content), None), reading.path)
                ends.pop(trial["trial"], None)
    return ends


def plan_record(digest: str, plan: Mapping[str, Any]) -> list[Any]:
    """Return the line of a plan, whose first key is `space`."""
    return ["plan", digest, plan]


def seen_record(plan: str, at: float) -> list[Any]:
    """Return the line of a plan that is requested for the first time."""
    return ["seen", {"plan": plan, "at": at}]


def trial_record(trial: Mapping[str, Any]) -> list[Any]:
    """Return the line of a trial's specification, whose first key is `trial`."""
    return ["trial", trial]


def ending_record(ending: Ending) -> list[Any]:
    """Return the line of an ended trial."""
    return ["ended", ending.document()]


def forgotten_record(trial_id: str) -> list[Any]:
    """Return the line of an ended trial whose rows are lost."""
    return ["forgotten", {"trial": trial_id}]


def known_outcomes(folder: Path) -> dict[str, Outcome]:
    """Return how every known trial ended, read without a lock, as `plan` and `status` need it.

    Trials with a segment are left out: they run, were interrupted, or were started again. So are trials whose sealed
    file is gone.
    """
    known = endings(checksummed_lines.read(folder / OUTCOMES))
    closed = sealed_trials(folder) - open_trials(folder)
    return {trial_id: ending.outcome for trial_id, ending in known.items() if trial_id in closed}


def open_trials(folder: Path) -> set[str]:
    """Return the trials that have a segment."""
    return _stems(folder / open_trial.FOLDER, ".jsonl")


def sealed_trials(folder: Path) -> set[str]:
    """Return the trials that have a sealed file."""
    return _stems(folder / SEALED, ".parquet")


def _stems(folder: Path, suffix: str) -> set[str]:
    """Return the names in a folder with that suffix, without it; none if there is no folder."""
    try:
        with os.scandir(folder) as entries:
            return {entry.name.removesuffix(suffix) for entry in entries if entry.name.endswith(suffix)}
    except FileNotFoundError:
        return set()
