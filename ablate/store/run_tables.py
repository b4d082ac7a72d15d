"""Runs of trackers as tables: a row is a run, with its state, its parameters and its metrics.

They have their own names; where two parts of a run share one, the part stands in front of it (`params.lr`,
`metrics.lr`). A metric that a run has not logged is None, one that it has logged as NaN is NaN.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
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
