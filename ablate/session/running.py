"""One run, from a space to its verdicts: planned, trained, judged, shown, mirrored, under one lock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ablate.errors import InputError, RefusedError
from ablate.plan.plan import Plan
from ablate.session.place import Place
from ablate.session.planning import PathLike, Planned, plan_space
from ablate.session.rehearsal import rehearse
from ablate.source.located import to_python
from ablate.space.metrics import JUDGED, Definition
from ablate.space.space import Space

if TYPE_CHECKING:
    from rich.console import Console

    from ablate.execute.controller import Ended, Order
    from ablate.plan.trial import Trial
    from ablate.report.summary import Summary
    from ablate.store.describe import Documents
    from ablate.store.requests import Request
    from ablate.store.results import Results
    from ablate.train.events import Outcome

RESULTS = Path("results")


@dataclass(frozen=True, slots=True)
class Run:
    """What a run came to: the plan, how its trials ended, what the numbers say, and what each metric means.

    `ended` counts the trials of this run alone; `failed` are all trials of the plan that have no result.
    """

    plan: Plan
    ended: Ended
    failed: tuple[tuple[Trial, Outcome], ...]
    summary: Summary
    definitions: Mapping[str, str]


def run(
    space: Space,
    *,
    results: PathLike = RESULTS,
    place: Place | None = None,
    fresh: bool = False,
    plugins: Sequence[PathLike] = (),
    console: Console | None = None,
    show_plan: Callable[[Planned], None] | None = None,
    show_run: Callable[[Run], None] | None = None,
    mirror: bool | str = True,
) -> Run:
    """Train what the plan asks for and the results folder does not know, and judge it.

    `place` says where (default: worker processes on this machine); `fresh` trains everything again. `show_plan` is
    called before training and `show_run` when the answer is known, before it is mirrored to MLflow: to the store in the
    results folder, or to the tracking server whose URI `mirror` is. A Ctrl-C stops at the next step of each running
    trial and leaves all of it resumable by calling this again. Raises RefusedError where the folder is locked by
    another run or cannot be written, and where the corpus is missing or too small; a trial that fails is an outcome,
    not an exception.
    """
    from rich.console import Console

    from ablate.execute.controller import Ended, Order
    from ablate.store.mirror import check_uri
    from ablate.store.requests import record
    from ablate.store.results import Results

    place, console, folder = place or Place(), console or Console(), Path(results)
    check_uri(mirror if isinstance(mirror, str) else None)
    order = Order(plugins=tuple(Path(plugin).resolve() for plugin in plugins), limit=place.limit, anew=fresh)
    with Results(folder, say=lambda text: console.print(f"note: {text}", style="yellow")) as store:
        known = {} if fresh else store.outcomes()
        planned = plan_space(space, results=folder, limit=place.limit, outcomes=known)
        if show_plan is not None:
            show_plan(planned)
        to_run = planned.to_run
        rehearse(space, planned.plan, to_run, order.plugins)
        documents = _documents(planned, folder, train=bool(to_run))
        store.record_plan(planned.plan, documents)
        record(folder, _request(space, order, place, mirror))
        ended = _train(planned, to_run, store, place, order, console) if to_run else Ended()
        done = _judged(planned, ended, store, documents)
        if show_run is not None:
            show_run(done)
        if mirror and not ended.interrupted:
            _mirror(folder, mirror if isinstance(mirror, str) else None, done, console)
    return done


def _train(
    planned: Planned, trials: tuple[Trial, ...], store: Results, place: Place, order: Order, console: Console
) -> Ended:
    from ablate.data.streams import prepare
    from ablate.execute.controller import Controller
    from ablate.execute.interrupt import Interrupt
    from ablate.execute.task import cache_of
    from ablate.report.progress import Progress

    # Once, before workers ask for it all at the same time.
    prepare(planned.space.data, planned.space.folder, cache_of(store.folder))
    executor = place.build(planned.space.threads, console.print)
    labels = {trial.id: f"{planned.plan.variant(trial.variant).name} · seed {trial.seed}" for trial in trials}
    with Interrupt(console.print) as interrupt, Progress(len(trials), executor.workers, console) as progress:
        controller = Controller(
            trials, store, order, labels=labels, watcher=progress, should_stop=interrupt, say=console.print
        )
        return controller.run(executor)


def _judged(planned: Planned, ended: Ended, store: Results, documents: Documents) -> Run:
    from ablate.execute.policy import FAILED
    from ablate.report.verdicts import judge

    store.refresh()
    trials = {trial.id: trial for trial in planned.plan.trials}
    outcomes = store.outcomes()
    failed = tuple((t, outcomes[id]) for id, t in trials.items() if id in outcomes and outcomes[id].kind in FAILED)
    summary = judge(planned.plan, planned.space.judge, store.finals(list(trials)))  # type: ignore[arg-type]
    definitions = {d.metric: d.definition for d in (*documents.definitions, *JUDGED.values())}
    return Run(planned.plan, ended, failed, summary, definitions)


def _request(space: Space, order: Order, place: Place, mirror: bool | str) -> Request:
    from ablate.store.mlflow.connection import without_secrets
    from ablate.store.requests import Request

    return Request(
        space=space.name,
        path=str(space.path.resolve()),
        profile=space.profile,
        settings=space.settings,
        plugins=tuple(map(str, order.plugins)),
        place=place.document(),
        mirror=without_secrets(mirror) if isinstance(mirror, str) else mirror,
    )


def _documents(planned: Planned, folder: Path, *, train: bool) -> Documents:
    """What is kept with a plan. Definitions come from the trainer when it runs, else from the store that it filled."""
    from ablate.store.describe import Documents

    if train:
        from ablate.train.definitions import definitions

        found = definitions()
    else:
        from ablate.store.query import query as ask

        rows = ask(folder, "SELECT DISTINCT metric, definition, source FROM definitions ORDER BY metric").rows
        found = tuple(Definition(*row) for row in rows)
    space = planned.space
    return Documents(
        source=space.path.read_text(encoding="utf-8"),
        resolved=to_python(space.located),
        definitions=found,
        corpus=planned.corpus.model_dump(mode="json"),
    )


def _mirror(folder: Path, uri: str | None, done: Run, console: Console) -> None:
    """Send what is new to MLflow. It is a copy: what goes wrong there is said, and costs no result."""
    from ablate.report import wording
    from ablate.report.json_form import to_json
    from ablate.report.markdown import to_markdown
    from ablate.store.mirror import mirror

    verdicts = {
        "verdicts.md": to_markdown(done.summary, done.definitions),
        "verdicts.json": to_json(done.summary, done.definitions),
    }
    try:
        sent = mirror(folder, uri=uri, reports={done.plan.space: verdicts})
    except InputError:
        raise
    except RefusedError as error:
        console.print(f"note: {error}", style="yellow", markup=False, highlight=False)
        return
    except Exception as error:  # noqa: BLE001  MLflow and its database raise many kinds; the next run sends it again
        console.print(f"note: MLflow was not brought up to date ({error}); the next run tries again", style="yellow")
        return
    if sent:
        what = f"{wording.plural(sent.sent, 'run')} sent" if sent.sent else "page brought up to date"
        console.print(f"MLflow: {what} ({sent.where})", style="dim")
