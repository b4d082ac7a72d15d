"""What a search has found, from its jobs to the record that is shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from ablate.block.printer import print_block
from ablate.execute.search.budget import SearchSpending
from ablate.execute.search.result import JobOutcome
from ablate.execute.search.search import BlockSearch, Job
from ablate.execute.search.search_space import VETO
from ablate.execute.search.source import SearchSource
from ablate.grammar.grammar import Grammar
from ablate.report.searched.record import Entry, Objective, RungCorrelation, SearchRecord
from ablate.session.planned import Planned
from ablate.space.design import Budget, Pruner
from ablate.space.fair import text_of
from ablate.space.space import Space
from ablate.store import requests
from ablate.store.requests import Request
from ablate.verdict.summary import Summary


def record(
    planned: Planned,
    source: SearchSource,
    confirmed: Summary | None,
    definitions: Mapping[str, str],
    versions: Mapping[str, str],
    request: Request,
    results: Path,
) -> SearchRecord:
    """Return the record of a search, finished or so far; `versions` gives what each ended trial ran with."""
    space, search = planned.space, source.search
    design = space.design.search
    assert design is not None
    refused = search.refused
    return SearchRecord(
        space=space.name,
        question=space.question,
        grammar=_derived_from(space.grammar, design.start),
        derivations=space.grammar.count,
        reference=design.from_,
        objectives=tuple(_objectives(space, definitions)),
        sampler=str(design.sampler),
        seed=design.seed,
        parallel=design.parallel,
        seeds=space.seeds,
        pruner=design.pruner.described() if isinstance(design.pruner, Pruner) else "none",
        budget=design.budget.described(),
        spent=_spent(design.budget, search.spent),
        why_over=search.why_over,
        entries=tuple(_entries(source, space.grammar, versions)),
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
        correlations=tuple(
            RungCorrelation(lower=c.lower, upper=c.upper, n=c.n, objective=c.objective, spearman=c.spearman)
            for c in search.correlations()
        ),
        confirmed=confirmed,
        chosen=source.chosen,
        confirm_seeds=source.confirm_seeds,
        partial=not source.done,
        again=requests.command(request, results),
        definitions=definitions,
        varied=tuple(factor.described for factor in design.vary.factors),
    )


def _derived_from(grammar: Grammar, start: str | None) -> str:
    """Return the grammar's name, with the start if it is not the first."""
    return grammar.name if start in (None, *tuple(grammar.starts)[:1]) else f"{grammar.name} from {start}"


def _objectives(space: Space, definitions: Mapping[str, str]) -> Iterator[Objective]:
    search = space.design.search
    assert search is not None
    for metric, goal in search.objective.items():
        judged = space.judge.metrics.get(metric)
        log = judged is not None and judged.scale == "log"
        yield Objective(metric=metric, goal=goal, definition=definitions.get(metric, "as measured"), log=log)


def _entries(source: SearchSource, grammar: Grammar, versions: Mapping[str, str]) -> Iterator[Entry]:
    """Yield the reference, and the blocks that have a first result, in the order in which they were begun."""
    search = source.search
    repeats = [proposed.mark for proposed in search.proposed if proposed.same_as is not None]
    jobs = sorted(search.jobs, key=lambda job: source.blocks[job.mark].jobs[0] if job.mark in source.blocks else -1)
    number = 0
    for mark, group in groupby(jobs, key=lambda job: job.mark):
        of_block = list(group)
        told = [job for job in of_block if search.came(job.number) is not None]
        if told or of_block[0].k is None:  # the reference is number 0, though others may have ended before it
            entry = _entry(number, told or of_block[:1], source, grammar)
            ran_with = {versions[trial.id] for trial in source.blocks[mark].trials if trial.id in versions}
            yield replace(entry, repeats=repeats.count(mark), versions=" ".join(sorted(ran_with)))
            number += 1


def _entry(number: int, jobs: list[Job], source: SearchSource, grammar: Grammar) -> Entry:
    search: BlockSearch = source.search
    last, block = jobs[-1], source.blocks[jobs[-1].mark]
    came = search.came(last.number) or JobOutcome("interrupted")
    edits = () if block.joined is None else block.joined.edits
    return Entry(
        number=number,
        name=block.variant.name,
        variant=block.variant.id,
        edits=tuple(edit.name for edit in edits),
        details=tuple(edit.detail for edit in edits),
        block=print_block(block.variant.block, grammar.catalogue, grammar.defaults),
        outcome="pruned" if came.outcome == "paused" and source.confirming else came.outcome,
        values=came.values,
        until=last.until if came.outcome == "paused" else None,
        parameters=block.variant.parameters,
        flops=block.variant.flops,
        seconds=sum(ended.seconds for job in jobs if (ended := search.came(job.number)) is not None),
        repeats=0,
        around=tuple((address, text_of(value)) for address, value in block.variant.setting.changes),
    )


def _spent(budget: Budget, spent: SearchSpending) -> str:
    match budget.kind:
        case "trials":
            return f"{spent.trials:,} trials"
        case "hours":
            return f"{spent.seconds / 3600:.3g} hours of training"
        case _:
            return f"{spent.flops:.4g} FLOPs of training"
