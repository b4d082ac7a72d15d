"""From a table of runs to an experiment with its final metrics: every mistake is reported at once, each at its line."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ablate.output.words import listed, plural
from ablate.plan.plan import Comparison
from ablate.session.table_metrics import TableMetric, number_of, read_metrics
from ablate.source.located import Span
from ablate.source.problems import Problems, quote
from ablate.space.documents import Judge
from ablate.store.table_files import Table
from ablate.verdict.experiment import Experiment, Treatment
from ablate.verdict.finals import Final, Finals
from ablate.verdict.seeds import Seed, by_reason, named

NOT_THERE, NO_VALUE = "not_in_the_table", "without_a_value"
"""The status of a run that is not in the table, or has no value there."""
WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})")
"""A seed that is a number; one with more digits is a name."""
NAN_OF_PANDAS = (
    "a pandas data frame has NaN for both",
    "name a column that says which runs diverged (diverged=…): NaN in other rows is then an empty cell",
    "or write inf where a run diverged, and leave out the rows without a value",
)
"""The ways to say what NaN in a data frame means."""
YES, NO = ("true", "yes", "1"), ("false", "no", "0", "")
"""The allowed values of a column that says which runs diverged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableQuestion:
    """A question to a table: which columns name variants, pair their runs, are judged, and say which runs diverged.

    `metrics` are as `read_metrics` reads them, and `margin` is for those without one. The default `baseline` is the
    first variant in the table. On a `path` each variant is also judged against the one before it.
    """

    metrics: tuple[str, ...]
    by: str = "variant"
    pair: str = "seed"
    margin: str = "none"
    baseline: str | None = None
    confidence: float = 0.95
    page: bool = False
    path: bool = False
    diverged: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableExperiment:
    """The experiment of a table, with its final metrics and the rules by which to judge it."""

    experiment: Experiment
    rules: Judge
    finals: Finals


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A row: the run of a variant at a seed."""

    row: int
    variant: str
    seed: Seed


def read_experiment(table: Table, question: TableQuestion) -> TableExperiment:
    """Read the experiment in a table; InputError shows every mistake in the table and in the question."""
    problems = Problems()
    if not table.rows:
        problems.add(f"{table.name} has no rows", notes=("a row is a run: its variant, its seed, its metrics",))
        problems.raise_if_any()
    columns_there = _check_columns(table, question, problems)
    metrics = read_metrics(table, question.metrics, question.margin, problems)
    if not 0.5 < question.confidence < 1:
        notes = ("give one between 0.5 and 1, such as 0.95",)
        problems.add(f"the confidence cannot be {question.confidence:g}", notes=notes)
    if not columns_there:
        problems.raise_if_any()
    runs = _runs(table, question, problems)
    variants = tuple(dict.fromkeys(run.variant for run in runs))
    _check_variants(table, question, variants, problems)
    read = {run: _final(table, question, run, metrics, problems) for run in runs}
    problems.raise_if_any()
    return _experiment(table, question, metrics, read, variants)


def _check_columns(table: Table, question: TableQuestion, problems: Problems) -> bool:
    """Check that the columns that identify runs exist, once each; return whether they do."""
    wanted = {"--by": question.by, "--pair": question.pair}
    for option, column in {**wanted, **({"--diverged": question.diverged} if question.diverged else {})}.items():
        if column not in table.columns:
            message = f"{table.name} has no column {quote(column)}"
            problems.add_unknown(message, None, column, table.columns, f"{option} is one of its columns")
        elif table.columns.count(column) > 1:
            problems.add(f"{table.name} has two columns {quote(column)}", notes=("name them differently",))
    if question.by == question.pair:
        problems.add(f"--by and --pair are both {quote(question.by)}", notes=("a variant has several seeds",))
    return len(problems) == 0


def _runs(table: Table, question: TableQuestion, problems: Problems) -> tuple[_Run, ...]:
    """Read the run of each row; note rows without a variant or seed, and rows that repeat a run."""
    first: dict[tuple[str, Seed], _Run] = {}
    variants, seeds = map(_name, table.cells(question.by)), _seeds(table.cells(question.pair))
    for row, (variant, seed) in enumerate(zip(variants, seeds, strict=True)):
        for column in [*([] if variant else [question.by]), *([] if seed is not None else [question.pair])]:
            place = table.place(row, column)
            problems.add(_at(f"no {column}", row, place), place, notes=("every row must say which run it is",))
        if not variant or seed is None:
            continue
        run = _Run(row=row, variant=variant, seed=seed)
        before = first.setdefault((run.variant, run.seed), run)
        if before is not run:
            _repeated(table, question, before, run, problems)
    return tuple(first.values())


def _repeated(table: Table, question: TableQuestion, before: _Run, run: _Run, problems: Problems) -> None:
    here, there = table.place(run.row, question.by), table.place(before.row, question.by)
    message = f"{question.by} {run.variant} has {question.pair} {run.seed} twice"
    if here is None or there is None:
        message += f": rows {before.row + 1} and {run.row + 1}"
    ways = (
        "a row is a run at its end: of its steps keep the last, for example by --sql "
        f'"SELECT {question.by}, {question.pair}, arg_max(loss, step) AS loss FROM rows GROUP BY ALL"',
    )
    also = () if there is None else ((there, "here first"),)
    problems.add(message, here, label="again here", notes=ways, also=also)


def _seeds(cells: Sequence[Any]) -> tuple[Seed | None, ...]:
    """Read seeds as whole numbers if all of them are, else as names; None for an empty cell."""
    names = [_name(cell) for cell in cells]
    whole = all(WHOLE.fullmatch(name) for name in names if name)
    return tuple(None if not name else int(name) if whole else name for name in names)


def _name(cell: Any) -> str:
    """Return a cell as a name: 3.0 is 3, since data frames with missing cells have whole numbers as floats."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _check_variants(table: Table, question: TableQuestion, variants: Sequence[str], problems: Problems) -> None:
    if len(variants) == 1:
        ways = ("a verdict compares two or more", f"--by names another column of {', '.join(table.columns)}")
        problems.add(f"{table.name} has only one {question.by}: {quote(variants[0])}", notes=ways)
    if question.baseline is not None and variants and question.baseline not in variants:
        message = f"no {question.by} {quote(question.baseline)} in {table.name}"
        problems.add_unknown(message, None, question.baseline, variants, "--baseline is one of")


