"""One run, from a space to its verdicts: planned, trained, judged, shown, mirrored, under one lock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ablate.errors import InputError
from ablate.plan.build import build_plan
from ablate.plan.plan import Plan
from ablate.source.located import to_python
from ablate.space.metrics import JUDGED, Definition
from ablate.space.space import Space

if TYPE_CHECKING:
    from rich.console import Console

    from ablate.data.report import CorpusReport
    from ablate.execute.controller import Ended
    from ablate.execute.task import Executor
    from ablate.plan.trial import Trial
    from ablate.report.summary import Summary
    from ablate.store.describe import Documents
    from ablate.train.events import Outcome

RESULTS = Path("results")
ExecutorName: TypeAlias = Literal["local", "inline"]
PathLike: TypeAlias = "str | Path"


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, the corpus it is over, and the trials whose outcome the results folder knows already.

    `trial_seconds` is the median time of one trial of this recipe and size as measured before; None if none was.
    """

    space: Space
    plan: Plan
    corpus: CorpusReport
    known: frozenset[str]
    trial_seconds: float | None

    def seconds(self, workers: int | None = None) -> float | None:
        """How long what is not known will take on `workers` (default: as a run has); None where none was measured."""
        if self.trial_seconds is None:
            return None
        from ablate.execute.cores import default_workers

        to_run = len({trial.id for trial in self.plan.trials} - self.known)
        return self.trial_seconds * -(-to_run // (workers or default_workers(self.space.threads)))


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


def check(space: Space) -> Plan:
    """Everything about a space that can be checked without reading its corpus; the plan, without its corpus."""
    from ablate.data.tokenizer import vocab_size_of

    return build_plan(space, vocab_size=vocab_size_of(space.data.tokenizer), corpus="")


def plan_space(space: Space, *, results: PathLike = RESULTS) -> Planned:
    """The plan of a space over its corpus, and what the results folder knows of it. Nothing is trained."""
    from ablate.data.streams import check_corpus, fingerprint
    from ablate.execute.policy import is_settled
    from ablate.store.ledger import known_outcomes

    check(space)  # so that a mistake in the space is told before its corpus is read
    folder = Path(results)
    corpus = fingerprint(space.data, space.folder, cache_of(folder))
    check_corpus(corpus, space.model.context, space.recipe.batch, space.measure.evaluation.windows)
    built = build_plan(space, vocab_size=corpus.vocab_size, corpus=corpus.fingerprint)
    known = frozenset(id for id, outcome in known_outcomes(folder).items() if is_settled(outcome))
    return Planned(space, built, corpus, known, _trial_seconds(built, known, folder))


def run(
    space: Space,
    *,
    results: PathLike = RESULTS,
    executor: ExecutorName = "local",
    workers: int | None = None,
    fresh: bool = False,
    plugins: Sequence[PathLike] = (),
    console: Console | None = None,
    show_plan: Callable[[Planned], None] | None = None,
    show_run: Callable[[Run], None] | None = None,
    mirror: bool = True,
) -> Run:
    """Train what the plan asks for and the results folder does not know, and judge it.

    `fresh` trains everything again. `show_plan` is called before training and `show_run` when the answer is known,
    before it is mirrored to MLflow. A Ctrl-C stops at the next step of each running trial and leaves all of it
    resumable by calling this again. Raises RefusedError where the folder is locked by another run or cannot be written,
    and where the corpus is missing or too small; a trial that fails is an outcome, not an exception.
    """
    from rich.console import Console

    from ablate.execute.controller import Ended
    from ablate.execute.policy import FAILED, is_settled
    from ablate.report.verdicts import judge
    from ablate.store.results import Results

    console = console or Console()
    folder = Path(results)
    with Results(folder, say=lambda text: console.print(f"note: {text}", style="yellow")) as store:
        planned = plan_space(space, results=folder)
        if show_plan is not None:
            show_plan(planned)
        trials = {trial.id: trial for trial in planned.plan.trials}
        known = {id for id, outcome in store.outcomes().items() if is_settled(outcome)}
        to_run = tuple(trial for trial in trials.values() if fresh or trial.id not in known)
        documents = _documents(planned, folder, train=bool(to_run))
        store.record_plan(planned.plan, documents)
        if to_run:
            from ablate.execute.device import device_name

            store.versions = {**store.versions, "device": device_name()}
        if fresh:
            store.begin_anew(to_run)
        ended = (
            _train(planned, to_run, store, _executor(executor, workers, space.threads), plugins, console)
            if to_run
            else Ended()
        )
        store.refresh()
        outcomes = store.outcomes()
        failed = tuple((t, outcomes[id]) for id, t in trials.items() if id in outcomes and outcomes[id].kind in FAILED)
        summary = judge(planned.plan, space.judge, store.finals(list(trials)))  # type: ignore[arg-type]
        definitions = {d.metric: d.definition for d in (*documents.definitions, *JUDGED.values())}
        done = Run(planned.plan, ended, failed, summary, definitions)
        if show_run is not None:
            show_run(done)
        if mirror and not ended.interrupted:
            _mirror(folder, console)
    return done


def cache_of(results: Path) -> Path:
    """Where a results folder keeps token streams; several runs may share it."""
    return results / "corpus"


def _trial_seconds(plan: Plan, known: frozenset[str], folder: Path) -> float | None:
    """The median time of finished trials of the recipe and size of those that are still to run."""
    to_run = [trial for trial in plan.trials if trial.id not in known]
    if not to_run or not known:
        return None
    from ablate.store.pace import trial_seconds

    return trial_seconds(folder, to_run[0])


def _executor(name: str, workers: int | None, threads: int) -> Executor:
    if name == "inline":
        from ablate.execute.inline import Inline

        return Inline()
    if name == "local":
        from ablate.execute.cores import default_workers
        from ablate.execute.local import Local

        return Local(workers or default_workers(threads))
    raise InputError(f"unknown executor {name!r}\n  = there are: local, inline")


def _train(
    planned: Planned,
    trials: tuple[Any, ...],
    store: Any,
    executor: Executor,
    plugins: Sequence[PathLike],
    console: Console,
) -> Ended:
    from ablate.data.streams import prepare
    from ablate.execute.controller import execute
    from ablate.execute.interrupt import Interrupt
    from ablate.report.progress import Progress

    cache = cache_of(store.folder)
    prepare(planned.space.data, planned.space.folder, cache)  # once, before workers ask for it all at the same time
    labels = {trial.id: f"{planned.plan.variant(trial.variant).name} · seed {trial.seed}" for trial in trials}
    with Interrupt(console.print) as interrupt, Progress(len(trials), executor.workers, console) as progress:
        return execute(
            trials,
            store,
            executor,
            cache=cache,
            plugins=tuple(Path(plugin).resolve() for plugin in plugins),
            labels=labels,
            watcher=progress,
            should_stop=interrupt,
            say=console.print,
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


def _mirror(folder: Path, console: Console) -> None:
    """Send what is new to MLflow. It is a copy: what goes wrong there is said, and costs no result."""
    from ablate.store.mirror import mirror

    try:
        sent = mirror(folder)
    except Exception as error:  # noqa: BLE001  MLflow and its database raise many kinds; the next run sends it again
        console.print(f"note: MLflow was not brought up to date ({error}); the next run tries again", style="yellow")
        return
    if sent:
        console.print(f"MLflow: {sent} runs sent to {folder / 'mlflow.db'}", style="dim")
