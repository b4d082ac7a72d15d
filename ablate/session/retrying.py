"""Trials that have failed, trained again because somebody asks for it, as they were asked for; all else stays known."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ablate.errors import AblateError, InputError, RefusedError
from ablate.execute.policy import FAILED
from ablate.session.planning import PathLike
from ablate.session.resuming import LoadSpace, Resumable, as_asked, request_of
from ablate.source.problems import quote, unknown

if TYPE_CHECKING:
    from ablate.store.trial_status import Growing, TrialStatus

WHAT_FAILED = f"ablate status lists how trials have ended; retry takes what ended as {', '.join(FAILED)}"


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
    """The runs of a results folder with trials that failed, of the space `name` alone if it is given.

    `trials` (ids) and `outcomes` say which; left out, all that failed. The second value says of others why they cannot
    be trained again as they were asked for. InputError where nothing was run, and where something is named that has not
    failed, or does not exist.
    """
    from ablate.store.trial_status import growing, standings  # with Arrow, which loads when a folder is read

    folder = Path(results)
    asked = request_of(folder, name)
    there = [one for one in standings(folder) if one.space in asked]
    chosen = _chosen(there, trials, outcomes)
    found, refused, grows = [], [], growing(folder)
    for space, request in asked.items():
        of_space = tuple(one for one in chosen if one.space == space)
        if not of_space:
            continue
        try:
            _check_search(space, of_space, grows.get(space))
            states = {one.trial_id: one.state for one in there if one.space == space}
            found.append(Retriable(as_asked(folder, request, load, grows.get(space), states), of_space))
        except AblateError as error:
            refused.append(error)
    return tuple(found), tuple(refused)


def _chosen(
    there: Sequence[TrialStatus], trials: Collection[str], outcomes: Collection[str]
) -> tuple[TrialStatus, ...]:
    """Those that failed and are meant; InputError for what is named and has not failed, or is not there."""
    for outcome in outcomes:
        if outcome not in FAILED:
            raise unknown(f"{quote(outcome)} is no way to fail", outcome, FAILED, "there are")
    failed = [one for one in there if one.state in FAILED]
    states = {one.trial_id: one for one in there}
    for trial in trials:
        if trial not in states:
            raise unknown(f"no trial {quote(trial)}", trial, [one.trial_id for one in failed], "those that failed")
        if states[trial].state not in FAILED:
            one = states[trial]
            raise InputError(
                f"trial {trial} ({one.variant}, seed {one.seed}) has not failed: it is {one.state}\n  = {WHAT_FAILED}"
            )
    chosen = tuple(
        one for one in failed if (not trials or one.trial_id in trials) and (not outcomes or one.state in outcomes)
    )
    if failed and not chosen:
        listed = "\n".join(f"  = {one.state}: {one.variant}, seed {one.seed}: {one.trial_id}" for one in failed)
        raise InputError(f"none of the trials that failed is meant by this; there are:\n{listed}")
    return chosen


def _check_search(space: str, chosen: Sequence[TrialStatus], kept: Growing | None) -> None:
    """RefusedError for what failed in a search, whose later proposals were made knowing that."""
    if kept and kept.search and any(one.state != "lost" for one in chosen):
        raise RefusedError(
            f"{space} is a search: what it proposed later was proposed knowing which trials had failed\n"
            "  = train all of it anew: ablate run --fresh"
        )
