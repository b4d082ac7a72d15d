"""Table runs: a table in other shapes made one of a row for each run or step, and the final numbers of its runs."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import zip_longest
from statistics import fmean

from ablate.errors import InputError
from ablate.output.words import listed
from ablate.session.table_columns import (
    STEPS,
    RunStates,
    TableQuestion,
    TableRun,
    has_decimal_commas,
    is_nothing,
    name_of,
    number_of,
    read_steps,
    run_column,
    seeds_of,
    step_notes,
)
from ablate.source.problems import Problems, quote
from ablate.space.judge import Judged
from ablate.store.foreign_tables import RUN, Table
from ablate.verdict.experiment import Final, Seed, by_reason, seed_list

# Shapes: names of runs taken apart, runs side by side, metrics below one another.
#
#     names of runs       `--name "{variant}-s{seed}"` makes columns of parts of the column `run`
#     runs side by side   a column for each run and metric, `base-s1 - eval/loss`, as line charts have it: rows again
#     one below another   `--long metric,value`: a row for each metric of a step, which becomes a column

BESIDE = re.compile(r"(?P<run>.+) - (?P<metric>.+?)(?P<bound>__MIN|__MAX)?")
"""The name of a column of a line chart: a run, a metric, and whether it is a bound of those drawn together."""
FIELD = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*(?::d)?)\}")
DIGIT_FIELD = ":d"  # the end of the name of a field that is a whole number


def reshaped(table: Table, *, name: str | None, long: str | None) -> Table:
    """A table with a row for each run or step of `table`; InputError for a shape that it does not have."""
    table = _below(table, long) if long is not None else _beside(table)
    return table if name is None else _named(table, name)


def _beside(table: Table) -> Table:
    if table.columns[:1] == () or table.columns[0].lower() not in STEPS:
        return table
    parts = [BESIDE.fullmatch(column) for column in table.columns[1:]]
    if not parts or not all(parts):
        return table
    places = [((part["run"], part["metric"]), k) for k, part in enumerate(parts, 1) if part and not part["bound"]]
    columns = dict(places)
    if not columns:
        raise InputError(f"{table.name} has bounds of runs and no run\n  = a column is RUN - METRIC")
    if twice := [key for key, number in Counter(key for key, _ in places).items() if number > 1]:
        named = " - ".join(twice[0])
        raise InputError(f"{table.name} has two columns {quote(named)}\n  = name runs differently, or keep one of them")
    runs, metrics = (tuple(dict.fromkeys(names)) for names in zip(*columns, strict=True))
    rows = [
        (row[0], run, *(row[columns[run, metric]] if (run, metric) in columns else None for metric in metrics))
        for run in runs
        for row in table.rows
        if not all(_is_open(table, row[columns[run, metric]]) for metric in metrics if (run, metric) in columns)
    ]
    return replace(table, columns=(table.columns[0], RUN, *metrics), rows=tuple(rows), places=None)


def _is_open(table: Table, cell: object) -> bool:
    return is_nothing(cell) or (table.nan_or_empty and isinstance(cell, float) and math.isnan(cell))


def _below(table: Table, long: str) -> Table:
    names = [part.strip() for part in long.split(",")]
    if len(names) != 2:
        way = "those of metrics and of values: --long metric,value"
        raise InputError(f"--long {long}: it names two columns\n  = {way}")
    for column in names:
        if table.columns.count(column) != 1:
            known = ", ".join(table.columns)
            raise InputError(f"{table.name} has no column {quote(column)}\n  = --long names two of {known}")
    at, value = (table.columns.index(column) for column in names)
    others = [k for k in range(len(table.columns)) if k not in (at, value)]
    metrics = tuple(dict.fromkeys(str(row[at]) for row in table.rows))
    merged: defaultdict[tuple[Hashable, ...], dict[str, Hashable]] = defaultdict(dict)
    for row in table.rows:
        key = tuple(row[k] if isinstance(row[k], Hashable) else str(row[k]) for k in others)
        of, metric = merged[key], str(row[at])
        if metric in of:
            here = ", ".join(f"{table.columns[k]} {row[k]}" for k in others)
            way = "a column tells rows of one metric apart, such as a step"
            raise InputError(f"{table.name} has {quote(metric)} twice at {here}\n  = {way}")
        of[metric] = row[value]
    rows = (key + tuple(of.get(metric) for metric in metrics) for key, of in merged.items())
    columns = (*(table.columns[k] for k in others), *metrics)
    return replace(table, columns=columns, rows=tuple(rows), places=None)


def _named(table: Table, pattern: str) -> Table:
    if RUN not in table.columns:
        raise InputError(f"{table.name} has no column {quote(RUN)}, whose names --name takes apart")
    fields, at = [field.removesuffix(DIGIT_FIELD) for field in FIELD.findall(pattern)], table.columns.index(RUN)
    if not fields or len(set(fields)) < len(fields):
        way = 'it names columns once each, in braces: --name "{variant}-s{seed}"'
        raise InputError(f"--name {quote(pattern)} names no columns\n  = {way}")
    if replaced := [field for field in fields if field in table.columns and field != RUN]:
        way = "leave the column out, by --sql, or name the field differently"
        raise InputError(f"--name {quote(pattern)}: {table.name} has a column {quote(replaced[0])} already\n  = {way}")
    names = dict.fromkeys(str(row[at]) for row in table.rows)
    parts = {run: _parts(run, pattern) for run in names}
    first: dict[tuple[str, ...], str] = {}
    for run, values in parts.items():
        if (other := first.setdefault(values, run)) != run:
            way = "--name has a field, or a folder with /, for what tells them apart"
            raise InputError(f"--name {quote(pattern)}: {quote(other)} and {quote(run)} have the same names\n  = {way}")
    kept = [k for k, column in enumerate(table.columns) if column not in fields]
    rows = tuple((*parts[str(row[at])], *(row[k] for k in kept)) for row in table.rows)
    return replace(table, columns=(*fields, *(table.columns[k] for k in kept)), rows=rows, places=None)


def _parts(run: str, pattern: str) -> tuple[str, ...]:
    """The texts of the fields of a pattern in a name of a run; InputError for none, and for several ways."""
    text = run if "/" in pattern else run.rpartition("/")[2]
    ways = {match.groups() for short in ("+?", "+") if (match := _form(pattern, short).fullmatch(text)) is not None}
    if not ways:
        way = "a field in braces stands for any text; all else is as in the name"
        raise InputError(f"--name {quote(pattern)} does not fit the run {quote(run)}\n  = {way}")
    if len(ways) > 1:
        both = " or ".join(", ".join(values) for values in sorted(ways))
        way = f"a field of digits alone, such as {{seed{DIGIT_FIELD}}}, or more of the name tells them apart"
        raise InputError(f"--name {quote(pattern)} fits {quote(run)} in several ways: {both}\n  = {way}")
    return ways.pop()


def _form(pattern: str, most: str) -> re.Pattern[str]:
    """The regular expression of a pattern, whose fields are as short, or as long, as the rest allows."""
    parts = FIELD.split(pattern)
    fields = ("(" + (r"\d" if part.endswith(DIGIT_FIELD) else ".") + most + ")" for part in parts[1::2])
    texts = map(re.escape, parts[::2])
    return re.compile("".join(text + field for text, field in zip_longest(texts, fields, fillvalue="")))


# Runs: the rows of a table by variant and seed, the final numbers of each, and what was made of them.
#
# A run has one row. Several that share variant and seed are its steps, where a column counts these; else they are
# replicates, whose mean is judged: taken for independent runs, they would be counted as more evidence than they are.

NO_VALUE, UNFINISHED = "without_a_value", "not_finished"
"""The status of a run that has no value in the table, and of one that has not finished."""
NAN_OF_PANDAS = (
    "a pandas data frame has NaN for both",
    "name a column that says which runs diverged (diverged=…): NaN in other rows is then an empty cell",
    "or write inf where a run diverged, and leave out the rows without a value",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRunEnd:
    """The end of a run, and `why` if it diverged, has not finished or lacks a value."""

    final: Final
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRuns:
    """The runs of a table, in its order, with their ends; `notes` tell what was made of its rows.

    With `strata` (by seed), the name of a seed has that of its stratum in it.
    """

    ends: Mapping[TableRun, TableRunEnd]
    notes: tuple[str, ...]
    strata: Mapping[Seed, str] = field(default_factory=dict)


def read_runs(
    table: Table, question: TableQuestion, metrics: Mapping[str, Judged], states: RunStates, problems: Problems
) -> TableRuns:
    commas = {name: comma for name in metrics if (comma := _decimal_comma(table, name)) is not None}
    strata: dict[Seed, str] = {}
    steps, runs = read_steps(table, question, metrics, _rows(table, question, strata, problems), problems)
    reading = _RunReader(table, question, metrics, states, problems, frozenset(commas), steps is not None)
    ends = {run: reading.end(run) for run in runs}
    timed = [name for name in metrics if any(isinstance(cell, timedelta) for cell in table.cells(name))]
    units = [f"{name} has durations, judged in seconds" for name in timed]
    units += [
        f"{name} has decimal commas: {comma} is {number_of(comma, comma=True):g}" for name, comma in commas.items()
    ]
    repeated = _replicates(runs) if steps is None else step_notes(table, steps, runs, question)
    notes = (*units, *repeated, *_lost(ends))
    return TableRuns(ends=ends, notes=notes, strata=strata)


def _decimal_comma(table: Table, column: str) -> str | None:
    cells = table.cells(column)
    if table.delimiter in (None, ",") or not has_decimal_commas(cells):
        return None
    return next(cell for cell in cells if isinstance(cell, str) and isinstance(number_of(cell), str) and "," in cell)


def _rows(
    table: Table, question: TableQuestion, strata: dict[Seed, str], problems: Problems
) -> dict[tuple[str, Seed], list[int]]:
    """The rows of each variant and seed; without partners and seeds each row is a run. Seeds are noted in `strata`."""
    by, within, pair = question.by, question.within, run_column(table, question)
    names = [name_of(cell) for cell in table.cells(within)] if within is not None else []
    variants = [name_of(cell) for cell in table.cells(by)]
    counts: Counter[tuple[str, str]] = Counter()
    seeds: Sequence[Seed | None] = seeds_of(table.cells(pair)) if pair is not None else ()
    rows: dict[tuple[str, Seed], list[int]] = {}
    for row, variant in enumerate(variants):
        stratum = names[row] if names else ""
        counts[variant, stratum] += 1
        seed = seeds[row] if seeds else counts[variant, stratum]
        lacking = [*([] if variant else [by]), *([] if seed is not None else [str(pair)])]
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


@dataclass(frozen=True, slots=True)
class _RunReader:
    table: Table
    question: TableQuestion
    metrics: Mapping[str, Judged]
    states: RunStates
    problems: Problems
    commas: frozenset[str]
    in_steps: bool

    def end(self, run: TableRun) -> TableRunEnd:
        nothing: Final = {"status": "diverged", "step": 0, "metrics": {}}
        for row in run.rows:
            if why := self.states.diverged.get(row):
                return TableRunEnd(final=nothing, why=why)
        rows = [row for row in run.rows if row not in self.states.unfinished]
        if not rows or (self.in_steps and len(rows) < len(run.rows)):
            why = next(self.states.unfinished[row] for row in run.rows if row in self.states.unfinished)
            return TableRunEnd(final={"status": UNFINISHED, "step": 0, "metrics": {}}, why=why)
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
            return TableRunEnd(final=nothing, why=", ".join(wild))
        status = NO_VALUE if len(lacking) == len(self.metrics) else "finished"
        why = f"no {' and no '.join(lacking)}" if lacking else ""
        return TableRunEnd(final={"status": status, "step": 0, "metrics": values}, why=why)

    def chosen(self, values: Sequence[float], judged: Judged) -> float:
        """The judged number of a run's steps; that of one whose last is none has none."""
        at = self.question.at or "last"
        if at == "last" or not math.isfinite(values[-1]):
            return values[-1]
        if at == "best":
            finite = [value for value in values if math.isfinite(value)]
            return max(finite) if judged.better == "higher" else min(finite)
        return fmean(values[-int(at.partition(":")[2] or 1) :])

    def value(self, run: TableRun, row: int, name: str, judged: Judged) -> float | None:
        """A number of a row; None where there is none, or a mistake."""
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
        place = self.table.place(row, column)
        self.problems.add(message if place is not None else f"row {row + 1}: {message}", place, notes=notes)


def _replicates(runs: Sequence[TableRun]) -> Iterator[str]:
    several = [f"{run.variant} at {seed_list([run.seed])} ({len(run.rows)} rows)" for run in runs if len(run.rows) > 1]
    if several:
        yield f"replicates, of which the mean is judged: {listed(several)}"


def _lost(ends: Mapping[TableRun, TableRunEnd]) -> Iterator[str]:
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
    """A list such as `a at seeds 1, 2 (loss is nan), b at seed 3 (loss is nan)`."""
    of: dict[str, list[tuple[Seed, str]]] = {}
    for run, why in runs:
        of.setdefault(run.variant, []).append((run.seed, why))
    return listed(
        [f"{name} at {seed_list(seeds)} ({why})" for name, whys in of.items() for why, seeds in by_reason(whys).items()]
    )
