"""Verbs that train: `run`, and `resume`, which asks again for what was not finished."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ablate.cli.asking import show_plan
from ablate.cli.console import INTERRUPTED, again, console, page_of, tell
from ablate.cli.naming import space_file
from ablate.cli.options import RESULTS, Json, Mlflow, NoMlflow, Plugin, Profile, ResultsFolder, Set, SpaceFile, Workers
from ablate.errors import InputError
from ablate.output.streams import write_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from ablate.api import Place, Planned, Run, Space

Executor = Annotated[Literal["local", "inline", "ray"] | None, typer.Option(help="Where trials run.")]
Address = Annotated[str | None, typer.Option(help="With ray: the cluster to join (auto, host:port).")]
Cpus = Annotated[float | None, typer.Option(help="With ray: CPUs of a trial (default: its threads).")]
Gpus = Annotated[float | None, typer.Option(help="With ray: GPUs of a trial, as 0.5 (default: 1 where there are any).")]
Pack = Annotated[str | None, typer.Option(metavar="N|auto", help="Trials on a GPU (default: by memory).")]
Ranks = Annotated[int | None, typer.Option(min=1, help="Processes for each trial, a GPU each.")]
Timeout = Annotated[
    str | None, typer.Option(metavar="TIME", help="What a trial may take without interruption: 90s, 30m, 2h.")
]


def run(
    space: SpaceFile,
    profile: Profile = None,
    settings: Set = None,
    results: ResultsFolder = RESULTS,
    executor: Executor = "local",
    workers: Workers = None,
    address: Address = None,
    cpus: Cpus = None,
    gpus: Gpus = None,
    pack: Pack = None,
    ranks: Ranks = None,
    timeout: Timeout = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Train again what is known already.")] = False,
    plugin: Plugin = None,
    mlflow: Mlflow = None,
    no_mlflow: NoMlflow = False,
    json: Json = False,
) -> None:
    """Train what the plan asks for and is not known yet, and print the verdicts."""
    from ablate import api

    limit = None if timeout is None else api.read_seconds(timeout)
    place = api.Place(
        executor=executor or "local",
        workers=workers,
        address=address,
        cpus=cpus,
        gpus=gpus,
        pack=None if pack is None else api.read_pack(pack),
        ranks=ranks,
        limit=limit,
    )
    loaded = api.load_space(space_file(space), profile=profile, settings=settings or (), plugins=plugin or ())
    code = _train(loaded, place, results, plugin or (), fresh=fresh, mirror=_mirror(mlflow, no_mlflow), json=json)
    raise typer.Exit(code)


def resume(
    space: Annotated[str | None, typer.Argument(metavar="SPACE", help="The name of one space.")] = None,
    results: ResultsFolder = RESULTS,
    executor: Executor = None,
    workers: Workers = None,
    address: Address = None,
    cpus: Cpus = None,
    gpus: Gpus = None,
    pack: Pack = None,
    ranks: Ranks = None,
    timeout: Timeout = None,
    mlflow: Mlflow = None,
    no_mlflow: NoMlflow = False,
    json: Json = False,
) -> None:
    """Go on with every run that was not finished, as it was asked for; options given here count instead."""
    from ablate import api

    given: dict[str, Any] = {"workers": workers, "address": address, "cpus": cpus, "gpus": gpus, "ranks": ranks}
    given["pack"] = None if pack is None else api.read_pack(pack)
    changes = {name: value for name, value in given.items() if value is not None}
    changes |= {} if timeout is None else {"limit": api.read_seconds(timeout)}
    found, refused = api.resumable(results, space)
    if not found and not refused:
        from ablate.report import standing
        from ablate.store.standing import standings

        write_text(f"nothing to resume in {results}: every trial that was asked for has ended", stderr=json)
        for said in standing.failures(standings(results), results):
            write_text(said, stderr=json)
    codes = [0]
    for one in found:
        # Another executor knows nothing of what the first was told of cluster and resources.
        place = (
            one.place
            if executor in (None, one.place.executor)
            else api.Place(limit=one.place.limit, ranks=one.place.ranks)
        )
        place = replace(place, executor=executor or one.place.executor, **changes)
        mirror = _mirror(mlflow, no_mlflow) if mlflow or no_mlflow else one.mirror
        codes.append(_train(one.space, place, results, one.plugins, fresh=False, mirror=mirror, json=json))
        if codes[-1] == INTERRUPTED:
            raise typer.Exit(INTERRUPTED)
    for error in refused:
        tell(error)
        codes.append(error.exit_code)
    raise typer.Exit(max(codes))


def _mirror(mlflow: str | None, no_mlflow: bool) -> bool | str:
    if mlflow is not None and no_mlflow:
        raise InputError("--mlflow has no effect with --no-mlflow\n  = leave one of them out")
    return False if no_mlflow else mlflow or True


def _train(
    space: Space,
    place: Place,
    results: Path,
    plugins: Sequence[Path],
    *,
    fresh: bool,
    mirror: bool | str,
    json: bool,
) -> int:
    """Run, show, and say with which code to exit."""
    from ablate import session
    from ablate.report import ended

    screen = console(stderr=json)
    shown: list[Planned] = []

    def show(planned: Planned) -> None:
        show_plan(screen, planned, place.workers, shown[-1] if shown else None, results=results)
        shown.append(planned)

    try:
        done = session.run(
            space,
            results=results,
            place=place,
            fresh=fresh,
            plugins=plugins,
            console=screen,
            show_plan=show,
            show_run=lambda done: _show_run(screen, done, results, json=json),
            mirror=mirror,
        )
    except KeyboardInterrupt:
        write_text(f"stopped at once; what was written stays. To go on:\n  {again()}", stderr=True)
        return INTERRUPTED
    if done.ended.interrupted:
        return INTERRUPTED
    if done.failed:
        screen.print(ended.failures(done.plan, done.failed, results), markup=False, highlight=False, soft_wrap=True)
        return 1
    return 0


def _show_run(screen: Console, done: Run, results: Path, *, json: bool) -> None:
    from ablate.report import ended
    from ablate.report.json_form import to_json
    from ablate.report.tables import ResultScreen

    stopped = done.ended.interrupted
    if done.searched is not None and not (stopped and not done.searched.trained):
        _show_search(screen, done, json=json)
    elif done.summary is not None and not stopped:
        if json:
            write_text(to_json(done.summary, done.definitions))
        else:
            screen.print(ResultScreen(done.summary, done.definitions, unequal=done.unequal))
            said = f"its page: {page_of(done.plan.space, results, RESULTS)}"
            screen.print(said, style="dim", markup=False, highlight=False, soft_wrap=True)
    if stopped:
        searching, grows = done.searched is not None, done.plan.open
        said = ended.stopped(done.ended, again=again(), searching=searching, grows=grows)
        screen.print(said, markup=False, highlight=False, soft_wrap=True)


def _show_search(screen: Console, done: Run, *, json: bool) -> None:
    """What a search has found, also as far as it has come when it was stopped."""
    from ablate.report.searched.json_form import to_json
    from ablate.report.searched.screen import SearchScreen

    assert done.searched is not None
    if json:
        write_text(to_json(done.searched))
        return
    screen.print(SearchScreen(done.searched))
    screen.print(f"page: {done.page}", style="dim", markup=False, highlight=False, soft_wrap=True)
