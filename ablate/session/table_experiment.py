"""From a table of runs to an experiment with its final metrics: every mistake at once, each at its line."""

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
"""How a run ended that the table has not, or has without any value."""
WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})")
"""A seed that is a number; one of more digits is a name."""
NAN_OF_PANDAS = (
    "a data frame of pandas has NaN for both",
    "name a column that says which runs diverged (diverged=…): NaN in other rows is then an empty cell",
    "or write inf where a run diverged, and leave out the rows without a value",
)
"""How to say what NaN in a data frame stands for."""
YES, NO = ("true", "yes", "1"), ("false", "no", "0", "")
"""What a column that says which runs diverged may say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableQuestion:
    """What is asked of a table: which columns tell variants apart, pair their runs, are judged, say what diverged.

    `metrics` are as `read_metrics` reads them, and `margin` is of those that name none. Without a `baseline` it is the
    first variant of the table. On a `path` each variant is also judged against the one before it.
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
    """What a table gives verdicts to judge, and by which rules."""

    experiment: Experiment
    rules: Judge
    finals: Finals


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A row: the run of a variant at a seed."""

    row: int
    variant: str
    seed: Seed


def read_experiment(table: Table, asked: TableQuestion) -> TableExperiment:
    """The experiment that a table holds; InputError shows every mistake in it, and in what was asked."""
    problems = Problems()
    if not table.rows:
        problems.add(f"{table.name} has no rows", notes=("a row is a run: its variant, its seed, its metrics",))
        problems.raise_if_any()
    columns_there = _check_columns(table, asked, problems)
    metrics = read_metrics(table, asked.metrics, asked.margin, problems)
    if not 0.5 < asked.confidence < 1:
        problems.add(f"a confidence of {asked.confidence:g}", notes=("it is between 0.5 and 1, such as 0.95",))
    if not columns_there:
        problems.raise_if_any()
    runs = _runs(table, asked, problems)
    variants = tuple(dict.fromkeys(run.variant for run in runs))
    _check_variants(table, asked, variants, problems)
    read = {run: _final(table, asked, run, metrics, problems) for run in runs}
    problems.raise_if_any()
    return _experiment(table, asked, metrics, read, variants)


def _check_columns(table: Table, asked: TableQuestion, problems: Problems) -> bool:
    """Whether the columns that tell runs apart are there, once each."""
    wanted = {"--by": asked.by, "--pair": asked.pair}
    for option, column in {**wanted, **({"--diverged": asked.diverged} if asked.diverged else {})}.items():
        if column not in table.columns:
            message = f"{table.name} has no column {quote(column)}"
            problems.add_unknown(message, None, column, table.columns, f"{option} is one of its columns")
        elif table.columns.count(column) > 1:
            problems.add(f"{table.name} has two columns {quote(column)}", notes=("name them differently",))
    if asked.by == asked.pair:
        problems.add(f"--by and --pair are both {quote(asked.by)}", notes=("a variant has several seeds",))
    return len(problems) == 0


def _runs(table: Table, asked: TableQuestion, problems: Problems) -> tuple[_Run, ...]:
    """The run of each row, where it says which it is and no row before it was the same."""
    first: dict[tuple[str, Seed], _Run] = {}
    variants, seeds = map(_name, table.cells(asked.by)), _seeds(table.cells(asked.pair))
    for row, (variant, seed) in enumerate(zip(variants, seeds, strict=True)):
        for column in [*([] if variant else [asked.by]), *([] if seed is not None else [asked.pair])]:
            place = table.place(row, column)
            problems.add(_at(f"no {column}", row, place), place, notes=("every row says whose run it is",))
        if not variant or seed is None:
            continue
        run = _Run(row=row, variant=variant, seed=seed)
        before = first.setdefault((run.variant, run.seed), run)
        if before is not run:
            _repeated(table, asked, before, run, problems)
    return tuple(first.values())


def _repeated(table: Table, asked: TableQuestion, before: _Run, run: _Run, problems: Problems) -> None:
    here, there = table.place(run.row, asked.by), table.place(before.row, asked.by)
    message = f"{asked.by} {run.variant} has {asked.pair} {run.seed} twice"
    if here is None or there is None:
        message += f": rows {before.row + 1} and {run.row + 1}"
    ways = (
        "a row is a run as it ended: of its steps keep the last, such as by --sql "
        f'"SELECT {asked.by}, {asked.pair}, arg_max(loss, step) AS loss FROM rows GROUP BY ALL"',
    )
    also = () if there is None else ((there, "here first"),)
    problems.add(message, here, label="again here", notes=ways, also=also)


def _seeds(cells: Sequence[Any]) -> tuple[Seed | None, ...]:
    """Whole numbers where all are such, as they are written; else names."""
    told = [_name(cell) for cell in cells]
    whole = all(WHOLE.fullmatch(one) for one in told if one)
    return tuple(None if not one else int(one) if whole else one for one in told)


def _name(cell: Any) -> str:
    """A cell as a name: 3.0, as data frames have whole numbers beside missing ones, is 3."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _check_variants(table: Table, asked: TableQuestion, variants: Sequence[str], problems: Problems) -> None:
    if len(variants) == 1:
        ways = ("a verdict compares two or more", f"--by names another column of {', '.join(table.columns)}")
        problems.add(f"{table.name} has one {asked.by} only: {quote(variants[0])}", notes=ways)
    if asked.baseline is not None and variants and asked.baseline not in variants:
        message = f"no {asked.by} {quote(asked.baseline)} in {table.name}"
        problems.add_unknown(message, None, asked.baseline, variants, "--baseline is one of")


