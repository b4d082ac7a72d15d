"""One run, from a space to its answer: planned, trained, judged, shown, mirrored, under one lock."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from ablate.data.streams import prepare
from ablate.errors import InputError, RefusedError
from ablate.execute.controller import Controller, EndCounts
from ablate.execute.equal_start import starting_alike
from ablate.execute.executor_options import ExecutorOptions
from ablate.execute.interrupt import Interrupt
from ablate.execute.rehearsal import rehearse
from ablate.execute.task import cache_of
from ablate.grammar.named_files import portable
from ablate.output import terminal, words
from ablate.output.streams import line_writer
from ablate.report.progress import Progress
from ablate.session import step_time
from ablate.session.mirroring import EndsTold, Mirroring
from ablate.session.planning import RESULTS, PathLike, Planned, plan_from, plan_space
from ablate.session.run_result import Run
from ablate.session.search_run import SearchRun
from ablate.session.staged_run import StagedRun, documents
from ablate.session.stages import has_time_budget
from ablate.space.batch_ramp import smallest_batch
from ablate.space.space import Space
from ablate.store.files import digest_of, keep_source
from ablate.store.mirror import Mirrored, check_uri
from ablate.store.mlflow.connection import without_secrets
from ablate.store.requests import Request, command, record, withdrawn_if_refused
from ablate.store.results import Results
from ablate.store.snapshot import Snapshot
from ablate.store.versions import packages as installed_packages


def run(
    space: Space,
    *,
    results: PathLike = RESULTS,
    options: ExecutorOptions | None = None,
    fresh: bool = False,
    retry: Collection[str] = (),
    plugins: Sequence[PathLike] = (),
    console: Console | None = None,
    show_plan: Callable[[Planned], None] | None = None,
    show_run: Callable[[Run], None] | None = None,
    mirror: bool | str = True,
) -> Run:
    """Train what the plan needs and the results folder does not have yet, and judge it; a search returns what it found.

    `options` say where (default: worker processes on this machine); `fresh` trains everything again, `retry` the failed
    trials with these ids. `show_plan` is called before training and `show_run` when the answer is known, before it is
    mirrored to MLflow: to the store in the results folder, or to the tracking server whose URI `mirror` is. Ctrl-C
    stops at the next step of each running trial; calling this again resumes all of them. Raises RefusedError if the
    folder is locked by another run or cannot be written, and if the corpus is missing or too small; a trial that fails
    is an outcome, not an exception.
    """
    options, console, folder = options or ExecutorOptions(), console or terminal.Console(), Path(results)
    check_uri(mirror if isinstance(mirror, str) else None)
    options.check_batch(space.recipe.batch, smallest_batch(space.recipe))
    files, limit, say = tuple(Path(plugin).resolve() for plugin in plugins), options.limit, line_writer(console)

    def ready(planned: Planned) -> Planned:
        if show_plan is not None:
            show_plan(planned)
        rehearse(planned.plan, space, planned.to_run, files)
        return planned

    with Interrupt(say, options.patience) as interrupt, Results(folder, say=_note_on(console)) as store:
        known = {} if fresh else {id: ended for id, ended in store.outcomes().items() if id not in retry}
        dim = line_writer(console, "dim")
        request = _request(space, folder, options, files, mirror, Snapshot(folder).requests.get(space.name))
        recorded = record(folder, request)  # before anything that takes time
        with withdrawn_if_refused(folder, recorded):
            planned = ready(
                plan_space(space, results=folder, limit=limit, outcomes=known, forecasts="kept", fresh=fresh, say=dim)
            )
        if planned.awaits_step_times or (fresh and has_time_budget(space)):
            if planned.awaits_step_times and not (fresh and store.plan(space.name)):
                # What is requested is known, and can be resumed, if it is stopped while measuring.
                store.record_plan(planned.plan, documents(planned, store, request, train=True))
            prepare(space.data, space.folder, cache_of(folder), space.grammar.catalogue)
            step_time.measure_step_times(folder, planned.plans, plugins=files, fresh=fresh, say=say)
            # Only now are all numbers of steps known: this is the only place where a run is planned a second time.
            planned = ready(plan_from(planned.plans, planned.corpus, results=folder, limit=limit, outcomes=known))
        planned_run: SearchRun | StagedRun
        with withdrawn_if_refused(folder, recorded):
            if space.design.search is not None:
                planned_run = SearchRun(planned, store, request, fresh=fresh, limit=limit)
            else:
                planned_run = StagedRun(planned, store, request, fresh=fresh, retry=retry, say=say)
            planned_run.begin()
        with ExitStack() as whole:
            mirroring = None
            if mirror:
                uri = mirror if isinstance(mirror, str) else None
                again = command(request, folder) + (f" --mlflow {without_secrets(uri)}" if uri else "")
                mirroring = whole.enter_context(Mirroring(store, space.name, uri, say=_note_on(console), command=again))
            ended = _train(planned, planned_run, store, options, files, console, mirroring, interrupt)
            done = planned_run.answer(ended)
            if show_run is not None:
                show_run(done)
            if mirroring is not None and not ended.interrupted:
                _finish(mirroring, done, console)
    return done


def _train(
    planned: Planned,
    planned_run: SearchRun | StagedRun,
    store: Results,
    options: ExecutorOptions,
    plugins: tuple[Path, ...],
    console: Console,
    mirroring: Mirroring | None,
    interrupt: Interrupt,
) -> EndCounts:
    space = planned.space
    if not planned.to_run and space.design.search is None:  # a search replays what it knows, and asks for more
        return EndCounts()
    from ablate.execute.executors import build_executor  # loads torch, which a run that trains nothing does not need

    for data in planned.texts:  # once here, rather than in all workers at the same time
        prepare(data, space.folder, cache_of(store.folder), space.grammar.catalogue)
    say = line_writer(console)
    for line in starting_alike(planned.plan, space.grammar.catalogue, cache_of(store.folder), planned.to_run):
        say(line)
    outcomes = store.outcomes()
    measured = [(trial, outcomes[trial.id]) for trial in planned.plan.trials if trial.id in outcomes]
    executor = build_executor(options, space.threads, say, plugins=plugins, known=measured)
    with interrupt.trials(), Progress(planned_run.total, executor.workers, console) as progress:
        watcher = EndsTold(progress, mirroring)
        controller = Controller(
            planned_run.source, store, options, plugins=plugins, watcher=watcher, should_stop=interrupt, say=say
        )
        return controller.run(executor)


def _request(
    space: Space,
    folder: Path,
    options: ExecutorOptions,
    plugins: tuple[Path, ...],
    mirror: bool | str,
    before: Request | None,
) -> Request:
    """Return a run as it is requested now, and keep the list of packages; one that a folder kept is of the files and
    commit of the run `before`."""
    request = Request(
        space=space.name,
        path=str(space.path.resolve()),
        profile=space.profile,
        settings=space.settings,
        plugins=tuple(map(str, plugins)),
        typed=tuple(portable(path) for path in (space.path, *plugins)),
        place=options.document(),
        mirror=without_secrets(mirror) if isinstance(mirror, str) else mirror,
        commit=commit_of(space.path),
        source=digest_of(space.text.encode()),
        packages=keep_source(folder, installed_packages().encode()),
    )
    if space.kept is None or before is None:
        return request
    return replace(request, path=before.path, plugins=before.plugins, typed=before.typed, commit=before.commit)


def commit_of(path: Path) -> str | None:
    """Return the commit of the repository that a file is in, with `, with changes` if tracked files differ from it.

    None outside a repository, without git, and if the repository cannot be read: a run does not depend on it.
    """
    try:
        import git
    except ImportError:  # GitPython raises it where there is no git to run
        return None
    try:
        with git.Repo(path.resolve().parent, search_parent_directories=True) as repository:
            commit = repository.head.commit.hexsha
            return f"{commit}, with changes" if repository.is_dirty(untracked_files=False) else commit
    except (git.exc.GitError, ValueError, OSError):  # no repository, no commit in it, or no permission to read it
        return None


def _note_on(console: Console) -> Callable[[str], None]:
    say = line_writer(console, "yellow")
    return lambda text: say(f"note: {text}")


def _finish(mirroring: Mirroring, done: Run, console: Console) -> None:
    """Send what is left to MLflow. It is a copy: a failure is reported, and costs no result."""
    note, say = _note_on(console), line_writer(console, "dim")
    try:
        sent = mirroring.finish({done.plan.space: done.report()}, say)
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001  MLflow and its database raise many kinds; the next run sends it again
        failed = f"MLflow was not brought up to date ({error}); the next run tries again"
        note(str(error) if isinstance(error, RefusedError) else failed)
        return
    if sent:
        for line in mlflow_lines(sent):
            line_writer(console, "dim", whole=True)(line)


def mlflow_lines(sent: Mirrored) -> Iterator[str]:
    """Yield what was sent to MLflow, and where it is shown."""
    runs = f"{words.plural(sent.sent, 'run')} sent" if sent.sent else ""
    yield f"MLflow: {runs or ('page brought up to date' if sent.spaces else 'nothing to send')} ({sent.where})"
    yield from (f"  {space}: {page}" for space, page in sent.pages)
