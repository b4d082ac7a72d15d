"""Tables in other shapes: names of runs taken apart, runs side by side, metrics below one another.

names of runs       `--name "{variant}-s{seed}"` makes columns of parts of the column `run`
runs side by side   a column for each run and metric, `base-s1 - eval/loss`, as line charts are exported: rows again
one below another   `--long metric,value`: a row for each metric of a step, which becomes a column
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ablate.errors import InputError
from ablate.source.problems import quote
from ablate.store.run_logs import RUN
from ablate.store.table_files import Table

BESIDE = re.compile(r"(?P<run>.+) - (?P<metric>.+?)(?P<bound>__MIN|__MAX)?")
"""The name of a column of a line chart: a run, a metric, and whether it is a bound of those drawn together."""
FIELD = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


def reshaped(table: Table, *, name: str | None, long: str | None) -> Table:
    """Return a table with a row for each run or step of it; InputError for a shape that it does not have."""
    table = _below(table, long) if long is not None else _beside(table)
    return table if name is None else _named(table, name)


def _beside(table: Table) -> Table:
    """Turn columns of runs into rows, where all columns but the first are of runs."""
    parts = [BESIDE.fullmatch(column) for column in table.columns[1:]]
    if not parts or not all(parts):
        return table
    columns = {(part["run"], part["metric"]): k for k, part in enumerate(parts, 1) if part and not part["bound"]}
    runs, metrics = (tuple(dict.fromkeys(names)) for names in zip(*columns, strict=True))
    rows = [
        (row[0], run, *(row[columns[run, metric]] if (run, metric) in columns else None for metric in metrics))
        for run in runs
        for row in table.rows
        if any(row[columns[run, metric]] not in (None, "") for metric in metrics if (run, metric) in columns)
    ]
    return Table(table.name, (table.columns[0], RUN, *metrics), tuple(rows), delimiter=table.delimiter)


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
        of, metric = merged.setdefault(tuple(row[k] for k in others), {}), str(row[at])
        if metric in of:
            here = ", ".join(f"{table.columns[k]} {row[k]}" for k in others)
            way = "a column tells rows of one metric apart, such as a step"
            raise InputError(f"{table.name} has {quote(metric)} twice at {here}\n  = {way}")
        of[metric] = row[value]
    rows = (key + tuple(of.get(metric) for metric in metrics) for key, of in merged.items())
    columns = (*(table.columns[k] for k in others), *metrics)
    return Table(table.name, columns, tuple(rows), delimiter=table.delimiter)


def _named(table: Table, pattern: str) -> Table:
    """Add columns that a pattern finds in names of runs; InputError for a name that it does not fit."""
    if RUN not in table.columns:
        raise InputError(f"{table.name} has no column {quote(RUN)}, whose names --name takes apart")
    fields, at = FIELD.findall(pattern), table.columns.index(RUN)
    if not fields or len(set(fields)) < len(fields):
        way = 'it names columns once each, in braces: --name "{variant}-s{seed}"'
        raise InputError(f"--name {quote(pattern)} names no columns\n  = {way}")
    form = re.compile("".join(_regex(pattern)))
    names = dict.fromkeys(str(row[at]) for row in table.rows)
    matches = {run: form.fullmatch(run if "/" in pattern else run.rpartition("/")[2]) for run in names}
    if wrong := [run for run, match in matches.items() if match is None]:
        several = f", nor {len(wrong) - 1} others" if len(wrong) > 1 else ""
        way = "a field in braces stands for any text; all else is as in the name"
        raise InputError(f"--name {quote(pattern)} does not fit the run {quote(wrong[0])}{several}\n  = {way}")
    kept = [k for k, column in enumerate(table.columns) if column not in fields]
    rows = tuple(
        (*(match[field] for field in fields), *(row[k] for k in kept))
        for row in table.rows
        if (match := matches[str(row[at])]) is not None
    )
    return Table(table.name, (*fields, *(table.columns[k] for k in kept)), rows, delimiter=table.delimiter)


def _regex(pattern: str) -> Iterator[str]:
    """Yield the parts of the regular expression of a pattern; a field is as short as the rest allows."""
    parts: Sequence[str] = FIELD.split(pattern)
    for k, part in enumerate(parts):
        yield f"(?P<{part}>.+?)" if k % 2 else re.escape(part)
