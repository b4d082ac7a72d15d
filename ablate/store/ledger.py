"""The two files of things that happen once: `plans.jsonl` (what was asked) and `outcomes.jsonl` (how trials ended).

    ["plan", digest, {…}]     the latest line of a space is that space
    ["trial", {…}]            each trial's specification, once
    ["ended", {…}]            an `Ending`; the latest line of a trial counts

Reading needs no lock and no database.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ablate.store import lines, segment
from ablate.store.ending import Ending
from ablate.store.lines import Reading
from ablate.train.events import Outcome

PLANS = "plans.jsonl"
OUTCOMES = "outcomes.jsonl"


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked: the latest plan of each space with its digest, and every trial's specification."""

    plans: dict[str, tuple[str, Mapping[str, Any]]]
    trials: dict[str, Mapping[str, Any]]


def asked(reading: Reading) -> Asked:
    """What the lines of `plans.jsonl` say."""
    plans: dict[str, tuple[str, Mapping[str, Any]]] = {}
    trials: dict[str, Mapping[str, Any]] = {}
    for record in reading.records:
        match record:
            case ["plan", digest, plan]:
                plans[plan["space"]] = (digest, plan)
            case ["trial", trial]:
                trials[trial["trial"]] = trial
    return Asked(plans, trials)


def endings(reading: Reading) -> dict[str, Ending]:
    """What the lines of `outcomes.jsonl` say."""
    return {record[1]["trial"]: Ending.of(record[1]) for record in reading.records if record[0] == "ended"}


def plan_record(digest: str, plan: Mapping[str, Any]) -> list[Any]:
    """The line of a plan."""
    return ["plan", digest, plan]


def trial_record(trial: Mapping[str, Any]) -> list[Any]:
    """The line of a trial's specification."""
    return ["trial", trial]


def ending_record(ending: Ending) -> list[Any]:
    """The line of an ended trial."""
    return ["ended", ending.document()]


def known_outcomes(folder: Path) -> dict[str, Outcome]:
    """How every known trial ended, read without a lock, as `plan` and `status` need it.

    A trial that has a segment is not in it: it runs, or was interrupted, or has been begun anew. Nor is one whose
    sealed file is gone.
    """
    known = endings(lines.read(folder / OUTCOMES))
    known_still = sealed_trials(folder) - open_trials(folder)
    return {trial_id: ending.outcome for trial_id, ending in known.items() if trial_id in known_still}


def open_trials(folder: Path) -> set[str]:
    """The trials that have a segment."""
    return {path.stem for path in (folder / segment.FOLDER).glob("*.jsonl")}


def sealed_trials(folder: Path) -> set[str]:
    """The trials that have a sealed file."""
    return {path.stem for path in (folder / "trials").glob("*.parquet")}
