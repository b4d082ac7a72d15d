"""What was not finished, asked for again as it was asked: the same file, profile, settings, components and place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ablate.errors import AblateError, InputError, RefusedError
from ablate.session.place import Place
from ablate.session.planning import PathLike, plan_space
from ablate.space.space import Space
from ablate.store.requests import Request, latest

LoadSpace = Callable[[Request], Space]
ENDED = {"finished", "diverged", "pruned"}
"""States of trials that no run trains again."""


@dataclass(frozen=True, slots=True)
class Resumable:
    """A run that can be gone on with: the space as it was, its place, plugins and mirror, and how many are left.

    Of a search that is not over nobody knows how many: those that it has asked for are counted, and one more.
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
    from ablate.store.standing import open_searches, standings

    folder = Path(results)
    asked, going_on = latest(folder), open_searches(folder)
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
        if set(states.values()) <= ENDED and request.space not in going_on:
            continue
        try:
            found.append(_resumable(folder, request, load, states, open=request.space in going_on))
        except AblateError as error:
            refused.append(error)
    return tuple(one for one in found if one.left), tuple(refused)


def _resumable(folder: Path, request: Request, load: LoadSpace, states: Mapping[str, str], *, open: bool) -> Resumable:
    place = Place.of(request.place)
    space = load(request)
    planned = plan_space(space, results=folder, limit=place.limit)
    now, then = {trial.id for trial in planned.plan.trials}, set(states)
    search = space.design.search is not None
    if now != then and not (search and now <= then):  # of a search, only the reference is known beforehand
        raise RefusedError(
            f"{request.path} asks for other trials than when it was run: {len(then - now)} of {len(then)} are gone, "
            f"{len(now - then)} are new\n"
            "  = the space, its texts or what computes it has changed; ask the new question with `ablate run`"
        )
    left = sum(state not in ENDED for state in states.values()) + open if search else len(planned.to_run)
    return Resumable(space, place, tuple(map(Path, request.plugins)), request.mirror, left)
