"""What was not finished, asked for again as it was asked: the same file, profile, settings, components and place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ablate.errors import InputError, RefusedError
from ablate.session.place import Place
from ablate.session.planning import PathLike, plan_space
from ablate.space.space import Space
from ablate.store.requests import Request, latest

LoadSpace = Callable[[Request], Space]


@dataclass(frozen=True, slots=True)
class Resumable:
    """A run that can be gone on with: the space as it was, its place, and how many of its trials are left."""

    space: Space
    place: Place
    plugins: tuple[Path, ...]
    left: int


def resumable(results: PathLike, load: LoadSpace, name: str | None = None) -> tuple[Resumable, ...]:
    """The runs of a results folder that have trials left, the oldest first; of the space `name` alone if it is given.

    `load` reads a space as it was asked for. InputError where nothing was run, or not that space; RefusedError where a
    space's file, or what it refers to, says something else now: going on would ask another question.
    """
    folder = Path(results)
    asked = latest(folder)
    if not asked:
        raise InputError(f"nothing was run in {folder}\n  = run a space first, or name another folder with --results")
    if name is not None and name not in asked:
        raise InputError(f"no run of the space {name!r} in {folder}\n  = there are: {', '.join(asked)}")
    chosen = [asked[name]] if name is not None else list(asked.values())
    found = [_resumable(folder, request, load) for request in chosen]
    return tuple(one for one in found if one.left)


def _resumable(folder: Path, request: Request, load: LoadSpace) -> Resumable:
    from ablate.store.standing import standings

    place = Place(**request.place)
    space = load(request)
    planned = plan_space(space, results=folder, limit=place.limit)
    now = {trial.id for trial in planned.plan.trials}
    then = {standing.trial_id for standing in standings(folder) if standing.space == request.space}
    if now != then:
        raise RefusedError(
            f"{request.path} asks for other trials than when it was run: {len(then - now)} of {len(then)} are gone, "
            f"{len(now - then)} are new\n"
            "  = the space, its texts or what computes it has changed; ask the new question with `ablate run`"
        )
    return Resumable(space, place, tuple(map(Path, request.plugins)), len(now - planned.known))
