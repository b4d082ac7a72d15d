"""Runs of trackers as tables: a row is a run, with its state, its parameters and its metrics.

They have their own names; where two parts of a run share one, the part stands in front of it (`params.lr`,
`metrics.lr`). A metric that a run has not logged is None, one that it has logged as NaN is NaN.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

from ablate.errors import InputError
from ablate.store.table_files import Table

MOST = 100_000
"""The number of runs that are read: more are refused."""

Parts: TypeAlias = Mapping[str, Mapping[str, Any]]
"""What a run has, by part (params, metrics, …) and name; what belongs to none, under the empty one."""


def tabulated(name: str, runs: Sequence[Parts]) -> Table:
    """Return runs as rows, with a column for each name that any of them has; InputError for too many."""
    if len(runs) > MOST:
        raise InputError(f"{name} has more than {MOST:,} runs\n  = give those to judge as a file, or by SQL")
    keys = list(dict.fromkeys((part, key) for run in runs for part, of in run.items() for key in of))
    times = Counter(key for _, key in keys)
    columns = tuple(key if times[key] == 1 or not part else f"{part}.{key}" for part, key in keys)
    return Table(name, columns, tuple(tuple(run[part].get(key) for part, key in keys) for run in runs))


# SQLite files that others have written, looked at without being changed

SQLITE = "sqlite:///"


def check_sqlite(uri: str, table: str, whose: str) -> None:
    """Raise InputError unless the file of a SQLite URI has a table; other URIs are not looked at."""
    if not uri.startswith(SQLITE):
        return
    path = Path(uri.removeprefix(SQLITE).partition("?")[0])
    way = f"--uri {SQLITE}FILE names one that {whose} has written"
    if not path.exists():
        raise InputError(f"there is no database {path}\n  = {way}")
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            names = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
    except sqlite3.Error as error:
        raise InputError(f"{path} is not a database: {error}\n  = {way}") from None
    if table not in names:
        raise InputError(f"{path} is no database of {whose}\n  = {way}")
