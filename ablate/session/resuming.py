"""Unfinished runs, resumed as they were requested: file, profile, settings, plugins, executor options."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ablate.errors import AblateError, InputError, RefusedError
from ablate.execute.executor_options import ExecutorOptions
from ablate.session.planning import PathLike, plan_space
from ablate.source.located import to_python
from ablate.source.problems import quote, unknown
from ablate.space.space import Space
from ablate.store import checksummed_lines, ledger
from ablate.store.checksummed_lines import compact
from ablate.store.requests import FILE, Request, latest, listing
from ablate.train.events import WITH_RESULT

if TYPE_CHECKING:
    from ablate.store.trial_status import Growing

LoadSpace = Callable[[Request], Space]


@dataclass(frozen=True, slots=True)
class Resumable:
    """A run that can be resumed: the space as it was, its executor options, plugins and mirror, and the trials left.

    For a plan that may still grow, `left` counts the trials requested so far, and is at least one. It is 0 if all
    trials have ended and were not judged.
    """

    space: Space
    options: ExecutorOptions
    plugins: tuple[Path, ...]
    mirror: bool | str
    left: int

    def __repr__(self) -> str:
        return f"<Resumable {self.space.name}: {self.left} left, {self.options.executor}>"


def resumable(
    results: PathLike, load: LoadSpace, name: str | None = None
) -> tuple[tuple[Resumable, ...], tuple[AblateError, ...]]:
    """Return the unfinished runs of a results folder, the oldest first; only of the space `name` if it is given.

    Such a run has trials left, or all have ended and it was killed before they were judged.

    `load` reads a space as it was requested. A space whose file, or what it refers to, has changed cannot be resumed,
    since it would be another question: the second value says why not. InputError if nothing was run, or not that space.
    """
    from ablate.store.trial_status import growing, standings, unjudged  # loads Arrow, to read a folder

    folder = Path(results)
    requests, grows, to_judge = request_of(folder, name), growing(folder), unjudged(folder)
    trials: dict[str, dict[str, str]] = {}
    for status in standings(folder):
        trials.setdefault(status.space, {})[status.trial_id] = status.state
    runs: list[Resumable] = []
    refused: list[AblateError] = [
        _forgotten(folder, space)
        for space, states in trials.items()
        if space not in requests and name is None and not set(states.values()) <= set(WITH_RESULT)
    ]
    for request in requests.values():
        states = trials.get(request.space, {})
        kept = grows.get(request.space)
        over = set(states.values()) <= set(WITH_RESULT) or bool(kept and kept.search)
        if over and not (kept and kept.open) and request.space not in to_judge:
            continue
        try:
            run = as_requested(folder, request, load, kept, states)
        except AblateError as error:
            refused.append(error)
            continue
        runs += [run] if run.left or request.space in to_judge else []
    return tuple(runs), tuple(refused)


def request_of(folder: Path, name: str | None) -> dict[str, Request]:
    """Return the last request of each space, or of `name` alone. InputError if nothing was run, or not that space."""
    requests = latest(folder)
    if not requests and not (folder / ledger.PLANS).exists():
        raise InputError(f"nothing was run in {folder}\n  = run a space first, or name another folder with --results")
    if name is None:
        return requests
    if name not in requests and name in ledger.kept_plans(checksummed_lines.read(folder / ledger.PLANS)).plans:
        raise _forgotten(folder, name)
    if name not in requests:
        raise unknown(
            f"no run of the space {quote(name)} in {folder}", name, requests, "there are", command=listing(folder)
        )
    return {name: requests[name]}


def as_requested(
    folder: Path, request: Request, load: LoadSpace, kept: Growing | None, states: Mapping[str, str]
) -> Resumable:
    """Return the run of a request, given the states of its trials by id; AblateError if its question has changed."""
    if kept is None:
        space, left = _planned(folder, request, load, set(states))
    elif kept.search:
        space, left = _search(request, load, kept, states)
    else:
        space, left = _staged(folder, request, load, kept, set(states))
    return Resumable(space, ExecutorOptions.of(request.place), tuple(map(Path, request.plugins)), request.mirror, left)


def _forgotten(folder: Path, space: str) -> RefusedError:
    return RefusedError(
        f"{folder / FILE} does not say how {space} was run\n"
        f"  = `ablate doctor --results {folder}` recovers what can be recovered; or run it again with `ablate run`"
    )


def _planned(folder: Path, request: Request, load: LoadSpace, then: set[str]) -> tuple[Space, int]:
    """Return the space of a plan whose trials are all known beforehand, and how many of them are left."""
    space = load(request)
    planned = plan_space(space, results=folder, limit=ExecutorOptions.of(request.place).limit, forecasts="none")
    now = {trial.id for trial in planned.plan.trials}
    if now != then:
        raise _other_trials(request, then, now)
    return space, len(planned.to_run)


def _staged(folder: Path, request: Request, load: LoadSpace, kept: Growing, then: set[str]) -> tuple[Space, int]:
    """Return the space of a plan that depends on its own results, and how many trials its current stage has left.

    At least one while the plan may grow. The stored plan of a killed run may have fewer trials than follow from its
    results, or more if failed trials are tried again.
    """
    space = load(request)
    _check_same(request, kept, space, "question")
    planned = plan_space(space, results=folder, limit=ExecutorOptions.of(request.place).limit, forecasts="none")
    now = {trial.id for trial in planned.plan.trials}
    if not (then <= now or now <= then):
        raise _other_trials(request, then, now)
    return space, len(planned.to_run) or int(kept.open)


def _other_trials(request: Request, then: set[str], now: set[str]) -> RefusedError:
    return RefusedError(
        f"{request.path} asks for other trials than when it was run: {len(then - now)} of {len(then)} are gone, "
        f"{len(now - then)} are new\n"
        "  = the space, its texts or the code has changed; ask the new question with `ablate run`"
    )


def _search(request: Request, load: LoadSpace, kept: Growing, states: Mapping[str, str]) -> tuple[Space, int]:
    """Return the space of an unfinished search, and how many trials are left; the run checks its earlier proposals."""
    space = load(request)
    _check_same(request, kept, space, "search")
    return space, sum(state not in WITH_RESULT for state in states.values()) or 1


def _check_same(request: Request, kept: Growing, space: Space, what: str) -> None:
    """Check that a space is the same as when it was run; RefusedError if not."""
    now = json.loads(compact(to_python(space.located)))
    changed = [key for key in {**kept.resolved, **now} if kept.resolved.get(key) != now.get(key)]
    if changed:
        raise RefusedError(
            f"{request.path} describes another {what} than when it was run: {', '.join(changed)} changed\n"
            "  = ask the new question with `ablate run`, under another space name"
        )
