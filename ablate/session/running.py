"""Running: one run, from a space to its answer, under one lock: planned, trained, judged, shown, mirrored."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from ablate.block.expression import print_block
from ablate.data.streams import prepare
from ablate.errors import InputError, RefusedError
from ablate.execute.controller import Controller, EndCounts, Interrupt, Work
from ablate.execute.executor import FAILED, ExecutorOptions, cache_of
from ablate.execute.search.proposer import proposer_for
from ablate.execute.search.ranking import JobOutcome, ladder_of
from ablate.execute.search.search import BlockSearch
from ablate.execute.search.search_space import VETO, space_ground
from ablate.execute.search.source import Past, SearchSource
from ablate.execute.start import rehearse, starting_alike
from ablate.grammar.grammar import Grammar
from ablate.grammar.named_files import portable
from ablate.output import terminal, words
from ablate.output.terminal import line_writer
from ablate.plan.plan import Plan, Trial
from ablate.plan.proposals import most_trials
from ablate.report.page import PageRecord
from ablate.report.progress import Progress
from ablate.report.searched.record import Entry, SearchObjective, SearchRecord
from ablate.session import judging, stages
from ablate.session.accounts import account_of
from ablate.session.earlier_runs import documents, page_of
from ablate.session.mirroring import EndsTold, Mirroring
from ablate.session.planning import RESULTS, PathLike, Planned, meanings_in, mixed_versions, plan_from, plan_space
from ablate.session.reporting import gather, unequal_of
from ablate.session.run_result import Run
from ablate.session.stages import adapts, counts, has_time_budget, unfold
from ablate.space.design import Pruner
from ablate.space.fair import EQUAL_STEPS, Plain, spoken, text_of
from ablate.space.schedule import smallest_batch
from ablate.space.space import Space
from ablate.store import records
from ablate.store.bundle import chain
from ablate.store.durable import compact, write_whole, writing
from ablate.store.files import digest_of, keep_source
from ablate.store.machines import packages as installed_packages
from ablate.store.measurements import noise_of
from ablate.store.mirror import Mirrored, check_uri
from ablate.store.mlflow_client import without_secrets
from ablate.store.records import Request, record_request, run_command, withdrawn_if_refused
from ablate.store.results import Results
from ablate.store.snapshot import Snapshot
from ablate.train.events import Outcome
from ablate.verdict.summary import Summary

if TYPE_CHECKING:
    from ablate.data.batch import Batch


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

    Options, `fresh` and `mirror` are as in `ablate.run`. `retry` trains the failed trials with these ids again.
    `show_plan` is called before training and `show_run` when the answer is known, before it is mirrored. Ctrl-C stops
    at the next step of each running trial; calling this again resumes all of them. Raises RefusedError as `ablate.run`.
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
        recorded = record_request(folder, request)  # before anything that takes time
        with withdrawn_if_refused(folder, recorded):
            planned = ready(
                plan_space(space, results=folder, limit=limit, outcomes=known, forecasts="kept", fresh=fresh, say=dim)
            )
        if planned.awaits_step_times or (fresh and has_time_budget(space)):
            if planned.awaits_step_times and not (fresh and store.plan(space.name)):
                # What is requested is known, and can be resumed, if it is stopped while measuring.
                store.record_plan(planned.plan, documents(planned, store, request, train=True))
            prepare(space.data, space.folder, cache_of(folder), space.grammar.catalogue)
            stages.measure_step_times(folder, planned.plans, plugins=files, fresh=fresh, say=say)
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
                again = run_command(request, folder) + (f" --mlflow {without_secrets(uri)}" if uri else "")
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
    from ablate.execute.local import build_executor  # loads torch, which a run that trains nothing does not need

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
    """A run as it is requested now, with the list of packages kept. One that a folder kept is of the files and commit
    of the run `before`."""
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
    """The commit of a file's repository, with `, with changes` if tracked files differ; None if it cannot be read."""
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
    runs = f"{words.plural(sent.sent, 'run')} sent" if sent.sent else ""
    yield f"MLflow: {runs or ('page brought up to date' if sent.spaces else 'nothing to send')} ({sent.where})"
    yield from (f"  {space}: {page}" for space, page in sent.pages)


# A run of a plan, stage by stage (see `stages`).


