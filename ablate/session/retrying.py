"""Failed trials, trained again on request with the options of their runs; all other results stay."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ablate.errors import AblateError, InputError, RefusedError
from ablate.execute.policy import FAILED
from ablate.session.planning import PathLike
from ablate.session.resuming import LoadSpace, Resumable, as_requested, request_of
from ablate.source.problems import quote, unknown

if TYPE_CHECKING:
    from ablate.store.trial_status import Growing, TrialStatus

WHAT_FAILED = f"ablate status lists how trials have ended; retry takes those that ended as {', '.join(FAILED)}"


@dataclass(frozen=True, slots=True)
class Retriable:
    """A run, and those of its trials that are to be trained again."""

    run: Resumable
    trials: tuple[TrialStatus, ...]


def retriable(
    results: PathLike,
    load: LoadSpace,
    name: str | None = None,
    *,
    trials: Collection[str] = (),
    outcomes: Collection[str] = (),
) -> tuple[tuple[Retriable, ...], tuple[AblateError, ...]]:
    """Return the runs of a results folder with failed trials, only of the space `name` if it is given.

    `trials` (ids) and `outcomes` say which; by default, all that failed. The second value says why others cannot be
    trained again as they were requested. InputError if nothing was run, and if something named has not failed, or does
    not exist.
    """
    from ablate.store.trial_status import growing, standings  # loads Arrow, to read a folder

    folder = Path(results)
    requests = request_of(folder, name)
    there = [status for status in standings(folder) if status.space in requests]
    chosen = _chosen(there, trials, outcomes)
    runs, refused, grows = [], [], growing(folder)
    for space, request in requests.items():
        of_space = tuple(status for status in chosen if status.space == space)
        if not of_space:
            continue
        try:
            _check_search(space, of_space, grows.get(space))
            states = {status.trial_id: status.state for status in there if status.space == space}
            runs.append(Retriable(as_requested(folder, request, load, grows.get(space), states), of_space))
        except AblateError as error:
            refused.append(error)
    return tuple(runs), tuple(refused)


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
        if by_id[trial].state not in FAILED:
            status = by_id[trial]
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


def _check_search(space: str, chosen: Sequence[TrialStatus], kept: Growing | None) -> None:
    """Refuse to retry failures of a search, whose later proposals depend on them; RefusedError."""
    if kept and kept.search and any(status.state != "lost" for status in chosen):
        raise RefusedError(
            f"{space} is a search: its later proposals depend on which trials had failed\n"
            "  = train all of it again: ablate run --fresh"
        )