def _final(
    table: Table, question: TableQuestion, run: _Run, metrics: Sequence[TableMetric], problems: Problems
) -> tuple[Final, str]:
    """Return how a run ended, and the reason if it diverged or lacks a value."""
    if question.diverged and _is_yes(table, question.diverged, run, problems):
        return Final(status="diverged", step=0, metrics={}), f"{question.diverged} says so"
    values: dict[str, float] = {}
    for metric in metrics:
        cell, place = table.rows[run.row][table.columns.index(metric.name)], table.place(run.row, metric.name)
        value = number_of(cell)
        about = f"of {question.by} {run.variant} at {question.pair} {run.seed}"
        if table.nan_or_empty and isinstance(value, float) and math.isnan(value):
            if question.diverged is None:  # else that column says which runs diverged, and NaN is an empty cell
                message = f"{metric.name} {about} is NaN: a run that diverged, or an empty cell?"
                problems.add(_at(message, run.row, place), place, notes=NAN_OF_PANDAS)
            continue
        if isinstance(value, str):
            ways = ("leave the cell empty where there is no value, write nan where the run diverged",)
            message = f"{metric.name} {about} is not a number: {quote(value)}"
            problems.add(_at(message, run.row, place), place, notes=ways)
        elif value is not None and math.isfinite(value) and value <= 0 and metric.judged.scale == "log":
            ways = (f"without :log, differences of {metric.name} are judged, not ratios",)
            message = f"{metric.name} {about} is {value:g}, and ratios need numbers above zero"
            problems.add(_at(message, run.row, place), place, notes=ways)
        elif value is not None:
            values[metric.name] = value
    wild = [f"{name} is {value:g}" for name, value in values.items() if not math.isfinite(value)]
    if wild:
        return Final(status="diverged", step=0, metrics={}), ", ".join(wild)
    lacking = [metric.name for metric in metrics if metric.name not in values]
    if len(lacking) == len(metrics):
        return Final(status=NO_VALUE, step=0, metrics={}), f"no {' and no '.join(lacking)}"
    return Final(status="finished", step=0, metrics=values), f"no {' and no '.join(lacking)}" if lacking else ""


