"""A plan that learns from its own trials: unfolded, stage by stage, from what the results folder knows.

    paces      where steps follow from a wall-clock budget: how long a step of each model takes, measured once
    tuning     every variant with every combination of the settings in question, on the tuning split
    look 1     the verdict's first seeds
    look 2 …   more seeds, until every verdict is decided or the last look is reached

Which stage it is at follows from how the trials have ended, and from nothing else: a run that was stopped, killed and
gone on with, on whatever executor, ends with the plan of one that was not. A trial that failed has ended, without a
number.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, cast

from ablate.plan.known import Known
from ablate.plan.plan import Plan
from ablate.space.fair import Tune
from ablate.space.space import Space

if TYPE_CHECKING:
    from ablate.execute.controller import Ended, Work
    from ablate.plan.trial import Trial
    from ablate.report.finals import Finals
    from ablate.report.judgement import Account
    from ablate.report.summary import Summary
    from ablate.session.answer import Begun, Run
    from ablate.session.planning import PathLike, Planned
    from ablate.store.requests import Request
    from ablate.store.results import Results
    from ablate.train.events import Outcome

Build: TypeAlias = "Callable[[Known], Plan]"
Ask: TypeAlias = "Callable[[Collection[str]], Finals]"
"""The ends of trials, by id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What is asked for now. `plan` is open while more may follow, and `known` is what it was built with.

    `took` says what each look came to, `summary` is that of the last one taken.
    """

    plan: Plan
    known: Known
    took: tuple[str, ...] = ()
    summary: Summary | None = None


def begin_staged(
    planned: Planned,
    store: Results,
    request: Request,
    *,
    fresh: bool,
    limit: float | None,
    say: Callable[[str], None],
    retry: Collection[str] = (),
) -> Begun:
    """Keep the plan of the present stage; hand out its trials, then those of the next. How trials to `retry` have ended
    counts for nothing."""
    from ablate.execute.policy import is_settled
    from ablate.session.answer import Begun
    from ablate.session.judging import account_of
    from ablate.session.judging import keep as keep_judged
    from ablate.session.listed import answered, documents
    from ablate.session.planning import plan_of

    stage, space = planned.stage, planned.space
    assert stage is not None
    kept = documents(planned, store, train=bool(planned.to_run))
    past = {str(trial_id) for trial_id, *_ in store.plan(space.name).get("trials", ())}
    store.record_plan(stage.plan, kept)
    if not planned.to_run:
        return Begun(None, 0, lambda ended: answered(planned, ended, store, kept, request))

    def again(ended: Collection[str]) -> Stage:
        build, paces = partial(plan_of, planned.models), stage.known.paces

        def account(plan: Plan, finals: Finals) -> Account:
            return account_of(plan, space.judge, store.folder, finals)

        return unfold(space, build, ended=ended, finals=store.finals, paces=paces, account=account)  # type: ignore[arg-type]

    def keep(now: Stage) -> None:
        store.record_plan(now.plan, kept)
        if now.summary is not None:
            finals = cast("Finals", store.finals([trial.id for trial in now.plan.trials]))
            account = account_of(now.plan, space.judge, store.folder, finals)
            keep_judged(now.summary, now.plan, space.judge, account, finals, store)

    source = StagedSource(
        stage,
        again,
        store,
        keep=keep,
        settled=lambda outcome: is_settled(outcome, limit),
        say=say,
        anew=past if fresh else None,
        retry=retry,
    )
    total = None if stage.plan.open else len(planned.to_run)

    def answer(ended: Ended) -> Run:
        now = replace(planned, plan=source.plan, stage=source.stage)
        return answered(now, ended, store, kept, request)

    return Begun(source, total, answer)


def learns(space: Space) -> bool:
    """Whether what is trained may depend on how trials end; a search is another matter."""
    return space.auto is not None or isinstance(space.fair.tune, Tune) or paced(space)


def paced(space: Space) -> bool:
    """Whether steps follow from measured time."""
    return any(terms.budget == "wallclock" for terms in space.fair.terms.values())


def counts(outcome: Outcome) -> bool:
    """Whether a look need not wait for a trial that ended so: with a result, or as one that failed."""
    from ablate.execute.policy import FAILED

    return outcome.kind in ("finished", "diverged", *FAILED)


def unfolded(space: Space, results: PathLike) -> Planned:
    """The plan of a space at the stage that the results folder has come to, and what is known of it."""
    from ablate.session.planning import plan_space

    return plan_space(space, results=results)


def unfold(
    space: Space,
    build: Build,
    *,
    ended: Collection[str],
    finals: Ask,
    paces: Mapping[str, float],
    account: Callable[[Plan, Finals], Account],
) -> Stage:
    """The stage that follows from the trials that have `ended`, by id; `finals` is asked for those that count.

    `build` makes the plan from what is known; `paces` are as `Known` has them, empty before they were measured.
    `account` says of a plan how often what it asks was judged before.
    """
    known = Known(paces=paces)
    plan = build(known)
    tuning = [trial for trial in plan.trials if trial.split == "tuning"]
    if isinstance(space.fair.tune, Tune) and tuning:
        if not _all_ended(tuning, ended):
            return Stage(plan=replace(plan, open=True), known=known)
        known, notes = _tuned(space, plan, known, finals)
        build = partial(_with_notes, build, notes)
        plan = build(known)
    if plan.open or not plan.looks:  # open: steps hang on what was not measured yet
        return Stage(plan=plan, known=known)
    return _looked(space, build, plan, known, ended, finals, account)


def _with_notes(build: Build, notes: tuple[str, ...], known: Known) -> Plan:
    plan = build(known)
    return replace(plan, notes=(*plan.notes, *notes))


def _all_ended(trials: Collection[Trial], ended: Collection[str]) -> bool:
    return all(trial.id in ended for trial in trials)


def _tuned(space: Space, plan: Plan, known: Known, finals: Ask) -> tuple[Known, tuple[str, ...]]:
    from ablate.plan.fair import choose

    ids = [trial.id for trial in plan.trials if trial.split == "tuning"]
    choice = choose(space, plan, finals(ids), failed=ids)  # all have ended: what has no number here has failed
    return replace(known, tuned=choice.tuned), choice.notes


def _looked(
    space: Space,
    build: Build,
    plan: Plan,
    known: Known,
    ended: Collection[str],
    finals: Ask,
    account: Callable[[Plan, Finals], Account],
) -> Stage:
    """Look after look, as far as trials have ended: what was seen then decides whether there is a next one."""
    from ablate.report.verdicts import judge

    took: list[str] = []
    summary = None
    for look, after in zip(plan.looks, (*plan.looks[1:], None), strict=True):
        known = replace(known, seeds=tuple(range(look)))
        plan = build(known)
        if not _all_ended(plan.trials, ended):
            return Stage(
                plan=_noted(plan, took, open=after is not None), known=known, took=tuple(took), summary=summary
            )
        ended_now = finals([trial.id for trial in plan.trials])
        summary = judge(plan, space.judge, ended_now, account(plan, ended_now))
        took.append(_said(plan, summary, look, after))
        if summary.decided:
            break
    return Stage(plan=_noted(plan, took, open=False), known=known, took=tuple(took), summary=summary)


def _noted(plan: Plan, took: list[str], *, open: bool) -> Plan:
    return replace(plan, open=open, notes=(*plan.notes, *took))


def _said(plan: Plan, summary: Summary, look: int, after: int | None) -> str:
    """What a look came to, and what follows; what is asked twice of the same variants counts once."""
    from ablate.report.asked import question
    from ablate.report.wording import plural

    factors = dict(plan.factors)
    asked = {
        (c.kind, c.change, c.before, c.after, c.terms): question(c, factors)
        for c in plan.comparisons
        if c.kind != "noise"
    }
    verdicts = {
        (asked[effect.kind, effect.change, effect.before, effect.after, effect.terms], effect.metric): effect.verdict
        for effect in summary.effects
        if effect.judged
    }
    decided = sum(verdict != "undecided" for verdict in verdicts.values())
    seen = f"after {look} seeds, {decided} of {len(verdicts)} verdicts decided"
    if summary.decided:
        return f"{seen}: no more are needed"
    return f"{seen}: that was the last look" if after is None else f"{seen}: {plural(after - look, 'seed')} more"


class StagedSource:
    """Hands out the trials of the present stage, and when all of them have ended those of the next.

    `unfold` gives the stage that follows from the trials ended, by id, once the store has their numbers; `keep` is
    given each stage as it begins. Trials whose outcome is `settled` are not trained again, but for those to `retry`.
    With `anew`, the ids that the space was last asked for, nothing of what the store knows of its trials counts.
    """

    def __init__(
        self,
        stage: Stage,
        unfold: Callable[[Collection[str]], Stage],
        store: Results,
        *,
        keep: Callable[[Stage], None],
        settled: Callable[[Outcome], bool],
        say: Callable[[str], None],
        anew: Collection[str] | None = None,
        retry: Collection[str] = (),
    ):
        self.stage = stage
        self._unfold, self._store, self._keep, self._say = unfold, store, keep, say
        self._anew = anew
        known: Mapping[str, Outcome] = {} if anew is not None else store.outcomes()
        outcomes = {id: outcome for id, outcome in known.items() if id not in retry}
        self._ended = {id for id, outcome in outcomes.items() if counts(outcome)}
        self._done = {id for id, outcome in outcomes.items() if settled(outcome)}
        self._queue: deque[Work] = deque()
        self._left: set[str] = set()
        self._over = False
        self._take()

    @property
    def plan(self) -> Plan:
        """The plan of the present stage."""
        return self.stage.plan

    @property
    def waiting(self) -> int:
        """Trials of this stage that were not handed out."""
        return len(self._queue)

    @property
    def open(self) -> bool:
        """Whether another stage may follow."""
        return self.plan.open

    def next(self) -> Work | None:
        """The next trial of this stage; None while its last ones run, and when nothing is left."""
        if self._anew is not None:
            # Not before a worker is there: until then nothing that is known may be given up.
            self._store.begin_anew(work.trial for work in self._queue)
            self._store.give_up(set(self._anew) - {work.trial.id for work in self._queue})
            self._anew = None
        while not (self._queue or self._left or self._over):
            self._go_on()
        return self._queue.popleft() if self._queue else None

    def ended(self, trial: Trial, outcome: Outcome) -> None:
        """A trial has ended; in this run it is not tried again."""
        self._ended.add(trial.id)
        self._done.add(trial.id)
        self._left.discard(trial.id)

    def _go_on(self) -> None:
        """All of this stage has ended: what follows from it."""
        self._store.refresh()
        before, self.stage = self.stage, self._unfold(self._ended)
        for said in self.stage.took[len(before.took) :]:
            self._say(said)
        if self.plan != before.plan:
            self._keep(self.stage)
        self._take()
        self._over = not self._left

    def _take(self) -> None:
        from ablate.session.listed import work_of

        todo = [trial for trial in self.plan.trials if trial.id not in self._done]
        self._left = {trial.id for trial in todo}
        self._queue.extend(work_of(self.plan, todo))
