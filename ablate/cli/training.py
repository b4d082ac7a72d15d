"""Verbs that train: `run`, and `resume`, which asks again for what was not finished."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ablate.cli.asking import show_plan
from ablate.cli.console import INTERRUPTED, again, console
from ablate.cli.options import RESULTS, Json, Mlflow, NoMlflow, Plugin, Profile, ResultsFolder, Set, SpaceFile, Workers

if TYPE_CHECKING:
    from rich.console import Console

    from ablate.api import Place, Run, Space


def run(
    space: SpaceFile,
    profile: Profile = None,
    settings: Set = None,
    results: ResultsFolder = RESULTS,
    executor: Annotated[Literal["local", "inline", "ray"], typer.Option(help="Where trials run.")] = "local",
    workers: Workers = None,
    address: Annotated[str | None, typer.Option(help="With ray: the cluster to join (auto, host:port).")] = None,
    cpus: Annotated[float | None, typer.Option(min=0, help="With ray: CPUs of a trial (default: its threads).")] = None,
    gpus: Annotated[float | None, typer.Option(min=0, help="With ray: GPUs of a trial, as 0.5 (default: 1).")] = None,
    timeout: Annotated[str | None, typer.Option(metavar="TIME", help="What a trial may take: 90s, 30m, 2h.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Train again what is known already.")] = False,
    plugin: Plugin = None,
    mlflow: Mlflow = None,
    no_mlflow: NoMlflow = False,
    json: Json = False,
) -> None:
    """Train what the plan asks for and is not known yet, and print the verdicts."""
    from ablate import api

    place = api.Place(
        executor=executor,
        workers=workers,
        address=address,
        cpus=cpus,
        gpus=gpus,
        limit=None if timeout is None else api.read_seconds(timeout),
    )
    loaded = api.load_space(space, profile=profile, settings=settings or (), plugins=plugin or ())
    mirror = False if no_mlflow else mlflow or True
    _train(loaded, place, results, tuple(plugin or ()), fresh=fresh, mirror=mirror, json=json)


def resume(
    space: Annotated[str | None, typer.Argument(metavar="[SPACE]", help="The name of one space.")] = None,
    results: ResultsFolder = RESULTS,
    workers: Workers = None,
    mlflow: Mlflow = None,
    no_mlflow: NoMlflow = False,
    json: Json = False,
) -> None:
    """Go on with every run that was not finished, each as it was asked for."""
    from ablate import api

    left = api.resumable(results, space)
    if not left:
        typer.echo(f"nothing to resume in {results}: every trial that was asked for has ended", err=json)
    for one in left:
        place = one.place if workers is None else replace(one.place, workers=workers)
        mirror = False if no_mlflow else mlflow or True
        _train(one.space, place, results, one.plugins, fresh=False, mirror=mirror, json=json)


def _train(
    space: Space,
    place: Place,
    results: Path,
    plugins: tuple[Path, ...],
    *,
    fresh: bool,
    mirror: bool | str,
    json: bool,
) -> None:
    from ablate import session
    from ablate.report import ended

    screen = console(stderr=json)
    done = session.run(
        space,
        results=results,
        place=place,
        fresh=fresh,
        plugins=plugins,
        console=screen,
        show_plan=lambda planned: show_plan(screen, planned, place.workers),
        show_run=lambda done: _show_run(screen, done, json=json),
        mirror=mirror,
    )
    if done.ended.interrupted:
        raise typer.Exit(INTERRUPTED)
    if done.failed:
        screen.print(ended.failures(done.plan, done.failed, results), markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1)


def _show_run(screen: Console, done: Run, *, json: bool) -> None:
    from ablate.report import ended
    from ablate.report.json_form import to_json
    from ablate.report.tables import ResultScreen

    if done.ended.interrupted:
        screen.print(ended.stopped(done.ended, again=again()), markup=False, highlight=False, soft_wrap=True)
    elif json:
        typer.echo(to_json(done.summary, done.definitions))
    else:
        screen.print(ResultScreen(done.summary, done.definitions))
