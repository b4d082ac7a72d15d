"""The steps of runs in a table: which column counts them, and which of them is judged.

A run whose number is logged at every step has a row for each. Which one is judged is never chosen in silence: a log
without `--at` is one mistake, and so is a step that is missing or stands twice.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ablate.output.words import listed, plural
from ablate.session.tables.cells import name_of, number_of
from ablate.session.tables.question import TableQuestion, is_once
from ablate.source.problems import Problems, quote
from ablate.space.documents import Judged
from ablate.store.run_logs import RUN
from ablate.store.table_files import Table
from ablate.verdict.seeds import Seed

STEPS = (
    *("step", "steps", "_step", "global_step", "train_step", "trainer/global_step", "iteration", "iterations", "iter"),
    *("epoch", "epochs", "tokens"),
)
"""The names of columns that count the steps of a run."""
AT = re.compile(r"last|best|mean:([1-9]\d{0,8})")
FEW = 3
"""Rows of a variant with so many different steps look like one run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRun:
    """A run: the variant, its seed, and its rows, in the order of steps where it has several."""

    variant: str
    seed: Seed
    rows: tuple[int, ...]


def run_column(table: Table, question: TableQuestion) -> str | None:
    """Return the column that tells the runs of a variant apart; None where each row is a run.

    It is that of seeds, or without one that of names of runs.
    """
    return next((column for column in (question.pair, RUN) if column in table.columns), None)


def read_steps(
    table: Table,
    question: TableQuestion,
    metrics: Mapping[str, Judged],
    rows: Mapping[tuple[str, Seed], list[int]],
    problems: Problems,
) -> tuple[str | None, list[TableRun]]:
    """Return the column of steps, if the rows of runs are steps, and the runs; what cannot be judged is noted."""
    columns = _columns(table, question, problems)
    repeated = {run: of for run, of in rows.items() if len(of) > 1}
    varying = [column for column in columns if any(_differ(table, column, of) for of in repeated.values())]
    steps = varying[0] if varying else None
    if question.at is not None and not AT.fullmatch(question.at):
        way = "--at is last, best, or mean:k, such as mean:5"
        problems.add(f"{quote(question.at)} is no step of a run", notes=(way,))
    elif run_column(table, question) is None and (problem := _as_one_run(table, question, columns)):
        ways = ("--pair names the column that tells runs apart", "or leave out the column of steps, by --sql")
        problems.add(problem, notes=ways)
    elif question.at is not None and steps is None:
        why = "no run has several rows" if not repeated else "no column counts the steps of a run"
        known = f": {', '.join(columns)}" if repeated and columns else ""
        way = "--step names the column that does, with a number for each row" if repeated else "leave out --at"
        problems.add(f"--at {question.at}: {why}{known}", notes=(way,))
    elif steps is not None and (bad := list(_bad(table, steps, repeated))):
        for message, row in bad[:1]:
            ways = (f"each row of a run has a {steps} of its own", "keep one of them, for example by --sql")
            problems.add(message, table.place(row, steps), notes=ways)
    elif question.at is None and steps is not None:
        _add_log(table, question, metrics, list(repeated.values()), steps, problems)
    elif question.at == "best":
        for name in (name for name, judged in metrics.items() if judged.better == "none"):
            ways = (f"--metric {name}:lower or {name}:higher says which side is", "or judge --at last")
            problems.add(f"--at best: neither side of {name} is better", notes=ways)
    order = _order(table, steps) if steps is not None else {}
    runs = (
        TableRun(variant=variant, seed=seed, rows=tuple(sorted(of, key=lambda row: order.get(row, 0.0))))
        for (variant, seed), of in rows.items()
    )
    return steps, list(runs)


