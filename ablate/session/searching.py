"""A run of a search: proposed, trained, confirmed, and what was found as one record."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ablate.plan.models import Models
from ablate.plan.plan import Plan
from ablate.plan.proposals import most_trials
from ablate.session.answer import Begun, Run
from ablate.session.listed import documents, failures, meanings
from ablate.session.planning import Planned
from ablate.space.design import Pruner

if TYPE_CHECKING:
    from ablate.execute.controller import Ended
    from ablate.execute.search.source import Past, SearchSource
    from ablate.execute.search.zero_cost import Batch
    from ablate.report.finals import Finals
    from ablate.report.summary import Summary
    from ablate.space.space import Space
    from ablate.store.describe import Documents
    from ablate.store.requests import Request
    from ablate.store.results import Results

PAGES = "pages"
"""Where in a results folder the pages of searches are."""


@dataclass(frozen=True)
class _Searching:
    """A search that has begun."""

    planned: Planned
    source: SearchSource
    store: Results
    kept: Documents
    request: Request

    def found(self, ended: Ended) -> Run:
        """What it has come to; written to its page."""
        from ablate.session.searched import record

        plan = self.source.kept_plan()
        self.store.refresh()
        summary = self._confirmed(plan)
        definitions = meanings(self.kept)
        finals = self.store.finals([trial.id for trial in plan.trials])
        versions = {id: str(final["versions"]) for id, final in finals.items()}
        searched = record(self.planned, self.source, summary, definitions, versions, self.request, self.store.folder)
        page = self.store.folder / PAGES / f"{plan.space}.html"
        failed, folder = failures(plan, self.store), self.store.folder.absolute()
        done = Run(plan, ended, failed, summary, definitions, folder, searched, page)
        _write(page, done)
        return done

    def _confirmed(self, plan: Plan) -> Summary | None:
        """The chosen blocks beside the reference, judged at the seeds that the search has not seen, and so recorded."""
        from ablate.report.verdicts import judge
        from ablate.session.judging import account_of, judgements

        fresh = self.source.confirmation(plan)
        if fresh is None or self.source.confirm_left:
            return None
        finals = cast("Finals", self.store.finals([trial.id for trial in fresh.trials]))
        rules = self.planned.space.judge
        account = account_of(fresh, rules, self.store.folder, finals)
        summary = judge(fresh, rules, finals, account)
        self.store.record_questions(judgements(summary, fresh, rules, account, finals))
        return summary


def begin_search(planned: Planned, store: Results, request: Request, *, fresh: bool, limit: float | None) -> Begun:
    """Keep the plan of the reference; hand out what the search asks for, and let the plan grow with it."""
    from ablate.execute.search.choose import proposer_for
    from ablate.execute.search.ground import space_ground
    from ablate.execute.search.rungs import ladder_of
    from ablate.execute.search.search import Search
    from ablate.execute.search.source import SearchSource

    space = planned.space
    asked = space.design.search
    assert asked is not None
    tokens = _first_batch(space, store.folder)
    ground = space_ground(space, vocab_size=planned.corpus.vocab_size, repetition=planned.repetition, tokens=tokens)
    steps, every = space.recipe.steps, space.measure.evaluation.every
    search = Search(
        ground,
        proposer_for(asked, ground),
        reference=space.blocks[asked.from_],
        goals=tuple(asked.objective.values()),
        budget=asked.budget,
        parallel=asked.parallel,
        steps=steps,
        seeds=len(space.seeds),
        ladder=ladder_of(asked.pruner, steps, every) if isinstance(asked.pruner, Pruner) else None,
    )
    kept = documents(planned, store, train=True)
    past = _past(store.plan(space.name), kept)
    source = SearchSource(
        search,
        Models(space, planned.corpus.vocab_size, planned.corpus.fingerprint, planned.repetition),
        planned.plan,
        store,
        keep=lambda plan: store.record_plan(plan, kept),
        past=past,
        anew=fresh,
        limit=limit,
    )
    most = most_trials(space)
    total = None if most is None else max(0, most - (0 if fresh else len(past.trials & store.outcomes().keys())))
    search.rehearse()
    return Begun(source, total, _Searching(planned, source, store, kept, request).found)


def _past(plan: Mapping[str, Any], kept: Documents) -> Past:
    """What is kept of this search; nothing of one that asked another question under the same name."""
    from ablate.execute.search.source import Past
    from ablate.store.lines import compact

    if plan.get("design") != "search" or plan["resolved"] != json.loads(compact(kept.resolved)):
        return Past()
    derivations = {int(one["k"]): int(one["derivation"]) for one in plan["proposals"]}
    return Past(frozenset(str(trial_id) for trial_id, *_ in plan["trials"]), derivations)


def _first_batch(space: Space, folder: Path) -> Callable[[], Batch]:
    """The first training batch of the space's first seed, read where a start is to be measured."""

    def read() -> Batch:
        from ablate.data.batches import Batches
        from ablate.data.streams import prepare
        from ablate.execute.task import cache_of

        streams = prepare(space.data, space.folder, cache_of(folder))
        return Batches(streams.train, space.model.context, space.recipe.batch, space.seeds[0]).at(0)

    return read


def _write(page: Path, done: Run) -> None:
    from ablate.store.durable import write_whole, writing

    with writing(page.parent):
        page.parent.mkdir(exist_ok=True)
    for name, text in done.report().items():
        write_whole(page.with_suffix(Path(name).suffix), text.encode())
