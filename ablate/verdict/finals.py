"""How a trial ended, as the store hands it over: plain values, keyed by trial id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import NamedTuple, NotRequired, TypeAlias, TypedDict

RESULTS = ("finished", "diverged")
"""The endings of a trial that has a result."""


class Final(TypedDict):
    """The end of one trial: an outcome's kind, its last step, and its final metrics by name.

    `versions` identifies the software and machine of the run: trials that differ in it are not paired. `by_name` is the
    same with the processor's name in place of what it computes, by which those that did not record that are paired.
    `metrics` of a diverged trial may be empty, infinite or NaN: they are counted, never averaged.
    """

    status: str
    step: int
    metrics: Mapping[str, float]
    versions: NotRequired[str | None]
    by_name: NotRequired[str | None]


class RanWith(NamedTuple):
    """The software and machine of a run, as in `Final`."""

    versions: str | None = None
    by_name: str | None = None

    def like(self, other: RanWith) -> bool:
        """Return whether runs of both may be paired."""
        same = self.versions == other.versions
        return (
            same
            or (self.versions is not None and self.versions == other.by_name)
            or (self.by_name is not None and self.by_name == other.versions)
        )


def alike(runs: Iterable[RanWith]) -> bool:
    """Return whether all of these may be paired with each other."""
    return all(one.like(other) for one, other in combinations(dict.fromkeys(runs), 2))


Finals: TypeAlias = Mapping[str, Final]
"""Trial id → its end. A trial that is not in it has not been run."""