class StagedRun:
    """A run that hands out the trials of the current stage, and once all of them have ended those of the next.

    Outcomes of trials to `retry` are ignored; with `fresh`, all outcomes are, and given up once a worker is ready.
    `say` prints the result of each look.
    """

    def __init__(
        self,
        planned: Planned,
        store: Results,
        request: Request,
        *,
        fresh: bool,
        say: Callable[[str], None],
        retry: Collection[str] = (),
    ):
        self._planned, self._store, self._request, self._say = planned, store, request, say
        self.stage, self.source = planned.stage, self
        self._kept = documents(planned, store, request, train=bool(planned.to_run))
        known = {} if fresh else store.outcomes()
        self._ended = {id for id, outcome in known.items() if id not in retry and counts(outcome)}
        self._done = set(planned.known)
        self._queue: deque[Work] = deque()
        self._left: set[str] = set()
        self._over, self._fresh = False, fresh

    @property
    def total(self) -> int | None:
        """The number of trials to run; None if others may follow."""
        return None if self._planned.plan.open else len(self._planned.to_run)

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @property
    def open(self) -> bool:
        return self.stage.plan.open

    def begin(self) -> None:
        # Trials of later stages are in the last plan of a space whose trials decide what follows.
        last = self._store.plan(self._planned.space.name) if adapts(self._planned.space) else None
        self._last = {trial_id for trial_id, *_ in last["trials"]} if last else set()
        self._store.record_plan(self.stage.plan, self._kept)
        self._take()

    def next(self) -> Work | None:
        """Return the next trial of this stage; None while its last ones run, and when nothing is left."""
        if self._fresh:
            # Only now is a worker ready: known results must not be given up before.
            self._store.begin_anew(work.trial for work in self._queue)
            self._store.give_up(self._last - {work.trial.id for work in self._queue})
            self._fresh = False
        while not (self._queue or self._left or self._over):
            self._go_on()
        return self._queue.popleft() if self._queue else None

    def ended(self, trial: Trial, outcome: Outcome) -> None:
        self._ended.add(trial.id)
        self._done.add(trial.id)
        self._left.discard(trial.id)

    def answer(self, ended: EndCounts) -> Run:
        plan, space, store = self.stage.plan, self._planned.space, self._store
        planned = replace(self._planned, plan=plan, stage=self.stage)
        summary = judging.judged(plan, space.judge, store)
        return Run(
            plan,
            ended,
            failures(plan, store),
            summary,
            meanings_in(space, {each.metric: each.definition for each in self._kept.definitions}),
            store.folder.absolute(),
            gathered=partial(self._gathered, planned),
            unequal=unequal_of(planned) if space.fair != EQUAL_STEPS else (),
            mixed=mixed_versions(plan, Snapshot(store.folder)),
        )

    def _gathered(self, planned: Planned) -> PageRecord:
        """The contents of the page, with the noise measured by the plan's own trials."""
        noise = noise_of(self._store.folder, planned.plan, planned.space.judge)
        return gather(replace(planned, noise=noise), self._store.folder, request=self._request)

    def _take(self) -> None:
        todo = {trial.id: trial for trial in self.stage.plan.trials if trial.id not in self._done}
        self._left = set(todo)
        self._queue.extend(work_of(self.stage.plan, todo.values()))

    def _go_on(self) -> None:
        """Move to the next stage, once all trials of this one have ended and the store has their numbers."""
        self._store.refresh()
        space, store, before = self._planned.space, self._store, self.stage
        account = partial(account_of, rules=space.judge, folder=store.folder)
        self.stage = unfold(
            space,
            self._planned.plans.of,
            ended=self._ended,
            finals=store.finals,
            paces=before.known.paces,
            account=account,
        )
        for line in self.stage.took[len(before.took) :]:
            self._say(line)
        if self.stage.plan != before.plan:
            store.record_plan(self.stage.plan, self._kept)
            if (summary := self.stage.summary) is not None:  # the verdicts of the look that the stage follows from
                finals = store.finals([trial.id for trial in self.stage.plan.trials])
                judging.keep(summary, self.stage.plan, space.judge, account(self.stage.plan, finals), finals, store)
        self._take()
        self._over = not self._left


def work_of(plan: Plan, trials: Iterable[Trial]) -> Iterator[Work]:
    """Trials labelled `name · seed 3`, with the settings that are being tuned."""
    names = {variant.id: variant.name for variant in plan.variants}
    values: dict[str, set[Plain]] = {}
    for _, setting in plan.tried:
        for name, value in setting:
            values.setdefault(name, set()).add(value)
    tried = dict(reversed(plan.tried))
    for trial in trials:
        chosen = [(name, value) for name, value in tried.get(trial.id, ()) if len(values[name]) > 1]
        words = [f"{spoken(name)} {text_of(value)}" for name, value in chosen]
        tuned = ", ".join(["", *words, "tuning"]) if trial.split == "tuning" else ""
        yield Work(trial=trial, label=f"{names[trial.variant]} · seed {trial.seed}{tuned}")


