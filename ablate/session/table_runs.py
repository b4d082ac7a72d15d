"""The runs of a table: its rows by variant and seed, the final numbers of each, and what was made of them.

A run has one row. Several that share variant and seed are its steps, where a column counts these, of which the number
`--at` some of them is judged; else they are replicates, whose mean is: taken for independent runs, they would be
counted as more evidence than they are.
"""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from ablate.output.words import listed, plural
from ablate.session.table_cells import has_decimal_commas, name_of, number_of, seeds_of
from ablate.session.table_question import TableQuestion, is_once
from ablate.session.table_states import RunStates
from ablate.source.problems import Problems, quote
from ablate.space.documents import Judged
from ablate.store.table_files import Table
from ablate.verdict.finals import Final
from ablate.verdict.seeds import Seed, by_reason, named

NO_VALUE, UNFINISHED = "without_a_value", "not_finished"
"""The status of a run that has no value in the table, and of one that has not finished."""
STEPS = (
    *("step", "steps", "_step", "global_step", "train_step", "trainer/global_step", "iteration", "iterations", "iter"),
    *("epoch", "epochs", "tokens"),
)
"""The names of columns that count the steps of a run."""
AT = re.compile(r"last|best|mean:([1-9]\d{0,8})")
NAN_OF_PANDAS = (
    "a pandas data frame has NaN for both",
    "name a column that says which runs diverged (diverged=…): NaN in other rows is then an empty cell",
    "or write inf where a run diverged, and leave out the rows without a value",
)
"""The ways to say what NaN in a data frame means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRun:
    """A run: the variant, its seed, and its rows, in the order of steps where it has several."""

    variant: str
    seed: Seed
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """How a run ended, and why, if it diverged, has not finished or lacks a value."""

    final: Final
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRuns:
    """The runs of a table, in its order, with their ends; `notes` tell what was made of its rows.

    Where runs are compared within `strata`, these are by the seed, which then has the name of its stratum in it.
    """

    ends: Mapping[TableRun, RunEnd]
    notes: tuple[str, ...]
    strata: Mapping[Seed, str] = field(default_factory=dict)


def read_runs(
    table: Table, question: TableQuestion, metrics: Mapping[str, Judged], states: RunStates, problems: Problems
) -> TableRuns:
    """Read the runs of a table that has the columns that are asked for; mistakes are noted in `problems`."""
    commas = {name: comma for name in metrics if (comma := _decimal_comma(table, name)) is not None}
    strata: dict[Seed, str] = {}
    steps, runs = _in_order(table, question, metrics, _rows(table, question, strata, problems), problems)
    reading = _Reading(table, question, metrics, states, problems, frozenset(commas), steps is not None)
    ends = {run: reading.end(run) for run in runs}
    told = [f"{name} has decimal commas: {comma} is {number_of(comma, comma=True):g}" for name, comma in commas.items()]
    notes = (*told, *_repeated(runs, steps, question), *_lost(ends))
    return TableRuns(ends=ends, notes=notes, strata=strata)


def _decimal_comma(table: Table, column: str) -> str | None:
    """Return a number with a decimal comma from a column that has them, in a file whose cells no comma parts."""
    cells = table.cells(column)
    if table.delimiter in (None, ",") or not has_decimal_commas(cells):
        return None
    return next(cell for cell in cells if isinstance(cell, str) and isinstance(number_of(cell), str) and "," in cell)


def _rows(
    table: Table, question: TableQuestion, strata: dict[Seed, str], problems: Problems
) -> dict[tuple[str, Seed], list[int]]:
    """Return the rows of each variant and seed; without partners and without a column of seeds each row is a run.

    Where there are strata, a seed is one in each of these, which is noted in `strata`.
    """
    by, pair, within = question.by, question.pair, question.within
    names = [name_of(cell) for cell in table.cells(within)] if within is not None else []
    variants = [name_of(cell) for cell in table.cells(by)]
    counts: Counter[tuple[str, str]] = Counter()
    seeds: Sequence[Seed | None] = seeds_of(table.cells(pair)) if pair in table.columns else ()
    rows: dict[tuple[str, Seed], list[int]] = {}
    for row, variant in enumerate(variants):
        stratum = names[row] if names else ""
        counts[variant, stratum] += 1
        seed = seeds[row] if seeds else counts[variant, stratum]
        lacking = [*([] if variant else [by]), *([] if seed is not None else [pair])]
        for column in [*lacking, *([within] if within is not None and not stratum else [])]:
            place = table.place(row, column)
            at = "" if place is not None else f"row {row + 1}: "
            problems.add(f"{at}no {column}", place, notes=("every row must say which run it is",))
        if variant and seed is not None and (stratum or within is None):
            if within is not None:
                seed = f"{stratum} · {seed}"
                strata[seed] = stratum
            rows.setdefault((variant, seed), []).append(row)
    return rows


def _in_order(
    table: Table,
    question: TableQuestion,
    metrics: Mapping[str, Judged],
    rows: Mapping[tuple[str, Seed], list[int]],
    problems: Problems,
) -> tuple[str | None, list[TableRun]]:
    """Return the column of steps, if the rows of runs are steps, and the runs; note a log of which no step is chosen.

    Where columns could not be asked for what they count, runs are in the order of the table.
    """
    at, columns = question.at, [question.step] if question.step else [c for c in table.columns if c.lower() in STEPS]
    if question.step and not is_once(table, question.step, "--step", problems):
        columns = []
    repeated = [of for of in rows.values() if len(of) > 1]
    steps = next((column for column in columns if repeated and _counts(table, column, repeated)), None)
    if at is not None and not AT.fullmatch(at):
        problems.add(f"{quote(at)} is no step of a run", notes=("--at is last, best, or mean:k, such as mean:5",))
    elif at is not None and repeated and steps is None:
        named_so = f"no column counts the steps of a run: {', '.join(columns) or 'none is named so'}"
        problems.add(f"--at {at}: {named_so}", notes=("--step names the column that does, with a number for each row",))
    elif at is None and steps is not None:
        _add_log(table, question, metrics, repeated, steps, problems)
    elif at == "best":
        for name in (name for name, judged in metrics.items() if judged.better == "none"):
            ways = (f"--metric {name}:lower or {name}:higher says which side is", "or judge --at last")
            problems.add(f"--at best: neither side of {name} is better", notes=ways)
    order = {row: float(str(cell)) for row, cell in enumerate(table.cells(steps))} if steps and repeated else {}
    runs = (
        TableRun(variant=variant, seed=seed, rows=tuple(sorted(of, key=lambda row: order.get(row, 0.0))))
        for (variant, seed), of in rows.items()
    )
    return steps, list(runs)


def _counts(table: Table, column: str, repeated: Iterable[Sequence[int]]) -> bool:
    """Return whether a column has a number of its own for each row of every run."""
    numbers = [number_of(cell) for cell in table.cells(column)]
    if not all(isinstance(number, float) and math.isfinite(number) for number in numbers):
        return False
    return all(len({numbers[row] for row in rows}) == len(rows) for rows in repeated)


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
    here = (question.by, *([question.pair] if question.pair in table.columns else []))
    last = ", ".join(f"arg_max({_identifier(name)}, {_identifier(steps)}) AS {_identifier(name)}" for name in metrics)
    sql = f"SELECT {', '.join(map(_identifier, here))}, {last} FROM rows GROUP BY ALL"
    ways = (
        f"--at last judges each run at its last {steps}; --at best and --at mean:5 are others",
        f"or --sql {shlex.quote(sql)}",
    )
    message = (
        f"{more:,} of {len(table.rows):,} rows repeat a run: {plural(len(repeated), 'run')} of {long} rows, which "
        f"{steps} tells apart"
    )
    second = repeated[0][1]
    problems.add(message, table.place(second, steps), label="again here", notes=ways)


def _identifier(name: str) -> str:
    """Return the name of a column as SQL has it."""
    return name if re.fullmatch(r"[a-z_][a-z0-9_]*", name) else '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class _Reading:
    """The reading of final numbers: columns with decimal `commas`, and whether the rows of a run are steps."""

    table: Table
    question: TableQuestion
    metrics: Mapping[str, Judged]
    states: RunStates
    problems: Problems
    commas: frozenset[str]
    in_steps: bool

    def end(self, run: TableRun) -> RunEnd:
        """Return how a run ended."""
        nothing: Final = {"status": "diverged", "step": 0, "metrics": {}}
        for row in run.rows:
            if why := self.states.diverged.get(row):
                return RunEnd(final=nothing, why=why)
        rows = [row for row in run.rows if row not in self.states.unfinished]
        if not rows or (self.in_steps and len(rows) < len(run.rows)):
            why = next(self.states.unfinished[row] for row in run.rows if row in self.states.unfinished)
            return RunEnd(final={"status": UNFINISHED, "step": 0, "metrics": {}}, why=why)
        values: dict[str, float] = {}
        lacking: list[str] = []
        for name, judged in self.metrics.items():
            known = [value for row in rows if (value := self.value(run, row, name, judged)) is not None]
            if not known:
                lacking.append(name)
            else:
                values[name] = self.chosen(known, judged) if self.in_steps else fmean(known)
        wild = [f"{name} is {value:g}" for name, value in values.items() if not math.isfinite(value)]
        if wild:
            return RunEnd(final=nothing, why=", ".join(wild))
        status = NO_VALUE if len(lacking) == len(self.metrics) else "finished"
        why = f"no {' and no '.join(lacking)}" if lacking else ""
        return RunEnd(final={"status": status, "step": 0, "metrics": values}, why=why)

    def chosen(self, values: Sequence[float], judged: Judged) -> float:
        """Return the number of a run's steps that is judged; that of one whose last is none has none."""
        at = self.question.at or "last"
        if at == "last" or not math.isfinite(values[-1]):
            return values[-1]
        if at == "best":
            finite = [value for value in values if math.isfinite(value)]
            return max(finite) if judged.better == "higher" else min(finite)
        return fmean(values[-int(at.partition(":")[2] or 1) :])

    def value(self, run: TableRun, row: int, name: str, judged: Judged) -> float | None:
        """Return a number of a row; None where there is none, or a mistake."""
        question = self.question
        value = number_of(self.table.rows[row][self.table.columns.index(name)], comma=name in self.commas)
        about = f"{name} of {question.by} {run.variant} at {question.pair} {run.seed} is"
        if self.table.nan_or_empty and isinstance(value, float) and math.isnan(value):
            if question.diverged is None:  # else that column says which runs diverged, and NaN is an empty cell
                self.add(f"{about} NaN: a run that diverged, or an empty cell?", row, name, *NAN_OF_PANDAS)
        elif isinstance(value, str):
            way = "leave the cell empty where there is no value, write nan where the run diverged"
            comma = ("write a decimal comma as a point, or part cells by semicolons",) if "," in value else ()
            self.add(f"{about} not a number: {quote(value)}", row, name, way, *comma)
        elif value is not None and math.isfinite(value) and value <= 0 and judged.scale == "log":
            way = f"without :log, differences of {name} are judged, not ratios"
            self.add(f"{about} {value:g}, and ratios need numbers above zero", row, name, way)
        else:
            return value
        return None

    def add(self, message: str, row: int, column: str, *notes: str) -> None:
        """Note a mistake in a cell, with its row unless its place shows it."""
        place = self.table.place(row, column)
        self.problems.add(message if place is not None else f"row {row + 1}: {message}", place, notes=notes)


