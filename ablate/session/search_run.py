"""A run of a search: proposed, trained, confirmed, and what was found as one record and its page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from ablate.block.printer import print_block
from ablate.data.streams import prepare
from ablate.execute.controller import EndCounts
from ablate.execute.search.choose import proposer_for
from ablate.execute.search.result import JobOutcome
from ablate.execute.search.rungs import ladder_of
from ablate.execute.search.search import BlockSearch
from ablate.execute.search.search_space import VETO, space_ground
from ablate.execute.search.source import Past, SearchSource
from ablate.execute.task import cache_of
from ablate.grammar.grammar import Grammar
from ablate.plan.plan import Plan
from ablate.plan.proposals import most_trials
from ablate.report.searched.record import Entry, Objective, RungCorrelation, SearchRecord
from ablate.session import judging
from ablate.session.kept_question import page_of
from ablate.session.planning import Planned, meanings_in, mixed_versions
from ablate.session.run_result import Run
from ablate.session.staged_run import documents, failures
from ablate.space.design import Pruner
from ablate.space.fair import text_of
from ablate.space.space import Space
from ablate.store import requests
from ablate.store.checksummed_lines import compact
from ablate.store.durable import write_whole, writing
from ablate.store.record_chain import chain
from ablate.store.requests import Request
from ablate.store.results import Results
from ablate.store.snapshot import Snapshot
from ablate.verdict.summary import Summary

if TYPE_CHECKING:
    from ablate.data.batch import Batch


class SearchRun:
    """A run that hands out the reference and what the search proposes, then the trials that confirm the best blocks.

    `limit` is the time limit of a trial in seconds. With `fresh`, what the store knows of this search is ignored. Its
    `source` hands out its trials.
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
                Objective(
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
            correlations=tuple(RungCorrelation(**asdict(each)) for each in search.correlations()),
            confirmed=confirmed,
            chosen=source.chosen,
            confirm_seeds=source.confirm_seeds,
            partial=not source.done,
            again=requests.command(self._request, self._store.folder),
            definitions=definitions,
            mixed=mixed_versions(plan, now),
            head="" if kept is None else chain(now, kept)[-1].head,
            varied=tuple(factor.described for factor in design.vary.factors),
        )


def _first_batch(space: Space, folder: Path) -> Batch:
    """Return the first training batch of the first seed, for vetoes measured at initialisation."""
    from ablate.execute.drawing import drawing_of  # loads torch, which other searches do not need

    streams = prepare(space.data, space.folder, cache_of(folder), space.grammar.catalogue)
    sizes, seed = space.sizes(streams.vocab_size), space.seeds[0]
    return drawing_of(streams, space.objective_spec, space.objective, sizes, space.recipe, seed).at(0)


def _entries(source: SearchSource, grammar: Grammar, versions: Mapping[str, str]) -> Iterator[Entry]:
    """Yield the reference, and the blocks that have a first result, in the order in which they were begun."""
    search, number = source.search, 0
    repeats = Counter(proposed.mark for proposed in search.proposed if proposed.same_as is not None)
    begun = sorted(search.jobs, key=lambda job: source.blocks[job.mark].jobs[0] if job.mark in source.blocks else -1)
    for mark, group in groupby(begun, key=lambda job: job.mark):
        of_block = list(group)
        told = [job for job in of_block if search.came(job.number) is not None]
        if not told and of_block[0].k is not None:  # the reference is number 0, though others may have ended before it
            continue
        jobs = told or of_block[:1]
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
