"""How every trial of every space stands now: read from a results folder without a lock, while a run writes or after."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ablate.errors import InputError
from ablate.plan.identity import SCHEME
from ablate.store import checksummed_lines, claim, ledger, pending_rows, serialise, verdicts
from ablate.store.claim import Holder
from ablate.store.open_trial import Segment
from ablate.store.pending_rows import Journal
from ablate.train.events import WITH_RESULT


@dataclass(frozen=True, slots=True)
class TrialStatus:
    """One trial of one space.

    `state` is how it ended (finished, diverged, bug, …), or: `running` (a worker has it and lives), `dead` (its worker
    died), `paused` (something is kept of it, and no worker has it), `waiting` (nothing is kept). `step` of `steps` are
    known to be done; `saved` is the step of the last checkpoint. `silent` is the time in seconds since the worker was
    last heard. `scheme` is that of its identity (`plan.identity.SCHEME`): of an earlier one, a plan asks for it anew.
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


def standings(folder: Path) -> tuple[TrialStatus, ...]:
    """Every trial of every space as last asked, in the order of the plans. InputError for a folder without results."""
    journal, live = pending_rows.read_journal(folder)
    if not journal.asked.plans:
        raise InputError(f"no results in {folder}\n  = run a space first, or name another folder with --results")
    holders, now = claim.holders(folder), time.time()
    trials = journal.asked.trials
    return tuple(
        replace(
            _standing(space, str(trial_id), names.get(variant, variant), seed, journal, live, holders, now),
            scheme=trials[str(trial_id)].get("identity", 1) if str(trial_id) in trials else SCHEME,
        )
        for space, (_, plan) in journal.asked.plans.items()
        for names in [{v["id"]: v["name"] for v in plan["variants"]}]
        for trial_id, variant, seed in plan["trials"]
    )


def plan_counts(folder: Path) -> dict[str, int]:
    """As how many plans each space was asked: with how many settings, or texts of its file."""
    asked = ledger.asked(checksummed_lines.read(folder / ledger.PLANS))
    return {space: len(asked.every(space)) for space in asked.plans}


@dataclass(frozen=True, slots=True)
class Growing:
    """A plan that grows with its results, as it was last asked for: whether it is a search or one that learns from its
    own trials, whether more may follow, and the whole of its space as it was resolved.
    """

    search: bool
    open: bool
    resolved: Mapping[str, Any]

    @property
    def why(self) -> str:
        """What it is that is not over."""
        return "a search that is not over" if self.search else "not all of it is decided"


def growing(folder: Path) -> dict[str, Growing]:
    """The spaces that are searches, and those whose trials decide what is trained next, by name."""
    plans = ledger.asked(checksummed_lines.read(folder / ledger.PLANS)).plans
    return {
        space: Growing(search, bool(plan.get("open")), plan["resolved"])
        for space, (_, plan) in plans.items()
        for search in [plan["design"] == "search"]
        if search or plan.get("open") or plan.get("looks")
    }


def not_over(folder: Path) -> dict[str, str]:
    """The spaces that are not over though all of their trials may have ended, and why so, by name."""
    open_plans = {space: plan.why for space, plan in growing(folder).items() if plan.open}
    return dict.fromkeys(unjudged(folder), "all have ended, and were not judged since") | open_plans


def unjudged(folder: Path) -> set[str]:
    """The spaces whose trials have all ended with a result, and whose verdicts do not say so: a run was killed between.

    Of a search nothing is judged but what it confirms, and verdicts of a version that did not note how trials had ended
    are taken for the last.
    """
    journal, live = pending_rows.read_journal(folder)
    judged = verdicts.read(folder)
    spaces = set()
    for space, (_, plan) in journal.asked.plans.items():
        ids = [str(trial_id) for trial_id, *_ in plan["trials"]]
        states = {id: journal.endings[id].outcome.kind for id in ids if id in journal.endings and id not in live}
        if plan["design"] == "search" or len(states) < len(ids) or not set(states.values()) <= set(WITH_RESULT):
            continue
        asked_as = serialise.plan_id(space, asked=serialise.digest(plan["resolved"]))
        _, document = judged.get(space, {}).get(asked_as, ("", {}))
        if document.get("ended") != verdicts.ended_digest(states) and ("ended" in document or not document):
            spaces.add(space)
    return spaces


def _standing(
    space: str,
    trial_id: str,
    variant: str,
    seed: int,
    journal: Journal,
    live: Mapping[str, Segment],
    holders: Mapping[str, Holder],
    now: float,
) -> TrialStatus:
    steps = int(journal.asked.trials.get(trial_id, {}).get("recipe", {}).get("steps", 0))
    if trial_id in journal.endings and trial_id not in live:
        outcome = journal.endings[trial_id].outcome
        return TrialStatus(space, trial_id, variant, seed, outcome.kind, outcome.step, steps)
    segment, holder = live.get(trial_id), holders.get(trial_id)
    rows, marks = (segment.rows, segment.marks) if segment else ((), ())
    saved = marks[-1].saved.step if marks else None
    # A row at step s is of a step that is done, the one after s of them.
    step = max([row[0] + 1 for row in rows] + [saved or 0, holder.step if holder else 0])
    step = min(step, steps) if steps else step
    if holder:
        state, worker = "running" if holder.alive else "dead", f"{holder.host}:{holder.pid}"
        return TrialStatus(space, trial_id, variant, seed, state, step, steps, saved, worker, now - holder.heard)
    return TrialStatus(space, trial_id, variant, seed, "paused" if rows or marks else "waiting", step, steps, saved)
