"""Seeds in words: by their numbers, and by what became of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

Seed: TypeAlias = int | str
"""What runs are paired by: a seed; of a table also a name, such as that of a data set. Of one kind in an experiment."""


def named(numbers: Sequence[Seed]) -> str:
    """Seeds by their numbers.

    >>> named([3]), named([2, 4])
    ('seed 3', 'seeds 2, 4')
    """
    return f"seed{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def by_reason(reasons: Iterable[tuple[Seed, str]]) -> dict[str, list[Seed]]:
    """Seeds that share a reason.

    >>> by_reason([(1, "bug"), (2, "not run"), (4, "bug")])
    {'bug': [1, 4], 'not run': [2]}
    """
    grouped: dict[str, list[Seed]] = {}
    for seed, reason in reasons:
        grouped.setdefault(reason, []).append(seed)
    return grouped
