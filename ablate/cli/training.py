"""Verbs that train: `run`, `resume` (what was not finished) and `retry` (what failed)."""

from __future__ import annotations

import json as form
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn, TypeAlias, TypeVar

import typer

from ablate.cli.console import INTERRUPTED, again, as_json, console, from_here, note, page_of, tell
from ablate.cli.options import (
    NO_OPTIONS,
    RESULTS,
    Json,
    Mlflow,
    NoMlflow,
    Plugin,
    Profile,
    ResultsFolder,
    Set,
    SpaceFile,
    load_space,
    with_executor_flags,
)
from ablate.cli.queries import show_plan
from ablate.errors import AblateError, InputError, Mistake
from ablate.execute.executor import GivenOptions
from ablate.output.escape import write_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from rich.console import Console

    from ablate.api import ExecutorOptions, Planned, Resumable, Run, Space
    from ablate.session import Retriable

Earlier = TypeVar("Earlier", "Resumable", "Retriable")
Answer: TypeAlias = Callable[[str], None] | None
"""A receiver of the answer of a run as JSON; None shows it on the screen."""


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
    loaded = load_space(space, profile, settings, plugin)
    mirror, answer = _mirror(mlflow, no_mlflow), write_text if json else None
    raise typer.Exit(_train(loaded, where, results, plugin or (), fresh=fresh, mirror=mirror, answer=answer))


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
        from ablate.store.snapshot import Snapshot, standings

        write_text(f"nothing to resume in {results}: every requested trial has ended", stderr=json)
        for line in status.failures(standings(Snapshot(results)), results):
            write_text(line, stderr=json)

    def train(run: Resumable, answer: Answer) -> int:
        return _train_again(run, options, results, mlflow, no_mlflow, answer)

    _train_each(runs, refused, train, "resumed" if json else None)


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
    tried = set[str]()

    def train(retriable: Retriable, answer: Answer) -> int:
        for status in retriable.trials:
            line = f"retrying {status.space}: {status.variant}, seed {status.seed} ({status.state})"
            write_text(f"{line} {status.trial_id}", stderr=json)
        ids = {status.trial_id for status in retriable.trials} - tried  # trials that spaces share are trained once
        code = _train_again(retriable.run, options, results, mlflow, no_mlflow, answer, retry=ids)
        tried.update(ids)
        return code

    _train_each(runs, refused, train, "retried" if json else None)


def _train_each(
    runs: Iterable[Earlier],
    refused: Iterable[AblateError],
    train: Callable[[Earlier, Answer], int],
    named: str | None,
) -> NoReturn:
    """Train runs one after the other, say why others cannot be trained, and exit.

    With a name for them their answers are one JSON text: `{named: [answer of run --json, …], "mistakes": […]}`.
    """
    answers: list[str] = []
    errors: list[AblateError] = [*refused]
    codes = [0]
    for one in runs:
        try:
            codes.append(train(one, None if named is None else answers.append))
        except AblateError as error:
            errors.append(error)
            break
        if codes[-1] == INTERRUPTED:
            break
    for each in errors:
        tell(each)
        codes.append(each.exit_code)
    if named is not None:
        found = [form.loads(answer) for answer in (*answers, *(as_json(each.mistakes) for each in errors))]
        document = {
            named: [answer for answer in found if "mistakes" not in answer],
            "mistakes": [mistake for answer in found for mistake in answer.get("mistakes", ())],
        }
        write_text(form.dumps(document, indent=2, ensure_ascii=False))
    raise typer.Exit(max(codes))


def _train_again(
    resumed: Resumable,
    changes: GivenOptions,
    results: Path,
    mlflow: str | None,
    no_mlflow: bool,
    answer: Answer,
    *,
    retry: Collection[str] = (),
) -> int:
    if resumed.changed:
        note(f"{resumed.changed}: it goes on as it was run")
    where = resumed.options.changed(**changes)
    mirror = _mirror(mlflow, no_mlflow) if mlflow or no_mlflow else resumed.mirror
    plugins = resumed.plugins
    return _train(resumed.space, where, results, plugins, fresh=False, retry=retry, mirror=mirror, answer=answer)


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
    answer: Answer,
    retry: Collection[str] = (),
) -> int:
    from ablate.report.screens import status
    from ablate.session import running

    screen = console(stderr=answer is not None)
    shown: list[Planned] = []
    answered: list[Run] = []

    def show(planned: Planned) -> None:
        show_plan(screen, planned, where.workers, shown[-1] if shown else None, results=results)
        shown.append(planned)

    def show_run(done: Run) -> None:
        _show_run(screen, done, results, answer)
        answered.append(done)

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
            show_run=show_run,
            mirror=mirror,
        )
    except AblateError as error:
        if not answered:
            raise
        tell(error)  # what comes after the answer, of which there is one
        return error.exit_code
    except KeyboardInterrupt:
        message = f"stopped at once; what was written is kept. To resume:\n  {again()}"
        write_text(message, stderr=True)
        if answer is not None and not answered:
            answer(_stopped(message))
        return INTERRUPTED
    if done.ended.interrupted and not done.ended.lost:
        return INTERRUPTED
    if done.failed:
        screen.print(status.failed_trials(done.plan, done.failed, results), soft_wrap=True)
        return 1
    return 0


def _show_run(screen: Console, done: Run, results: Path, answer: Answer) -> None:
    from ablate.report.json_form import to_json
    from ablate.report.screens import status
    from ablate.report.screens.result import result_screen
    from ablate.report.searched import sections
    from ablate.report.terminal_renderer import Screen

    stopped, in_json = done.ended.interrupted, None
    if done.searched is not None and not (stopped and not done.searched.trained):
        if answer is None:
            assert done.page is not None
            screen.print(Screen(sections.search_screen(done.searched)))
            screen.print(f"page: {from_here(done.page)}", style="dim", soft_wrap=True)
        else:
            in_json = sections.to_json(done.searched)
    elif done.summary is not None and not stopped:
        if answer is None:
            screen.print(Screen(result_screen(done.summary, done.definitions, unequal=done.unequal, mixed=done.mixed)))
            line = f"its page: {page_of(done.plan.space, results, RESULTS)}"
            screen.print(line, style="dim", soft_wrap=True)
        else:
            in_json = to_json(done.summary, done.definitions, done.mixed)
    if stopped:
        searching, grows = done.searched is not None, done.plan.open
        message = status.stopped(done.ended, again=again(), searching=searching, grows=grows)
        screen.print(message, soft_wrap=True)
        in_json = in_json or _stopped(message)
    if answer is not None and in_json is not None:
        answer(in_json)


def _stopped(message: str) -> str:
    """The reason why a run has no answer as JSON, with the command that resumes it as the way out."""
    said, _, command = message.partition(". To resume:\n  ")
    return as_json([Mistake(said, (command,))])
