"""What was not finished, asked for again as it was asked: the same file, profile, settings, components and place."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ablate.errors import AblateError, InputError, RefusedError
from ablate.session.place import Place
from ablate.session.planning import PathLike, plan_space
from ablate.source.located import to_python
from ablate.space.space import Space
from ablate.store.lines import compact
from ablate.store.requests import Request, latest

if TYPE_CHECKING:
    from ablate.store.standing import Searched

LoadSpace = Callable[[Request], Space]
ENDED = {"finished", "diverged"}
"""States of trials that no run trains again."""


@dataclass(frozen=True, slots=True)
class Resumable:
    """A run that can be gone on with: the space as it was, its place, plugins and mirror, and how many are left.

    Of a search that is not over nobody knows how many: those that it has asked for are counted, at least one.
    """

    space: Space
    place: Place
    plugins: tuple[Path, ...]
    mirror: bool | str
    left: int


def resumable(
    results: PathLike, load: LoadSpace, name: str | None = None
) -> tuple[tuple[Resumable, ...], tuple[AblateError, ...]]:
    """The runs of a results folder that have trials left, the oldest first; of the space `name` alone if it is given.

    `load` reads a space as it was asked for. A space whose file, or what it refers to, says something else now cannot
    be gone on with, since that would ask another question: why not is the second value. InputError where nothing was
    run, or not that space.
    """
    from ablate.store.standing import searches, standings

    folder = Path(results)
    asked, searched = latest(folder), searches(folder)
    if not asked:
        raise InputError(f"nothing was run in {folder}\n  = run a space first, or name another folder with --results")
    if name is not None and name not in asked:
        raise InputError(f"no run of the space {name!r} in {folder}\n  = there are: {', '.join(asked)}")
    trials: dict[str, dict[str, str]] = {}
    for one in standings(folder):
        trials.setdefault(one.space, {})[one.trial_id] = one.state
    found, refused = [], []
    for request in [asked[name]] if name is not None else asked.values():
        states = trials.get(request.space, {})
        search = searched.get(request.space)
        if (set(states.values()) <= ENDED) if search is None else not search.open:
            continue
        try:
            if search is None:
                space, left = _planned(folder, request, load, set(states))
            else:
                space, left = _search(request, load, search, states)
        except AblateError as error:
            refused.append(error)
            continue
        if left:
            place = Place.of(request.place)
            found.append(Resumable(space, place, tuple(map(Path, request.plugins)), request.mirror, left))
    return tuple(found), tuple(refused)


def _planned(folder: Path, request: Request, load: LoadSpace, then: set[str]) -> tuple[Space, int]:
    """The space of a plan whose trials are all known beforehand, and how many are left of them."""
    space = load(request)
    planned = plan_space(space, results=folder, limit=Place.of(request.place).limit)
    now = {trial.id for trial in planned.plan.trials}
    if now != then:
        raise RefusedError(
            f"{request.path} asks for other trials than when it was run: {len(then - now)} of {len(then)} are gone, "
            f"{len(now - then)} are new\n"
            "  = the space, its texts or what computes it has changed; ask the new question with `ablate run`"
        )
    return space, len(planned.to_run)


def _search(request: Request, load: LoadSpace, search: Searched, states: Mapping[str, str]) -> tuple[Space, int]:
    """The space of a search that is not over; that it proposes what it did, it finds out on the way."""
    space = load(request)
    now = json.loads(compact(to_python(space.located)))
    changed = [key for key in {**search.resolved, **now} if search.resolved.get(key) != now.get(key)]
    if changed:
        raise RefusedError(
            f"{request.path} asks for another search than when it was run: {', '.join(changed)} changed\n"
            "  = ask the new question with `ablate run`, under another name of the space"
        )
    return space, sum(state not in ENDED for state in states.values()) or 1
