"""A run of a plan, stage by stage: its trials are trained and judged. A plan that is known beforehand has one stage.

Which stages there are, and when the next one begins, is in `stages`. A search is another run: `search_run`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from functools import partial

from ablate.execute.controller import EndCounts, Work
from ablate.execute.policy import FAILED
from ablate.plan.plan import Plan
from ablate.plan.trial import Trial
from ablate.report.page import PageRecord
from ablate.session import judging
from ablate.session.accounts import account_of
from ablate.session.kept_question import files_of, resolved_of, texts_of
from ablate.session.planning import Planned, filled, meanings_in, mixed_versions
from ablate.session.reporting import gather, unequal_of
from ablate.session.run_result import Run
from ablate.session.stages import adapts, counts, unfold
from ablate.space.fair import EQUAL_STEPS, Plain, spoken, text_of
from ablate.space.metrics import Definition
from ablate.store import files
from ablate.store.noise import noise_of
from ablate.store.query import query
from ablate.store.requests import Request
from ablate.store.results import Results
from ablate.store.serialise import Documents
from ablate.store.snapshot import Snapshot
from ablate.train.definitions import definitions
from ablate.train.events import Outcome


class StagedRun:
    """A run that hands out the trials of the current stage, and once all of them have ended those of the next.

    Outcomes of trials to `retry` are ignored; with `fresh`, everything that the store knows of the space's trials is,
    and is given up once a worker is ready. `say` prints the result of each look.
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
        """The number of trials that are not known; None if others may follow."""
        return None if self._planned.plan.open else len(self._planned.to_run)

    @property
    def waiting(self) -> int:
        """The number of trials of this stage that were not handed out yet."""
        return len(self._queue)

    @property
    def open(self) -> bool:
        """True if another stage may follow."""
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
        """Note that a trial has ended; in this run it is not tried again."""
        self._ended.add(trial.id)
        self._done.add(trial.id)
        self._left.discard(trial.id)

    def answer(self, ended: EndCounts) -> Run:
        """Judge the comparisons of the current stage by the trials that have ended, and store the verdicts."""
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
        """Gather what the page shows, with the noise measured by the plan's own trials."""
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
    """Yield trials of a plan as work, labelled `name · seed 3`, with the settings that are being tuned."""
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


def documents(planned: Planned, store: Results, request: Request, *, train: bool) -> Documents:
    """Return the documents stored with a plan, and keep the files that decide it."""
    space, decided = planned.space, files_of(planned, request.shown[0])
    if train:
        defined = tuple(
            replace(each, definition=filled(each.definition, space)) for each in definitions(space.grammar.catalogue)
        )
    else:
        rows = query(store.folder, "SELECT DISTINCT metric, definition, source FROM definitions ORDER BY metric").rows
        defined = tuple(Definition(*row) for row in rows)
    return Documents(
        source=space.text,
        resolved=resolved_of(planned, store.folder),
        definitions=defined,
        corpus=planned.corpus.model_dump(mode="json"),
        sources={name: files.keep_source(store.folder, of) for name, of in decided.items()},
        profile=space.profile,
        settings=space.settings,
        texts=texts_of(planned.models),
    )


def failures(plan: Plan, store: Results) -> tuple[tuple[Trial, Outcome], ...]:
    outcomes = store.outcomes()
    trials = {trial.id: trial for trial in plan.trials}
    return tuple((t, outcomes[id]) for id, t in trials.items() if id in outcomes and outcomes[id].kind in FAILED)
