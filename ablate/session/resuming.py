"""Runs taken up again as they were requested: unfinished ones resumed, failed trials of any trained again on request.

As requested: with the same file, profile, settings, plugins and executor options. All other results stay.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ablate.errors import AblateError, InputError, RefusedError
from ablate.execute.executor_options import ExecutorOptions
from ablate.execute.policy import FAILED
from ablate.session.kept_question import as_run, forgotten, requests_of, unmarked, where_it_was
from ablate.session.planning import PathLike, plan_space
from ablate.source.located import to_python
from ablate.source.problems import quote, unknown
from ablate.space.space import Space
from ablate.store.checksummed_lines import compact
from ablate.store.files import digest_of
from ablate.store.requests import Request
from ablate.store.snapshot import Snapshot
from ablate.train.events import WITH_RESULT

if TYPE_CHECKING:
    from ablate.store.trial_status import Growing, TrialStatus

WHAT_FAILED = f"ablate status lists how trials have ended; retry takes those that ended as {', '.join(FAILED)}"


@dataclass(frozen=True, slots=True)
class Resumable:
    """A run that can be resumed: the space as it was, its executor options, plugins and mirror, and the trials left.

    For a plan that may still grow, `left` counts the trials requested so far, and is at least one. It is 0 if all
    trials have ended and were not judged, and if the run was stopped before it was planned. `changed` says which of its
    files say something else by now.
    """

    space: Space
    options: ExecutorOptions
    plugins: tuple[Path, ...]
    mirror: bool | str
    left: int
    changed: str = ""

    def __repr__(self) -> str:
        return f"<Resumable {self.space.name}: {self.left} left, {self.options.executor}>"


@dataclass(frozen=True, slots=True)
class Retriable:
    """A run, and those of its trials that are to be trained again."""

    run: Resumable
    trials: tuple[TrialStatus, ...]


def resumable(results: PathLike, name: str | None = None) -> tuple[tuple[Resumable, ...], tuple[AblateError, ...]]:
    """Return the unfinished runs of a results folder, the oldest first; only of the space `name` if it is given.

    Such a run has trials left, or all have ended and it was killed before they were judged. It is resumed as it was
    requested, whatever its files say by now. One whose texts or code have changed cannot be, since it would be another
    question: the second value says why not. InputError if nothing was run, or not that space.
    """
    from ablate.store.trial_status import growing, standings, unjudged, unplanned  # loads Arrow, to read a folder

    folder, now = Path(results), Snapshot(Path(results))
    requests, grows, to_judge, stopped = requests_of(folder, name), growing(now), unjudged(now), unplanned(now)
    trials: dict[str, list[TrialStatus]] = {space: [] for space in requests}
    for status in standings(now):
        trials.setdefault(status.space, []).append(status)
    over = {space for space, of_space in trials.items() if {trial.state for trial in of_space} <= set(WITH_RESULT)}
    runs: list[Resumable] = []
    lost = [space for space in trials if space not in requests and space not in over and name is None]
    refused: list[AblateError] = [forgotten(folder, space) for space in lost]
    for space, request in requests.items():
        kept = grows.get(space)
        ended = space in over or (kept is not None and kept.search)
        if ended and not (kept and kept.open) and space not in to_judge and space not in stopped:
            continue
        try:
            run = _as_requested(folder, request, kept, None if space in stopped else trials[space])
        except AblateError as error:
            refused.append(error)
            continue
        runs += [run] if run.left or space in to_judge or space in stopped else []
    return tuple(runs), tuple(refused)


def retriable(
    results: PathLike, name: str | None = None, *, trials: Collection[str] = (), outcomes: Collection[str] = ()
) -> tuple[tuple[Retriable, ...], tuple[AblateError, ...]]:
    """Return the runs of a results folder with failed trials, only of the space `name` if it is given.

    `trials` (ids) and `outcomes` say which; by default, all that failed. The second value says why others cannot be
    trained again as they were requested. InputError if nothing was run, and if something named has not failed, or does
    not exist.
    """
    from ablate.store.trial_status import growing, standings  # loads Arrow, to read a folder

    folder, now = Path(results), Snapshot(Path(results))
    requests, grows = requests_of(folder, name), growing(now)
    there = [status for status in standings(now) if status.space in requests]
    chosen = _chosen(there, trials, outcomes)
    runs: list[Retriable] = []
    refused: list[AblateError] = []
    for space in [space for space in requests if any(status.space == space for status in chosen)]:
        again, kept = tuple(status for status in chosen if status.space == space), grows.get(space)
        try:
            if kept and kept.search and any(status.state != "lost" for status in again):
                raise RefusedError(
                    f"{space} is a search: its later proposals depend on which trials had failed\n"
                    "  = train all of it again: ablate run --fresh"
                )
            of_space = [status for status in there if status.space == space]
            runs.append(Retriable(_as_requested(folder, requests[space], kept, of_space), again))
        except AblateError as error:
            refused.append(error)
    return tuple(runs), tuple(refused)


def _as_requested(
    folder: Path, request: Request, kept: Growing | None, trials: Sequence[TrialStatus] | None
) -> Resumable:
    """Return the run of a request, given its trials, None before it was planned; RefusedError if it would train
    something else by now.

    The stored plan of a killed run that depends on its own results may have fewer trials than follow from these, or
    more if failed trials are tried again.
    """
    options = ExecutorOptions.of(request.place)
    if trials is None:
        run = where_it_was(folder, request)
        if request.source and digest_of(run.space.text.encode()) != request.source:
            raise RefusedError(
                f"{request.shown[0]} has changed since its run was stopped, before it was planned\n"
                "  = ask what it asks now with `ablate run`"
            )
        return Resumable(run.space, options, run.plugins, request.mirror, 0)
    run = as_run(folder, request)
    if kept is not None:
        question, written = unmarked(kept.resolved), json.loads(compact(to_python(run.space.located)))
        if changed := [key for key in {**question, **written} if question.get(key) != written.get(key)]:
            raise RefusedError(
                f"{request.shown[0]} describes another {'search' if kept.search else 'question'} than when it was run: "
                f"{', '.join(changed)} changed\n"
                "  = ask the new question with `ablate run`, under another space name"
            )
    if kept is not None and kept.search:
        left = len({trial.trial_id for trial in trials if trial.state not in WITH_RESULT}) or 1
    else:
        planned = plan_space(run.space, results=folder, limit=options.limit, forecasts="none")
        then, now = {trial.trial_id for trial in trials}, {trial.id for trial in planned.plan.trials}
        if now != then and (kept is None or not (then <= now or now <= then)):
            raise RefusedError(
                f"{request.shown[0]} asks for other trials than when it was run: {len(then - now)} of {len(then)} are "
                f"gone, {len(now - then)} are new\n"
                "  = the space, its texts or the code has changed; ask the new question with `ablate run`"
            )
        left = len(planned.to_run) or int(kept is not None and kept.open)
    return Resumable(run.space, options, run.plugins, request.mirror, left, run.changed)


def _chosen(
    there: Sequence[TrialStatus], trials: Collection[str], outcomes: Collection[str]
) -> tuple[TrialStatus, ...]:
    """Return the failed trials that are meant; InputError for what is named and has not failed, or does not exist."""
    for outcome in outcomes:
        if outcome not in FAILED:
            raise unknown(f"{quote(outcome)} is not a kind of failure", outcome, FAILED, "there are")
    failed = [status for status in there if status.state in FAILED]
    by_id = {status.trial_id: status for status in there}
    for trial in trials:
        if trial not in by_id:
            ids = [status.trial_id for status in failed]
            raise unknown(f"no trial {quote(trial)}", trial, ids, "those that failed")
        if (status := by_id[trial]).state not in FAILED:
            raise InputError(
                f"trial {trial} ({status.variant}, seed {status.seed}) has not failed: it is {status.state}\n"
                f"  = {WHAT_FAILED}"
            )
    chosen = tuple(
        status
        for status in failed
        if (not trials or status.trial_id in trials) and (not outcomes or status.state in outcomes)
    )
    if failed and not chosen:
        listed = "\n".join(f"  = {s.state}: {s.variant}, seed {s.seed}: {s.trial_id}" for s in failed)
        raise InputError(f"no failed trial matches; there are:\n{listed}")
    return chosen