def _final(
    table: Table, asked: TableQuestion, run: _Run, metrics: Sequence[TableMetric], problems: Problems
) -> tuple[Final, str]:
    """How a run ended, and what is to be said of that."""
    if asked.diverged and _is_yes(table, asked.diverged, run, problems):
        return Final(status="diverged", step=0, metrics={}), f"{asked.diverged} says so"
    values: dict[str, float] = {}
    for metric in metrics:
        cell, place = table.rows[run.row][table.columns.index(metric.name)], table.place(run.row, metric.name)
        value = number_of(cell)
        about = f"of {asked.by} {run.variant} at {asked.pair} {run.seed}"
        if table.nan_or_empty and isinstance(value, float) and math.isnan(value):
            if asked.diverged is None:  # where a column says which runs diverged, this one has no value
                said = f"{metric.name} {about} is NaN: a run that diverged, or an empty cell?"
                problems.add(_at(said, run.row, place), place, notes=NAN_OF_PANDAS)
            continue
        if isinstance(value, str):
            ways = ("leave the cell empty where there is no value, write nan where the run diverged",)
            problems.add(_at(f"{metric.name} {about} is no number: {quote(value)}", run.row, place), place, notes=ways)
        elif value is not None and math.isfinite(value) and value <= 0 and metric.judged.scale == "log":
            ways = (f"without :log differences of {metric.name} are judged, not ratios",)
            said = f"{metric.name} {about} is {value:g}, and ratios are of numbers above zero"
            problems.add(_at(said, run.row, place), place, notes=ways)
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
    said = _name(cell).lower()
    if said not in (*YES, *NO):
        problems.add(_at(f"{column} is {quote(said)}", run.row, place), place, notes=("it is true or false",))
    return said in YES


def _at(message: str, row: int, place: Span | None) -> str:
    """A message with its row, where no place tells it."""
    return message if place is not None else f"row {row + 1}: {message}"


def _experiment(
    table: Table,
    asked: TableQuestion,
    metrics: Sequence[TableMetric],
    read: Mapping[_Run, tuple[Final, str]],
    variants: tuple[str, ...],
) -> TableExperiment:
    seeds = tuple(sorted({run.seed for run in read}))
    trials = {variant: {seed: json.dumps([variant, seed]) for seed in seeds} for variant in variants}
    finals = {trials[run.variant][run.seed]: final for run, (final, _) in read.items()}
    absent = Final(status=NOT_THERE, step=0, metrics={})
    baseline = asked.baseline if asked.baseline is not None else variants[0]
    order = (baseline, *(variant for variant in variants if variant != baseline)) if asked.path else variants
    experiment = Experiment(
        space=table.name,
        question="",
        design=f"{'path' if asked.path else 'compare'}, variants by {asked.by}, paired by {asked.pair}",
        baseline=baseline,
        variants=tuple(
            Treatment(id=variant, name=variant, edits=order[1 : order.index(variant) + 1] if asked.path else ())
            for variant in order
        ),
        comparisons=tuple(_comparisons(order, baseline, path=asked.path)),
        seeds=seeds,
        trials=trials,
        notes=tuple(_notes(table, asked, read, baseline)),
        elsewhere=True,
    )
    rules = Judge(
        metrics={metric.name: metric.judged for metric in metrics},
        against=baseline,
        confidence=asked.confidence,
        family="page" if asked.page else "metric",
    )
    every = {id: finals.get(id, absent) for of in trials.values() for id in of.values()}
    return TableExperiment(experiment=experiment, rules=rules, finals=every)


def _comparisons(order: Sequence[str], baseline: str, *, path: bool) -> Iterator[Comparison]:
    """Each step of a path, then each variant against the baseline."""
    for before, after in pairwise(order) if path else ():
        yield Comparison(kind="edit", change=f"{before} → {after}", detail="", before=before, after=after)
    for variant in order:
        if variant != baseline:
            yield Comparison(kind="baseline", change=variant, detail="", before=baseline, after=variant)


def _notes(table: Table, asked: TableQuestion, read: Mapping[_Run, tuple[Final, str]], baseline: str) -> Iterator[str]:
    """What was assumed of the table, and what of it is no number."""
    seeds = "" if asked.pair == "seed" else f"; what is told as a seed is its column {asked.pair}"
    yield f"{plural(len(table.rows), 'run')} of {table.name}{seeds}"
    if asked.baseline is None:
        yield f"the baseline is {baseline}, the first in the table; --baseline names another"
    diverged = [(run, why) for run, (final, why) in read.items() if final["status"] == "diverged"]
    lacking = [(run, why) for run, (final, why) in read.items() if final["status"] != "diverged" and why]
    if diverged:
        yield f"counted as diverged: {_told(diverged)}"
    if lacking:
        yield f"counted as missing, the cell being empty: {_told(lacking)}"
    yield (
        "no record is kept of how often a table is judged: who adds the seeds advised and judges again says so by "
        "--judgement 2"
    )


def _told(runs: Sequence[tuple[_Run, str]]) -> str:
    """`a at seeds 1, 2 (loss is nan), b at seed 3 (loss is nan)`."""
    of: dict[str, list[tuple[Seed, str]]] = {}
    for run, why in runs:
        of.setdefault(run.variant, []).append((run.seed, why))
    return listed(
        [f"{name} at {named(seeds)} ({why})" for name, whys in of.items() for why, seeds in by_reason(whys).items()]
    )