def _repeated(runs: Sequence[TableRun], steps: str | None, question: TableQuestion) -> Iterator[str]:
    """Tell what became of runs with several rows."""
    several = [run for run in runs if len(run.rows) > 1]
    if several and steps is not None:
        which, _, last = (question.at or "last").partition(":")
        yield f"judged at the {f'mean of the last {last}' if last else which} of each run by {steps}"
    elif several:
        yield (
            f"replicates, of which the mean is judged: "
            f"{listed([f'{run.variant} at {named([run.seed])} ({len(run.rows)} rows)' for run in several])}"
        )


def _lost(ends: Mapping[TableRun, RunEnd]) -> Iterator[str]:
    """Tell which runs diverged, have not finished, or lack a value."""
    leads = {
        "counted as diverged": [run for run, end in ends.items() if end.final["status"] == "diverged"],
        "left out, as they have not finished": [run for run, end in ends.items() if end.final["status"] == UNFINISHED],
    }
    others = {run for of in leads.values() for run in of}
    leads["counted as missing, because the cell is empty"] = [
        r for r, end in ends.items() if end.why and r not in others
    ]
    for lead, runs in leads.items():
        if runs:
            yield f"{lead}: {_told((run, ends[run].why) for run in runs)}"


def _told(runs: Iterable[tuple[TableRun, str]]) -> str:
    """List runs by variant and reason: `a at seeds 1, 2 (loss is nan), b at seed 3 (loss is nan)`."""
    of: dict[str, list[tuple[Seed, str]]] = {}
    for run, why in runs:
        of.setdefault(run.variant, []).append((run.seed, why))
    return listed(
        [f"{name} at {named(seeds)} ({why})" for name, whys in of.items() for why, seeds in by_reason(whys).items()]
    )
