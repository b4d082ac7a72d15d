"""The status of every trial of every space: read from a results folder without a lock, during a run or after."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from ablate.errors import InputError
from ablate.plan.identity import SCHEME
from ablate.store import claim, files
from ablate.store.claim import Holder
from ablate.store.snapshot import DAMAGED, MISSING, Snapshot
from ablate.train.events import WITH_RESULT


@dataclass(frozen=True, slots=True)
class TrialStatus:
    """One trial of one space.

    `state` is how it ended (finished, diverged, bug, …), or: `running` (a living worker has it), `dead` (its worker
    died), `paused` (something is kept of it, and no worker has it), `missing` or `damaged` (its sealed file is gone or
    has changed), `waiting` (nothing is kept). `step` of `steps` are known to be done; `saved` is the step of the last
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
    """A space's current plan that grows with its results: whether it is a search or one whose own trials decide what
    follows, whether more may follow, and the space as it was resolved.
    """

    search: bool
    open: bool
    resolved: Mapping[str, object]

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
        _standing(space, str(trial), names.get(variant, variant), seed, now, holders, at)
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
    """Return the spaces whose trials have all ended with a result and were not judged since, because a run was killed.

    A search is left out, since only what it confirms is judged.
    """
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


def _standing(
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
