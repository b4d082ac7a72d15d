"""The status of every trial of every space: read from a results folder without a lock, during a run or after."""

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

    `state` is how it ended (finished, diverged, bug, …), or: `running` (a living worker has it), `dead` (its worker
    died), `paused` (something is kept of it, and no worker has it), `waiting` (nothing is kept). `step` of `steps` are
    known to be done; `saved` is the step of the last checkpoint. `silent` is the time in seconds since the worker was
    last heard. `scheme` is that of its identity (`plan.identity.SCHEME`): under an earlier one, a plan repeats it.
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
    """Return every trial of every space's current plan, in order. InputError for a folder without results."""
    journal, live = pending_rows.read_journal(folder)
    if not journal.kept.plans:
        raise InputError(f"no results in {folder}\n  = run a space first, or name another folder with --results")
    holders, now = claim.holders(folder), time.time()
    trials = journal.kept.trials
    return tuple(
        replace(
            _standing(space, str(trial_id), names.get(variant, variant), seed, journal, live, holders, now),
            scheme=trials[str(trial_id)].get("identity", 1) if str(trial_id) in trials else SCHEME,
        )
        for space, (_, plan) in journal.kept.plans.items()
        for names in [{v["id"]: v["name"] for v in plan["variants"]}]
        for trial_id, variant, seed in plan["trials"]
    )


def plan_counts(folder: Path) -> dict[str, int]:
    """Return how many plans each space has, that is, with how many settings or texts of its file it was requested."""
    kept = ledger.kept_plans(checksummed_lines.read(folder / ledger.PLANS))
    return {space: len(kept.every(space)) for space in kept.plans}


@dataclass(frozen=True, slots=True)
class Growing:
    """A space's current plan that grows with its results: whether it is a search or one whose own trials decide what
    follows, whether more may follow, and the space as it was resolved.
    """

    search: bool
    open: bool
    resolved: Mapping[str, Any]

    @property
    def why(self) -> str:
        """Why it is not over."""
        return "a search that is not over" if self.search else "not all of it is decided"


def growing(folder: Path) -> dict[str, Growing]:
    """Return the spaces that are searches, and those whose trials decide what is trained next, by name."""
    plans = ledger.kept_plans(checksummed_lines.read(folder / ledger.PLANS)).plans
    return {
        space: Growing(search, bool(plan.get("open")), plan["resolved"])
        for space, (_, plan) in plans.items()
        for search in [plan["design"] == "search"]
        if search or plan.get("open") or plan.get("looks")
    }


def not_over(folder: Path) -> dict[str, str]:
    """Return the spaces that are not over though all their trials may have ended, and why, by name."""
    open_plans = {space: plan.why for space, plan in growing(folder).items() if plan.open}
    return dict.fromkeys(unjudged(folder), "all have ended, but were not judged since") | open_plans


def unjudged(folder: Path) -> set[str]:
    """Return the spaces whose trials have all ended with a result and were not judged since, because a run was killed.

    A search is left out, since only what it confirms is judged; verdicts of versions that did not record how trials had
    ended count as the latest.
    """
    journal, live = pending_rows.read_journal(folder)
    judged = verdicts.read(folder)
    spaces = set()
    for space, (_, plan) in journal.kept.plans.items():
        ids = [str(trial_id) for trial_id, *_ in plan["trials"]]
        states = {id: journal.endings[id].outcome.kind for id in ids if id in journal.endings and id not in live}
        if plan["design"] == "search" or len(states) < len(ids) or not set(states.values()) <= set(WITH_RESULT):
            continue
        plan_id = serialise.plan_id(space, asked=serialise.digest(plan["resolved"]))
        _, document = judged.get(space, {}).get(plan_id, ("", {}))
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
    steps = int(journal.kept.trials.get(trial_id, {}).get("recipe", {}).get("steps", 0))
    if trial_id in journal.endings and trial_id not in live:
        outcome = journal.endings[trial_id].outcome
        return TrialStatus(space, trial_id, variant, seed, outcome.kind, outcome.step, steps)
    segment, holder = live.get(trial_id), holders.get(trial_id)
    rows, marks = (segment.rows, segment.marks) if segment else ((), ())
    saved = marks[-1].saved.step if marks else None
    # A row at step s belongs to step number s + 1, which is done.
    step = max([row[0] + 1 for row in rows] + [saved or 0, holder.step if holder else 0])
    step = min(step, steps) if steps else step
    if holder:
        state, worker = "running" if holder.alive else "dead", f"{holder.host}:{holder.pid}"
        return TrialStatus(space, trial_id, variant, seed, state, step, steps, saved, worker, now - holder.heard)
    return TrialStatus(space, trial_id, variant, seed, "paused" if rows or marks else "waiting", step, steps, saved)
