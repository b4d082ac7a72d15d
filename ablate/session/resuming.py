"""What was not finished, asked for again as it was asked: file, profile, settings, components, executor options."""

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
    """A run that can be gone on with: the space as it was, its executor options, plugins and mirror, and how many are
    left.

    Of a plan that may grow yet nobody knows how many: those that it has asked for are counted, at least one. None is
    left where all have ended and were not judged.
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
    """The runs of a results folder that are not over, the oldest first; of the space `name` alone if it is given.

    Such a run has trials left, or all have ended and it was killed before they were judged.

    `load` reads a space as it was asked for. A space whose file, or what it refers to, says something else now cannot
    be gone on with, since that would ask another question: why not is the second value. InputError where nothing was
    run, or not that space.
    """
    from ablate.store.trial_status import growing, standings, unjudged  # with Arrow, for reading a folder

    folder = Path(results)
    asked, grows, to_judge = request_of(folder, name), growing(folder), unjudged(folder)
    trials: dict[str, dict[str, str]] = {}
    for one in standings(folder):
        trials.setdefault(one.space, {})[one.trial_id] = one.state
    found: list[Resumable] = []
    refused: list[AblateError] = [
        _forgotten(folder, space)
        for space, states in trials.items()
        if space not in asked and name is None and not set(states.values()) <= set(WITH_RESULT)
    ]
    for request in asked.values():
        states = trials.get(request.space, {})
        kept = grows.get(request.space)
        over = set(states.values()) <= set(WITH_RESULT) or bool(kept and kept.search)
        if over and not (kept and kept.open) and request.space not in to_judge:
            continue
        try:
            run = as_asked(folder, request, load, kept, states)
        except AblateError as error:
            refused.append(error)
            continue
        found += [run] if run.left or request.space in to_judge else []
    return tuple(found), tuple(refused)


def request_of(folder: Path, name: str | None) -> dict[str, Request]:
    """The last run of each space, or of the space `name`. InputError where nothing was run, or not that space."""
    asked = latest(folder)
    if not asked and not (folder / ledger.PLANS).exists():
        raise InputError(f"nothing was run in {folder}\n  = run a space first, or name another folder with --results")
    if name is None:
        return asked
    if name not in asked and name in ledger.kept_plans(checksummed_lines.read(folder / ledger.PLANS)).plans:
        raise _forgotten(folder, name)
    if name not in asked:
        raise unknown(
            f"no run of the space {quote(name)} in {folder}", name, asked, "there are", command=listing(folder)
        )
    return {name: asked[name]}


def as_asked(
    folder: Path, request: Request, load: LoadSpace, kept: Growing | None, states: Mapping[str, str]
) -> Resumable:
    """The run of a request, with how its trials stand by id; an AblateError where it would ask something else now."""
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
        f"  = `ablate doctor --results {folder}` gets back what can be got back; or run it again with `ablate run`"
    )


def _planned(folder: Path, request: Request, load: LoadSpace, then: set[str]) -> tuple[Space, int]:
    """The space of a plan whose trials are all known beforehand, and how many are left of them."""
    space = load(request)
    planned = plan_space(space, results=folder, limit=ExecutorOptions.of(request.place).limit)
    now = {trial.id for trial in planned.plan.trials}
    if now != then:
        raise _other_trials(request, then, now)
    return space, len(planned.to_run)


def _staged(folder: Path, request: Request, load: LoadSpace, kept: Growing, then: set[str]) -> tuple[Space, int]:
    """The space of a plan that learns from its trials, and how many are left of what it asks for now, at least one.

    A run that was killed may have kept a plan that its trials have outgrown, or, of trials that failed and are tried
    again, one that they will fall short of.
    """
    space = load(request)
    _check_same(request, kept, space, "question")
    planned = plan_space(space, results=folder, limit=ExecutorOptions.of(request.place).limit)
    now = {trial.id for trial in planned.plan.trials}
    if not (then <= now or now <= then):
        raise _other_trials(request, then, now)
    return space, len(planned.to_run) or int(kept.open)


def _other_trials(request: Request, then: set[str], now: set[str]) -> RefusedError:
    return RefusedError(
        f"{request.path} asks for other trials than when it was run: {len(then - now)} of {len(then)} are gone, "
        f"{len(now - then)} are new\n"
        "  = the space, its texts or what computes it has changed; ask the new question with `ablate run`"
    )


def _search(request: Request, load: LoadSpace, kept: Growing, states: Mapping[str, str]) -> tuple[Space, int]:
    """The space of a search that is not over; that it proposes what it did, it finds out on the way."""
    space = load(request)
    _check_same(request, kept, space, "search")
    return space, sum(state not in WITH_RESULT for state in states.values()) or 1


def _check_same(request: Request, kept: Growing, space: Space, what: str) -> None:
    """RefusedError where a space says something else than when it was run."""
    now = json.loads(compact(to_python(space.located)))
    changed = [key for key in {**kept.resolved, **now} if kept.resolved.get(key) != now.get(key)]
    if changed:
        raise RefusedError(
            f"{request.path} asks for another {what} than when it was run: {', '.join(changed)} changed\n"
            "  = ask the new question with `ablate run`, under another name of the space"
        )
