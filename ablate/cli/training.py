"""Verbs that train: `run`, `resume` (what was not finished) and `retry` (what failed)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ablate.cli.console import INTERRUPTED, again, console, page_of, tell
from ablate.cli.executor_flags import NO_OPTIONS, with_executor_flags
from ablate.cli.naming import space_file
from ablate.cli.options import RESULTS, Json, Mlflow, NoMlflow, Plugin, Profile, ResultsFolder, Set, SpaceFile
from ablate.cli.queries import show_plan
from ablate.errors import InputError
from ablate.execute.executor_options import GivenOptions
from ablate.output.streams import write_text

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rich.console import Console

    from ablate.api import ExecutorOptions, Planned, Resumable, Run, Space
    from ablate.errors import AblateError


@with_executor_flags(executor="local")
def run(
    space: SpaceFile,
    profile: Profile = None,
    settings: Set = None,
    results: ResultsFolder = RESULTS,
    options: GivenOptions = NO_OPTIONS,
    fresh: Annotated[bool, typer.Option("--fresh", help="Train everything again, including what has results.")] = False,
    plugin: Plugin = None,
    mlflow: Mlflow = None,
    no_mlflow: NoMlflow = False,
    json: Json = False,
) -> None:
    """Train the trials of a plan that have no result yet, and print the verdicts."""
    from ablate import api

    where = api.ExecutorOptions(**options)
    loaded = api.load_space(space_file(space), profile=profile, settings=settings or (), plugins=plugin or ())
    code = _train(loaded, where, results, plugin or (), fresh=fresh, mirror=_mirror(mlflow, no_mlflow), json=json)
    raise typer.Exit(code)


@with_executor_flags()
def resume(
    space: Annotated[
        str | None, typer.Argument(metavar="SPACE", help="Only this space, by its name (default: all).")
    ] = None,
    results: ResultsFolder = RESULTS,
    options: GivenOptions = NO_OPTIONS,
    mlflow: Mlflow = None,
    no_mlflow: NoMlflow = False,
    json: Json = False,
) -> None:
    """Resume every unfinished run with the options it was started with, unless others are given here."""
    from ablate import api

    runs, refused = api.resumable(results, space)
    if not runs and not refused:
        from ablate.report.screens import status
        from ablate.store.trial_status import standings

        write_text(f"nothing to resume in {results}: every requested trial has ended", stderr=json)
        for line in status.failures(standings(results), results):
            write_text(line, stderr=json)
    codes = [0]
    for resumed in runs:
        codes.append(_train_again(resumed, options, results, mlflow, no_mlflow, json=json))
        if codes[-1] == INTERRUPTED:
            raise typer.Exit(INTERRUPTED)
    raise typer.Exit(max((*codes, *_tell(refused))))


@with_executor_flags()
def retry(
    space: Annotated[
        str | None, typer.Argument(metavar="SPACE", help="Only this space, by its name (default: all).")
    ] = None,
    trial: Annotated[list[str] | None, typer.Option(metavar="ID", help="A trial that failed (default: all).")] = None,
    outcome: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND", help="Only trials that failed so: bug, lost, timeout, out_of_memory."),
    ] = None,
    results: ResultsFolder = RESULTS,
    options: GivenOptions = NO_OPTIONS,
    mlflow: Mlflow = None,
    no_mlflow: NoMlflow = False,
    json: Json = False,
) -> None:
    """Train failed trials again, with the options of their runs; all other results stay."""
    from ablate import api

    runs, refused = api.retriable(results, space, trials=trial or (), outcomes=outcome or ())
    if not runs and not refused:
        write_text(f"nothing to retry in {results}: no trial has failed", stderr=json)
    codes, tried = [0], set[str]()
    for retried in runs:
        for status in retried.trials:
            line = f"retrying {status.space}: {status.variant}, seed {status.seed} ({status.state})"
            write_text(f"{line} {status.trial_id}", stderr=json)
        ids = {status.trial_id for status in retried.trials} - tried  # trials that spaces share are trained once
        codes.append(_train_again(retried.run, options, results, mlflow, no_mlflow, json=json, retry=ids))
        tried |= ids
        if codes[-1] == INTERRUPTED:
            raise typer.Exit(INTERRUPTED)
    raise typer.Exit(max((*codes, *_tell(refused))))


def _train_again(
    resumed: Resumable,
    changes: GivenOptions,
    results: Path,
    mlflow: str | None,
    no_mlflow: bool,
    *,
    json: bool,
    retry: Collection[str] = (),
) -> int:
    """Resume an earlier run, with changes to its executor options; return the exit code."""
    where = resumed.options.changed(**changes)
    mirror = _mirror(mlflow, no_mlflow) if mlflow or no_mlflow else resumed.mirror
    return _train(resumed.space, where, results, resumed.plugins, fresh=False, retry=retry, mirror=mirror, json=json)


def _tell(refused: Sequence[AblateError]) -> list[int]:
    """Print why runs cannot be resumed; return the exit codes."""
    for error in refused:
        tell(error)
    return [error.exit_code for error in refused]


def _mirror(mlflow: str | None, no_mlflow: bool) -> bool | str:
    if mlflow is not None and no_mlflow:
        raise InputError("--mlflow has no effect with --no-mlflow\n  = leave one of them out")
    return False if no_mlflow else mlflow or True


def _train(
    space: Space,
    where: ExecutorOptions,
    results: Path,
    plugins: Sequence[Path],
    *,
    fresh: bool,
    mirror: bool | str,
    json: bool,
    retry: Collection[str] = (),
) -> int:
    """Run a space and show the answer; return the exit code."""
    from ablate.report.screens import interrupted
    from ablate.session import running

    screen = console(stderr=json)
    shown: list[Planned] = []

    def show(planned: Planned) -> None:
        show_plan(screen, planned, where.workers, shown[-1] if shown else None, results=results)
        shown.append(planned)

    try:
        done = running.run(
            space,
            results=results,
            options=where,
            fresh=fresh,
            retry=retry,
            plugins=plugins,
            console=screen,
            show_plan=show,
            show_run=lambda done: _show_run(screen, done, results, json=json),
            mirror=mirror,
        )
    except KeyboardInterrupt:
        write_text(f"stopped at once; what was written is kept. To resume:\n  {again()}", stderr=True)
        return INTERRUPTED
    if done.ended.interrupted and not done.ended.lost:
        return INTERRUPTED
    if done.failed:
        screen.print(
            interrupted.failures(done.plan, done.failed, results), markup=False, highlight=False, soft_wrap=True
        )
        return 1
    return 0


def _show_run(screen: Console, done: Run, results: Path, *, json: bool) -> None:
    from ablate.report.json_form import to_json
    from ablate.report.screens import interrupted
    from ablate.report.screens.result import result_screen
    from ablate.report.terminal_renderer import Screen

    stopped = done.ended.interrupted
    if done.searched is not None and not (stopped and not done.searched.trained):
        _show_search(screen, done, json=json)
    elif done.summary is not None and not stopped:
        if json:
            write_text(to_json(done.summary, done.definitions))
        else:
            screen.print(Screen(result_screen(done.summary, done.definitions, unequal=done.unequal)))
            line = f"its page: {page_of(done.plan.space, results, RESULTS)}"
            screen.print(line, style="dim", markup=False, highlight=False, soft_wrap=True)
    if stopped:
        searching, grows = done.searched is not None, done.plan.open
        message = interrupted.stopped(done.ended, again=again(), searching=searching, grows=grows)
        screen.print(message, markup=False, highlight=False, soft_wrap=True)


def _show_search(screen: Console, done: Run, *, json: bool) -> None:
    """Print what a search has found, or had found when it was stopped."""
    from ablate.report.searched.json_form import to_json
    from ablate.report.searched.screen import search_screen
    from ablate.report.terminal_renderer import Screen

    assert done.searched is not None
    if json:
        write_text(to_json(done.searched))
        return
    screen.print(Screen(search_screen(done.searched)))
    screen.print(f"page: {done.page}", style="dim", markup=False, highlight=False, soft_wrap=True)
