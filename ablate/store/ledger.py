"""The two files of things that happen once: `plans.jsonl` (what was asked) and `outcomes.jsonl` (how trials ended).

    ["plan", digest, {"space": …}]     the latest line of a plan is that plan, that of a space how it is asked now
    ["seen", {"plan": …, "at": …}]     when a plan was first asked, in seconds since 1970
    ["trial", {"trial": …}]            each trial's specification, once
    ["run", {"space": …}]              a run as it was asked for, kept here for the second time (see `requests`)
    ["ended", {"trial": …}]            an `Ending`; the latest line of a trial counts
    ["forgotten", {"trial": …}]        its sealed file was damaged or is gone: how it ended is not known any more

Reading needs no lock and no database. Each line's checksum is verified every time, and that is all that happens to most
lines of `plans.jsonl`: a document's name comes first in it, and the rest is parsed when somebody looks into it. So
20,000 specifications of 2.5 kB cost a tenth of a second, and what was deleted or put there by hand counts at once.
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
"""How a line of `plans.jsonl` begins, up to the name in its document."""

RESOLVED = re.compile(rb'"source":"(?:[^"\\]|\\.)*","resolved":')
"""What stands in the document of a plan before that which tells it from others."""

DECODER = json.JSONDecoder()


class KeptDocument(Mapping[str, Any]):
    """A JSON object of a `kind` of record as it was written at `path`, parsed when it is first looked into."""

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
        """What a plan was resolved to: a search keeps a line for each proposal, and all of them say the same of it."""
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
    """A document as one line of JSON."""
    return document.text if isinstance(document, KeptDocument) else compact(document)


@dataclass(frozen=True, slots=True)
class KeptPlans:
    """What was asked: the latest plan of each space with its digest, and every trial's specification.

    `earlier` has by space and plan what else was asked by that name, in the order in which it was last asked, and
    `first_seen` when each plan was asked first, as far as that was kept.
    """

    plans: dict[str, tuple[str, Mapping[str, Any]]]
    trials: dict[str, Mapping[str, Any]]
    earlier: dict[str, dict[str, tuple[str, Mapping[str, Any]]]] = field(default_factory=dict)
    first_seen: dict[str, float] = field(default_factory=dict)

    def add(self, space: str, digest: str, plan: Mapping[str, Any]) -> None:
        """Have a plan for what its space was last asked; one that has grown takes its own place."""
        if space in self.plans:
            before = self.plans[space]
            earlier = self.earlier.setdefault(space, {})
            earlier.pop(id_of(space, before[1]), None)
            earlier[id_of(space, before[1])] = before
            earlier.pop(id_of(space, plan), None)
        self.plans[space] = digest, plan

    def see(self, plan: str, at: float) -> None:
        """Have a plan for one that was asked then; the first time counts."""
        self.first_seen[plan] = min(at, self.first_seen.get(plan, at))

    def every(self, space: str) -> dict[str, tuple[str, Mapping[str, Any]]]:
        """All plans of a space by their ids, the one that was last asked coming last."""
        latest = self.plans[space]
        return {**self.earlier.get(space, {}), id_of(space, latest[1]): latest}

    def copy(self) -> KeptPlans:
        """What was asked so far."""
        earlier = {space: dict(plans) for space, plans in self.earlier.items()}
        return KeptPlans(dict(self.plans), dict(self.trials), earlier, dict(self.first_seen))


def id_of(space: str, plan: Mapping[str, Any]) -> str:
    """The id of a plan by its document, of which no more is parsed than what it was resolved to."""
    return plan_id(space, asked=digest(plan.resolved() if isinstance(plan, KeptDocument) else plan["resolved"]))


def asked(reading: Reading) -> KeptPlans:
    """What the lines of `plans.jsonl` say."""
    found = KeptPlans({}, {})
    for body in reading.bodies:
        if body.startswith(b'["seen"'):
            seen = understood(SeenRecord, next(iter(json.loads(body)[1:]), None), reading.path)
            found.see(seen["plan"], seen["at"])
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
            found.trials[name] = document
        else:
            found.add(name, head["digest"].decode(), document)
    return found


def plan_lines(reading: Reading) -> Iterator[tuple[int, str, str]]:
    """The lines of plans, none of them parsed: their numbers, spaces and digests."""
    for number, body in zip(reading.numbers, reading.bodies, strict=True):
        if (head := HEAD.match(body)) and head["key"] == b"space":
            yield number, _name(head["name"]), head["digest"].decode()


def _name(written: bytes) -> str:
    """A JSON string; most have nothing escaped, and there are tens of thousands."""
    return str(json.loads(written)) if b"\\" in written else written[1:-1].decode()


def endings(reading: Reading) -> dict[str, Ending]:
    """What the lines of `outcomes.jsonl` say."""
    found: dict[str, Ending] = {}
    for record in reading.records:
        match record:
            case ["ended", *said]:
                ending = understood(EndedRecord, next(iter(said), None), reading.path)
                found[ending["trial"]] = Ending.of(ending)
            case ["forgotten", *said]:
                trial = understood(ForgottenRecord, next(iter(said), None), reading.path)
                found.pop(trial["trial"], None)
    return found


def plan_record(digest: str, plan: Mapping[str, Any]) -> list[Any]:
    """The line of a plan, whose first key is `space`."""
    return ["plan", digest, plan]


def seen_record(plan: str, at: float) -> list[Any]:
    """The line of a plan that is asked for the first time."""
    return ["seen", {"plan": plan, "at": at}]


def trial_record(trial: Mapping[str, Any]) -> list[Any]:
    """The line of a trial's specification, whose first key is `trial`."""
    return ["trial", trial]


def ending_record(ending: Ending) -> list[Any]:
    """The line of an ended trial."""
    return ["ended", ending.document()]


def forgotten_record(trial_id: str) -> list[Any]:
    """The line of a trial that has ended and has lost its rows."""
    return ["forgotten", {"trial": trial_id}]


def known_outcomes(folder: Path) -> dict[str, Outcome]:
    """How every known trial ended, read without a lock, as `plan` and `status` need it.

    A trial that has a segment is not in it: it runs, or was interrupted, or has been begun anew. Nor is one whose
    sealed file is gone.
    """
    known = endings(checksummed_lines.read(folder / OUTCOMES))
    known_still = sealed_trials(folder) - open_trials(folder)
    return {trial_id: ending.outcome for trial_id, ending in known.items() if trial_id in known_still}


def open_trials(folder: Path) -> set[str]:
    """The trials that have a segment."""
    return _stems(folder / open_trial.FOLDER, ".jsonl")


def sealed_trials(folder: Path) -> set[str]:
    """The trials that have a sealed file."""
    return _stems(folder / SEALED, ".parquet")


def _stems(folder: Path, suffix: str) -> set[str]:
    """The names in a folder that end so, without that end; no folder is no names."""
    try:
        with os.scandir(folder) as entries:
            return {entry.name.removesuffix(suffix) for entry in entries if entry.name.endswith(suffix)}
    except FileNotFoundError:
        return set()
