"""What was not finished, asked for again as it was asked: the same file, profile, settings, components and place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ablate.errors import AblateError, InputError, RefusedError
from ablate.session.place import Place
from ablate.session.planning import PathLike, plan_space
from ablate.space.space import Space
from ablate.store.requests import Request, latest

LoadSpace = Callable[[Request], Space]
ENDED = {"finished", "diverged"}
"""States of trials that no run trains again."""


@dataclass(frozen=True, slots=True)
class Resumable:
    """A run that can be gone on with: the space as it was, its place, plugins and mirror, and how many are left."""

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
    from ablate.store.standing import standings

    folder = Path(results)
    asked = latest(folder)
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
        if set(states.values()) <= ENDED:
            continue
        try:
            found.append(_resumable(folder, request, load, set(states)))
        except AblateError as error:
            refused.append(error)
    return tuple(one for one in found if one.left), tuple(refused)


def _resumable(folder: Path, request: Request, load: LoadSpace, then: set[str]) -> Resumable:
    place = Place.of(request.place)
    space = load(request)
    planned = plan_space(space, results=folder, limit=place.limit)
    now = {trial.id for trial in planned.plan.trials}
    if now != then:
        raise RefusedError(
            f"{request.path} asks for other trials than when it was run: {len(then - now)} of {len(then)} are gone, "
            f"{len(now - then)} are new\n"
            "  = the space, its texts or what computes it has changed; ask the new question with `ablate run`"
        )
    return Resumable(space, place, tuple(map(Path, request.plugins)), request.mirror, len(planned.to_run))