def failures(plan: Plan, store: Results) -> tuple[tuple[Trial, Outcome], ...]:
    outcomes = store.outcomes()
    trials = {trial.id: trial for trial in plan.trials}
    return tuple((t, outcomes[id]) for id, t in trials.items() if id in outcomes and outcomes[id].kind in FAILED)


# A run of a search: what it proposes, what of it is trained again, and its record.


class SearchRun:
    """A run that hands out the reference and what the search proposes, then the trials that confirm the best blocks.

    `limit` is the time limit of a trial in seconds. With `fresh`, the store's outcomes are ignored.
    """

    def __init__(self, planned: Planned, store: Results, request: Request, *, fresh: bool, limit: float | None):
        self._planned, self._store, self._request, self._fresh = planned, store, request, fresh
        space, design = planned.space, planned.space.design.search
        assert design is not None
        ground = space_ground(
            space,
            vocab_size=planned.corpus.vocab_size,
            repetition=planned.models.repetition,
            tokens=partial(_first_batch, space, store.folder),
            read=planned.models.read,
            forecaster=planned.plans.forecaster,
        )
        steps, every = space.recipe.steps, space.measure.evaluation.every
        self._search = BlockSearch(
            ground,
            proposer_for(design, ground, space.grammar.catalogue),
            reference=space.blocks[design.from_],
            goals=tuple(design.objective.values()),
            budget=design.budget,
            parallel=design.parallel,
            steps=steps,
            seeds=len(space.seeds),
            ladder=ladder_of(design.pruner, steps, every) if isinstance(design.pruner, Pruner) else None,
        )
        self._kept = documents(planned, store, request, train=True)
        self._past, last = Past(), store.plan(space.name)
        if last and last["design"] == "search" and last["resolved"] == json.loads(compact(self._kept.resolved)):
            derivations = {proposal["k"]: int(proposal["derivation"]) for proposal in last.get("proposals", ())}
            self._past = Past(frozenset(trial_id for trial_id, *_ in last["trials"]), derivations)
        self.source = SearchSource(
            self._search,
            planned.models,
            planned.plan,
            store,
            keep=lambda plan: store.record_plan(plan, self._kept),
            past=self._past,
            anew=fresh,
            limit=limit,
            forecaster=planned.plans.forecaster,
        )

    @property
    def total(self) -> int | None:
        """The largest number of trials that the budget still allows; None if the budget is not in trials."""
        most = most_trials(self._planned.space)
        if most is None:
            return None
        before = 0 if self._fresh else len(self._past.trials & self._store.outcomes().keys())
        return max(0, most - before)

    def begin(self) -> None:
        """Make a first proposal and discard it: InputError if practically no derivation is allowed."""
        self._search.rehearse()

    def answer(self, ended: EndCounts) -> Run:
        plan, store = self.source.kept_plan(), self._store
        store.refresh()
        summary, fresh = None, self.source.confirmation(plan)
        if fresh is not None and not self.source.confirm_left:  # at seeds that the search has not seen
            summary = judging.judged(fresh, self._planned.space.judge, store, confirmed=True)
        measured = {each.metric: each.definition for each in self._kept.definitions}
        definitions = meanings_in(self._planned.space, measured)
        ends = store.finals([trial.id for trial in plan.trials])
        of_before = any(end["versions"] == end["by_name"] for end in ends.values())  # paired by name, and so are others
        versions = {id: str(end["by_name" if of_before else "versions"]) for id, end in ends.items()}
        searched = self._record(summary, definitions, versions, plan)
        page = page_of(store.folder, plan.space, self._kept.resolved)
        failed, folder = failures(plan, store), store.folder.absolute()
        done = Run(plan, ended, failed, summary, definitions, folder, searched, page)
        with writing(page.parent):
            page.parent.mkdir(exist_ok=True)
        for name, text in done.report().items():
            write_whole(page.with_suffix(Path(name).suffix), text.encode())
        return done

    def _record(
        self,
        confirmed: Summary | None,
        definitions: Mapping[str, str],
        versions: Mapping[str, str],
        plan: Plan,
    ) -> SearchRecord:
        now = Snapshot(self._store.folder)
        kept = now.plans.current(plan.space)
        space, grammar, source, search = self._planned.space, self._planned.space.grammar, self.source, self._search
        design, judged, spent, refused = space.design.search, space.judge.metrics, search.spent, search.refused
        assert design is not None
        of_kind = {"trials": f"{spent.trials:,} trials", "hours": f"{spent.seconds / 3600:.3g} hours of training"}
        first = design.start in (None, *tuple(grammar.starts)[:1])
        return SearchRecord(
            space=space.name,
            question=space.question,
            profile=space.profile,
            grammar=grammar.name if first else f"{grammar.name} from {design.start}",
            derivations=grammar.count,
            reference=design.from_,
            objectives=tuple(
                SearchObjective(
                    metric=metric,
                    goal=goal,
                    definition=definitions.get(metric, "as measured"),
                    log=metric in judged and judged[metric].scale == "log",
                )
                for metric, goal in design.objective.items()
            ),
            sampler=str(design.sampler),
            seed=design.seed,
            parallel=design.parallel,
            seeds=space.seeds,
            pruner=design.pruner.described() if isinstance(design.pruner, Pruner) else "none",
            budget=design.budget.described(),
            spent=of_kind.get(design.budget.kind, f"{spent.flops:.4g} FLOPs of training"),
            why_over=search.why_over,
            entries=tuple(_entries(source, grammar, versions)),
            proposed=len(search.proposed),
            folded=search.folded,
            known=source.known,
            known_failed=source.known_failed,
            refused={reason: n for reason, n in refused.items() if not reason.startswith(VETO)},
            vetoed={reason.removeprefix(VETO): n for reason, n in refused.items() if reason.startswith(VETO)},
            passed_over=search.passed_over,
            random_share=search.random_share,
            wholly_random=search.wholly_random,
            repaired=search.repaired,
            correlations=search.correlations(),
            confirmed=confirmed,
            chosen=source.chosen,
            confirm_seeds=source.confirm_seeds,
            partial=not source.done,
            again=records.run_command(self._request, self._store.folder),
            definitions=definitions,
            mixed=mixed_versions(plan, now),
            head="" if kept is None else chain(now, kept)[-1].head,
            varied=tuple(factor.described for factor in design.vary.factors),
        )


