"""A run of a search: proposed, trained, confirmed, and what was found as one record and its page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ablate.data.streams import prepare
from ablate.execute.controller import EndCounts, Work
from ablate.execute.search.choose import proposer_for
from ablate.execute.search.rungs import ladder_of
from ablate.execute.search.search import BlockSearch
from ablate.execute.search.search_space import space_ground
from ablate.execute.search.source import Past, SearchSource
from ablate.execute.task import cache_of
from ablate.plan.plan import Plan
from ablate.plan.proposals import most_trials
from ablate.plan.trial import Trial
from ablate.session.judging import account_of, judgements
from ablate.session.page_record import PAGES
from ablate.session.planned import Planned
from ablate.session.run_protocol import documents, failures, meanings
from ablate.session.run_result import Run
from ablate.session.search_record import record
from ablate.space.design import Pruner
from ablate.space.space import Space
from ablate.store.checksummed_lines import compact
from ablate.store.durable import write_whole, writing
from ablate.store.requests import Request
from ablate.store.results import Results
from ablate.train.events import Outcome
from ablate.verdict.finals import Finals
from ablate.verdict.judge import judge
from ablate.verdict.summary import Summary

if TYPE_CHECKING:
    from ablate.data.batch import Batch


class SearchRun:
    """A run that hands out the reference and what the search proposes, then the trials that confirm the best blocks.

    `limit` is the time limit of a trial in seconds. With `fresh`, what the store knows of this search is ignored.
    """

    def __init__(self, planned: Planned, store: Results, request: Request, *, fresh: bool, limit: float | None):
        self._planned, self._store, self._request, self._fresh = planned, store, request, fresh
        self._search = _search(planned, store.folder)
        self._kept = documents(planned, store, train=True)
        self._past = self._what_was_kept()
        self._source = SearchSource(
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

    @property
    def trains(self) -> bool:
        """Always true: a search replays what it knows, and only then knows whether anything is left."""
        return True

    @property
    def waiting(self) -> int:
        """The number of trials that were requested and not handed out yet."""
        return self._source.waiting

    @property
    def open(self) -> bool:
        """True if more trials will be requested."""
        return self._source.open

    def begin(self) -> None:
        """Make a first proposal and discard it: InputError if practically no derivation is allowed.

        The plan is stored as it grows.
        """
        self._search.rehearse()

    def next(self) -> Work | None:
        """Return the next trial; None while it waits for results, and when all is done."""
        return self._source.next()

    def ended(self, trial: Trial, outcome: Outcome) -> None:
        """Note that a trial has ended or paused: the next proposal may depend on it."""
        self._source.ended(trial, outcome)

    def answer(self, ended: EndCounts) -> Run:
        """Return what the search has found, finished or so far, and write its page."""
        plan, store = self._source.kept_plan(), self._store
        store.refresh()
        summary = self._confirmed(plan)
        definitions = meanings(self._planned, self._kept)
        finals = store.finals([trial.id for trial in plan.trials])
        versions = {id: str(final["versions"]) for id, final in finals.items()}
        searched = record(self._planned, self._source, summary, definitions, versions, self._request, store.folder)
        page = store.folder / PAGES / f"{plan.space}.html"
        failed, folder = failures(plan, store), store.folder.absolute()
        done = Run(plan, ended, failed, summary, definitions, folder, searched, page)
        _write(page, done)
        return done

    def _confirmed(self, plan: Plan) -> Summary | None:
        """Judge the chosen blocks against the reference at seeds that the search has not seen, and record that."""
        fresh = self._source.confirmation(plan)
        if fresh is None or self._source.confirm_left:
            return None
        finals = cast("Finals", self._store.finals([trial.id for trial in fresh.trials]))
        rules = self._planned.space.judge
        account = account_of(fresh, rules, self._store.folder, finals)
        summary = judge(fresh, rules, finals, account)
        self._store.record_questions(judgements(summary, fresh, rules, account, finals))
        return summary

    def _what_was_kept(self) -> Past:
        """Return what is stored of this search; nothing of another question under the same name."""
        plan = self._store.plan(self._planned.space.name)
        if plan.get("design") != "search" or plan["resolved"] != json.loads(compact(self._kept.resolved)):
            return Past()
        derivations = {int(proposal["k"]): int(proposal["derivation"]) for proposal in plan["proposals"]}
        return Past(frozenset(str(trial_id) for trial_id, *_ in plan["trials"]), derivations)


def _search(planned: Planned, folder: Path) -> BlockSearch:
    """Return the search of a space, before its first proposal."""
    space = planned.space
    search = space.design.search
    assert search is not None
    ground = space_ground(
        space,
        vocab_size=planned.corpus.vocab_size,
        repetition=planned.models.repetition,
        tokens=_first_batch(space, folder),
        read=planned.models.read,
        forecaster=planned.plans.forecaster,
    )
    steps, every = space.recipe.steps, space.measure.evaluation.every
    return BlockSearch(
        ground,
        proposer_for(search, ground, space.grammar.catalogue),
        reference=space.blocks[search.from_],
        goals=tuple(search.objective.values()),
        budget=search.budget,
        parallel=search.parallel,
        steps=steps,
        seeds=len(space.seeds),
        ladder=ladder_of(search.pruner, steps, every) if isinstance(search.pruner, Pruner) else None,
    )


def _first_batch(space: Space, folder: Path) -> Callable[[], Batch]:
    """Return a reader of the first training batch of the first seed, for vetoes measured at initialisation."""

    def read() -> Batch:
        from ablate.execute.drawing import drawing_of  # loads torch, which other searches do not need

        streams = prepare(space.data, space.folder, cache_of(folder), space.grammar.catalogue)
        sizes, seed = space.sizes(streams.vocab_size), space.seeds[0]
        return drawing_of(streams, space.objective_spec, space.objective, sizes, space.recipe, seed).at(0)

    return read


def _write(page: Path, done: Run) -> None:
    with writing(page.parent):
        page.parent.mkdir(exist_ok=True)
    for name, text in done.report().items():
        write_whole(page.with_suffix(Path(name).suffix), text.encode())
