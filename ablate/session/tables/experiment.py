"""The experiment that a table is read as: its variants, the comparisons between them, and the ends of its runs.

Every mistake in the table is reported at once, each at its line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

from ablate.output.words import plural
from ablate.plan.plan import Comparison
from ablate.report.effect_tables import GROUPS
from ablate.session.tables.checks import check_partners, check_ranks, check_variants, has_columns, in_order
from ablate.session.tables.noise import noise_of
from ablate.session.tables.question import TableQuestion, read_metrics
from ablate.session.tables.runs import TableRuns, read_runs
from ablate.session.tables.states import read_states
from ablate.session.tables.strata import ALIKE, check_strata, in_strata
from ablate.source.problems import Problems
from ablate.space.documents import Judge
from ablate.statistics import KnownNoise
from ablate.store.table_files import Table
from ablate.verdict.experiment import Experiment, Treatment
from ablate.verdict.finals import Final, Finals
from ablate.verdict.seeds import Seed

NOT_THERE = "not_in_the_table"
"""The status of a run that is not in the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableExperiment:
    """A table as it is judged: the experiment, the rules of the judge, and the final metrics of each run."""

    experiment: Experiment
    rules: Judge
    finals: Finals


def read_experiment(table: Table, question: TableQuestion, *, judgement: int = 1) -> TableExperiment:
    """Read a table as the experiment that is judged, for the first time or as a later `judgement`; InputError with
    every mistake in it.
    """
    problems = Problems()
    if not table.rows:
        problems.add(f"{table.name} has no rows", notes=("a row is a run: its variant, its seed, its metrics",))
        problems.raise_if_any()
    columns_there = has_columns(table, question, problems)
    metrics = read_metrics(table, question, problems)
    if not 0.5 < question.confidence < 1:
        notes = ("give one between 0.5 and 1, such as 0.95",)
        problems.add(f"the confidence cannot be {question.confidence:g}", notes=notes)
    states = read_states(table, question, problems)
    check_strata(question, metrics, problems)
    if not columns_there:
        problems.raise_if_any()
    runs = read_runs(table, question, metrics, states, problems)
    variants = tuple(dict.fromkeys(run.variant for run in runs.ends))
    check_variants(table, question, variants, problems)
    if question.path and question.groups:
        problems.add("--path and --groups are two designs", notes=("--path judges steps, --groups all pairs",))
    if not len(problems) and question.in_pairs:
        check_partners(table, question, variants, runs, problems)
    if question.ranks and not len(problems):
        check_ranks(question, metrics, variants, runs, judgement, problems)
    strata: Mapping[Seed, str] = {}
    if question.within is not None and not len(problems):
        stratified = in_strata(runs, metrics, question, question.baseline or variants[0])
        runs, strata = stratified.runs, stratified.strata
        if question.inference == ALIKE:  # the strata are partners, whatever their runs are
            question = replace(question, unpaired=False, pair=question.within)
    noise = {} if len(problems) else noise_of(table, question, metrics, runs, problems)
    problems.raise_if_any()
    rules = Judge(
        metrics=metrics,
        against=question.baseline or variants[0],
        confidence=question.confidence,
        family=question.family,
    )
    experiment, finals = _experiment(table, question, runs, variants, noise, strata)
    return TableExperiment(experiment=experiment, rules=rules, finals=finals)


def _experiment(
    table: Table,
    question: TableQuestion,
    runs: TableRuns,
    variants: tuple[str, ...],
    noise: Mapping[str, KnownNoise],
    strata: Mapping[Seed, str],
) -> tuple[Experiment, Finals]:
    seeds = tuple(sorted({run.seed for run in runs.ends}))
    trials: dict[str, dict[Seed, str]] = {
        variant: {} if not question.in_pairs else {seed: json.dumps([variant, seed]) for seed in seeds}
        for variant in variants
    }
    for run in runs.ends:
        trials[run.variant][run.seed] = json.dumps([run.variant, run.seed])
    absent: Final = {"status": NOT_THERE, "step": 0, "metrics": {}}
    finals = {id: absent for of in trials.values() for id in of.values()}
    finals |= {trials[run.variant][run.seed]: end.final for run, end in runs.ends.items()}
    order = in_order(question, variants) if question.path else variants
    experiment = Experiment(
        space=table.name,
        question="",
        design=f"{_design(question)}, variants by {question.by}, {_unit(question)}",
        baseline=question.baseline or variants[0],
        variants=tuple(
            Treatment(id=variant, name=variant, edits=order[1 : order.index(variant) + 1] if question.path else ())
            for variant in order
        ),
        comparisons=tuple(_comparisons(order, question.baseline or variants[0], question)),
        seeds=seeds,
        trials=trials,
        notes=tuple(_notes(table, question, runs, variants[0])),
        elsewhere=True,
        noise=noise,
        strata=strata,
        by_ranks=question.ranks,
    )
    return experiment, finals


def _unit(question: TableQuestion) -> str:
    """Return by what variants are compared."""
    if question.inference == ALIKE:
        return f"paired by {question.within}"
    paired = f"paired by {question.pair}" if question.in_pairs else "not paired"
    return paired if question.within is None else f"{paired}, within each {question.within}"


def _design(question: TableQuestion) -> str:
    return "path" if question.path else GROUPS if question.groups else "compare"


def _comparisons(order: Sequence[str], baseline: str, question: TableQuestion) -> Iterator[Comparison]:
    unpaired = () if question.in_pairs else ("runs without partners",)
    others = [variant for variant in order if variant != baseline]
    for before, after in pairwise(order) if question.path else ():
        change = f"{before} → {after}"
        yield Comparison(kind="edit", change=change, detail="", before=before, after=after, unpaired=unpaired)
    for variant in others:
        yield Comparison(kind="baseline", change=variant, detail="", before=baseline, after=variant, unpaired=unpaired)
    for before, after in combinations(others, 2) if question.groups else ():
        change = f"{after} against {before}"
        yield Comparison(kind="edit", change=change, detail="", before=before, after=after, unpaired=unpaired)


def _notes(table: Table, question: TableQuestion, runs: TableRuns, first: str) -> Iterator[str]:
    there = question.pair in table.columns
    seeds = f"; its column {question.pair} is called seed here" if there and question.pair != "seed" else ""
    rows = "" if len(runs.ends) == len(table.rows) else f", in {plural(len(table.rows), 'row')}"
    many = plural(len(runs.ends), "run")
    if question.inference == ALIKE:
        many = f"{len(runs.ends):,} means, of a variant in a {question.within} each,"
    yield f"{many} of {table.name}{rows}{seeds}"
    if question.baseline is None:
        yield f"the baseline is {first}, the first in the table; --baseline names another"
    yield from runs.notes