def _first_batch(space: Space, folder: Path) -> Batch:
    from ablate.execute.work import drawing_of  # loads torch, which other searches do not need

    streams = prepare(space.data, space.folder, cache_of(folder), space.grammar.catalogue)
    sizes, seed = space.sizes(streams.vocab_size), space.seeds[0]
    return drawing_of(streams, space.objective_spec, space.objective, sizes, space.recipe, seed).at(0)


def _entries(source: SearchSource, grammar: Grammar, versions: Mapping[str, str]) -> Iterator[Entry]:
    """The reference, and the blocks that have a first result, in the order in which they were begun."""
    search, number = source.search, 0
    repeats = Counter(proposed.mark for proposed in search.proposed if proposed.same_as is not None)
    begun = sorted(search.jobs, key=lambda job: source.blocks[job.mark].jobs[0] if job.mark in source.blocks else -1)
    for mark, group in groupby(begun, key=lambda job: job.mark):
        of_block = list(group)
        done = [job for job in of_block if search.came(job.number) is not None]
        if not done and of_block[0].k is not None:  # the reference is number 0, though others may have ended before
            continue
        jobs = done or of_block[:1]
        block, variant, came = source.blocks[mark], source.blocks[mark].variant, search.came(jobs[-1].number)
        came = came or JobOutcome("interrupted")
        edits = () if block.joined is None else block.joined.edits
        yield Entry(
            number=number,
            name=variant.name,
            variant=variant.id,
            edits=tuple(edit.name for edit in edits),
            details=tuple(edit.detail for edit in edits),
            block=print_block(variant.block, grammar.catalogue, grammar.defaults),
            outcome="pruned" if came.outcome == "paused" and source.confirming else came.outcome,
            values=came.values,
            until=jobs[-1].until if came.outcome == "paused" else None,
            parameters=variant.parameters,
            flops=variant.flops,
            seconds=sum(ended.seconds for job in jobs if (ended := search.came(job.number)) is not None),
            repeats=repeats[mark],
            versions=" ".join(sorted({versions[trial.id] for trial in block.trials if trial.id in versions})),
            around=tuple((address, text_of(value)) for address, value in variant.setting.changes),
        )
        number += 1