def step_notes(table: Table, steps: str, runs: Sequence[TableRun], question: TableQuestion) -> Iterator[str]:
    """Tell which step is judged, and where runs end at others or have fewer than are averaged."""
    which, _, last = (question.at or "last").partition(":")
    yield f"judged at the {f'mean of the last {last}' if last else which} of each run by {steps}"
    order, ends = _order(table, steps), dict[str, list[float]]()
    for run in runs:
        ends.setdefault(run.variant, []).append(order.get(run.rows[-1], 0.0))
    if len({step for of in ends.values() for step in of}) > 1:
        ranges = (
            f"{name} {min(of):g}" + (f" to {max(of):g}" if min(of) < max(of) else "") for name, of in ends.items()
        )
        yield f"runs end at other steps: {', '.join(ranges)}"
    short = [f"{run.variant} {run.seed} ({len(run.rows)})" for run in runs if last and len(run.rows) < int(last)]
    if short:
        yield f"the mean is of all rows where there are fewer than {last}: {listed(short)}"


def _columns(table: Table, question: TableQuestion, problems: Problems) -> list[str]:
    if question.step is None:
        return [column for column in table.columns if column.lower() in STEPS]
    return [question.step] if is_once(table, question.step, "--step", problems) else []


def _differ(table: Table, column: str, rows: Sequence[int]) -> bool:
    """Return whether the rows of a run have more than one value in a column."""
    cells = table.cells(column)
    return len({name_of(cells[row]) for row in rows}) > 1


def _as_one_run(table: Table, question: TableQuestion, columns: Sequence[str]) -> str:
    """Return that rows look like steps of one run where each is taken for a run of its own; empty if they do not."""
    if question.at is not None or question.step is not None:
        return f"no column tells the runs of a {question.by} apart, whose steps are asked for"
    names = [name_of(cell) for cell in table.cells(question.by)]
    for column in columns:
        cells = table.cells(column)
        for name in dict.fromkeys(names):
            values = [name_of(cells[row]) for row, other in enumerate(names) if other == name]
            if len(set(values)) >= FEW and len(set(values)) == len(values):
                return f"rows of {name} look like steps of a run, by {column}, and no column tells its runs apart"
    return ""


def _bad(table: Table, steps: str, repeated: Mapping[tuple[str, Seed], Sequence[int]]) -> Iterator[tuple[str, int]]:
    """Yield each step that is no number, or stands twice in a run, with its row."""
    cells = table.cells(steps)
    for (variant, seed), rows in repeated.items():
        seen: set[float] = set()
        for row in rows:
            number = number_of(cells[row])
            if not isinstance(number, float) or not math.isfinite(number):
                yield f"row {row + 1}, of {variant} at {seed}: {steps} is {quote(name_of(cells[row]) or 'empty')}", row
            elif number in seen:
                yield f"row {row + 1}: {steps} {number:g} stands twice in {variant} at {seed}", row
            else:
                seen.add(number)


def _order(table: Table, steps: str) -> dict[int, float]:
    numbers = ((row, number_of(cell)) for row, cell in enumerate(table.cells(steps)))
    return {row: number for row, number in numbers if isinstance(number, float)}


def _add_log(
    table: Table,
    question: TableQuestion,
    metrics: Mapping[str, Judged],
    repeated: Sequence[Sequence[int]],
    steps: str,
    problems: Problems,
) -> None:
    """Note once that rows are steps, with the ways to choose one, in the table's own names."""
    more, lengths = sum(len(rows) - 1 for rows in repeated), sorted({len(rows) for rows in repeated})
    long = f"{lengths[0]:,}" if len(lengths) == 1 else f"{lengths[0]:,} to {lengths[-1]:,}"
    message = (
        f"{more:,} of {len(table.rows):,} rows repeat a run: {plural(len(repeated), 'run')} of {long} rows, which "
        f"{steps} tells apart"
    )
    ways = [f"--at last judges each run at its last {steps}; --at best and --at mean:5 are others"]
    place = table.place(repeated[0][1], steps)
    if place is not None:  # a file that SQL can read as it is
        here = (question.by, *([column] if (column := run_column(table, question)) is not None else []))
        last = ", ".join(f"arg_max({_quoted(name)}, {_quoted(steps)}) AS {_quoted(name)}" for name in metrics)
        sql = f"SELECT {', '.join(map(_quoted, here))}, {last} FROM rows GROUP BY ALL"
        ways.append(f"or --sql {shlex.quote(sql)}")
    problems.add(message, place, label="again here" if place is not None else "", notes=ways)


def _quoted(name: str) -> str:
    """Return the name of a column as SQL has it."""
    return '"' + name.replace('"', '""') + '"'
