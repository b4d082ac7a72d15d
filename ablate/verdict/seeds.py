"""Seeds in words: by their numbers, and by what became of their runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

Seed: TypeAlias = int | str
"""What runs are paired by: a seed, or in a table also a name such as a data set's. An experiment uses one kind."""


def named(numbers: Sequence[Seed]) -> str:
    """List seeds by number.

    >>> named([3]), named([2, 4])
    ('seed 3', 'seeds 2, 4')
    """
    return f"seed{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def by_reason(reasons: Iterable[tuple[Seed, str]]) -> dict[str, list[Seed]]:
    """Group seeds by reason.

    >>> by_reason([(1, "bug"), (2, "not run"), (4, "bug")])
    {'bug': [1, 4], 'not run': [2]}
    """
    grouped: dict[str, list[Seed]] = {}
    for seed, reason in reasons:
        grouped.setdefault(reason, []).append(seed)
    return grouped