def _is_yes(table: Table, column: str, run: _Run, problems: Problems) -> bool:
    cell, place = table.rows[run.row][table.columns.index(column)], table.place(run.row, column)
    word = _name(cell).lower()
    if word not in (*YES, *NO):
        problems.add(_at(f"{column} is {quote(word)}", run.row, place), place, notes=("it must be true or false",))
    return word in YES


def _at(message: str, row: int, place: Span | None) -> str:
    """Return a message with its row, unless a place shows it."""
    return message if place is not None else f"row {row + 1}: {message}"


def _experiment(
    table: Table,
    question: TableQuestion,
    metrics: Sequence[TableMetric],
    read: Mapping[_Run, tuple[Final, str]],
    variants: tuple[str, ...],
) -> TableExperiment:
    seeds = tuple(sorted({run.seed for run in read}))
    trials = {variant: {seed: json.dumps([variant, seed]) for seed in seeds} for variant in variants}
    finals = {trials[run.variant][run.seed]: final for run, (final, _) in read.items()}
    absent = Final(status=NOT_THERE, step=0, metrics={})
    baseline = question.baseline if question.baseline is not None else variants[0]
    order = (baseline, *(variant for variant in variants if variant != baseline)) if question.path else variants
    experiment = Experiment(
        space=table.name,
        question="",
        design=f"{'path' if question.path else 'compare'}, variants by {question.by}, paired by {question.pair}",
        baseline=baseline,
        variants=tuple(
            Treatment(id=variant, name=variant, edits=order[1 : order.index(variant) + 1] if question.path else ())
            for variant in order
        ),
        comparisons=tuple(_comparisons(order, baseline, path=question.path)),
        seeds=seeds,
        trials=trials,
        notes=tuple(_notes(table, question, read, baseline)),
        elsewhere=True,
    )
    rules = Judge(
        metrics={metric.name: metric.judged for metric in metrics},
        against=baseline,
        confidence=question.confidence,
        family="page" if question.page else "metric",
    )
    every = {id: finals.get(id, absent) for of in trials.values() for id in of.values()}
    return TableExperiment(experiment=experiment, rules=rules, finals=every)


def _comparisons(order: Sequence[str], baseline: str, *, path: bool) -> Iterator[Comparison]:
    """Yield each step of a path, then each variant against the baseline."""
    for before, after in pairwise(order) if path else ():
        yield Comparison(kind="edit", change=f"{before} → {after}", detail="", before=before, after=after)
    for variant in order:
        if variant != baseline:
            yield Comparison(kind="baseline", change=variant, detail="", before=baseline, after=variant)


def _notes(
    table: Table, question: TableQuestion, read: Mapping[_Run, tuple[Final, str]], baseline: str
) -> Iterator[str]:
    """Yield what was assumed about the table, and which runs have no value."""
    seeds = "" if question.pair == "seed" else f"; its column {question.pair} is called seed here"
    yield f"{plural(len(table.rows), 'run')} of {table.name}{seeds}"
    if question.baseline is None:
        yield f"the baseline is {baseline}, the first in the table; --baseline names another"
    diverged = [(run, why) for run, (final, why) in read.items() if final["status"] == "diverged"]
    lacking = [(run, why) for run, (final, why) in read.items() if final["status"] != "diverged" and why]
    if diverged:
        yield f"counted as diverged: {_told(diverged)}"
    if lacking:
        yield f"counted as missing, because the cell is empty: {_told(lacking)}"
    yield (
        "no record is kept of how often a table is judged: to judge it again with more seeds as advised, add "
        "--judgement 2"
    )


def _told(runs: Sequence[tuple[_Run, str]]) -> str:
    """List runs by variant and reason: `a at seeds 1, 2 (loss is nan), b at seed 3 (loss is nan)`."""
    of: dict[str, list[tuple[Seed, str]]] = {}
    for run, why in runs:
        of.setdefault(run.variant, []).append((run.seed, why))
    return listed(
        [f"{name} at {named(seeds)} ({why})" for name, whys in of.items() for why, seeds in by_reason(whys).items()]
    )
