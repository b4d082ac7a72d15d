"""Tables in other shapes: names of runs taken apart, runs side by side, metrics below one another.

names of runs       `--name "{variant}-s{seed}"` makes columns of parts of the column `run`
runs side by side   a column for each run and metric, `base-s1 - eval/loss`, as line charts are exported: rows again
one below another   `--long metric,value`: a row for each metric of a step, which becomes a column
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Hashable
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from ablate.errors import InputError
from ablate.session.tables.cells import is_nothing
from ablate.session.tables.steps import STEPS
from ablate.source.problems import quote
from ablate.store.run_logs import RUN
from ablate.store.table_files import Table

BESIDE = re.compile(r"(?P<run>.+) - (?P<metric>.+?)(?P<bound>__MIN|__MAX)?")
"""The name of a column of a line chart: a run, a metric, and whether it is a bound of those drawn together."""
FIELD = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*(?::d)?)\}")
DIGITS = ":d"
"""The end of the name of a field that is a whole number."""


def reshaped(table: Table, *, name: str | None, long: str | None) -> Table:
    """Return a table with a row for each run or step of it; InputError for a shape that it does not have."""
    table = _below(table, long) if long is not None else _beside(table)
    return table if name is None else _named(table, name)


def _beside(table: Table) -> Table:
    """Turn columns of runs into rows, where the first column counts steps and all others are of runs."""
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
    """Turn rows of metrics into columns; rows that share all other columns are one."""
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
    merged: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in table.rows:
        key = tuple(row[k] if isinstance(row[k], Hashable) else str(row[k]) for k in others)
        of, metric = merged.setdefault(key, {}), str(row[at])
        if metric in of:
            here = ", ".join(f"{table.columns[k]} {row[k]}" for k in others)
            way = "a column tells rows of one metric apart, such as a step"
            raise InputError(f"{table.name} has {quote(metric)} twice at {here}\n  = {way}")
        of[metric] = row[value]
    rows = (key + tuple(of.get(metric) for metric in metrics) for key, of in merged.items())
    columns = (*(table.columns[k] for k in others), *metrics)
    return replace(table, columns=columns, rows=tuple(rows), places=None)


def _named(table: Table, pattern: str) -> Table:
    """Add columns that a pattern finds in names of runs; InputError for a name that it does not fit."""
    if RUN not in table.columns:
        raise InputError(f"{table.name} has no column {quote(RUN)}, whose names --name takes apart")
    fields, at = [field.removesuffix(DIGITS) for field in FIELD.findall(pattern)], table.columns.index(RUN)
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
    """Return the texts of the fields of a pattern in a name of a run; InputError for none, and for several ways."""
    text = run if "/" in pattern else run.rpartition("/")[2]
    ways = {match.groups() for short in ("+?", "+") if (match := _form(pattern, short).fullmatch(text)) is not None}
    if not ways:
        way = "a field in braces stands for any text; all else is as in the name"
        raise InputError(f"--name {quote(pattern)} does not fit the run {quote(run)}\n  = {way}")
    if len(ways) > 1:
        both = " or ".join(", ".join(values) for values in sorted(ways))
        way = f"a field of digits alone, such as {{seed{DIGITS}}}, or more of the name tells them apart"
        raise InputError(f"--name {quote(pattern)} fits {quote(run)} in several ways: {both}\n  = {way}")
    return ways.pop()


def _form(pattern: str, most: str) -> re.Pattern[str]:
    """Return the regular expression of a pattern, whose fields are as short, or as long, as the rest allows."""
    parts = FIELD.split(pattern)
    fields = ("(" + (r"\d" if part.endswith(DIGITS) else ".") + most + ")" for part in parts[1::2])
    texts = map(re.escape, parts[::2])
    return re.compile("".join(text + field for text, field in zip_longest(texts, fields, fillvalue="")))
