"""How a trial ended, as the store hands it over: plain values, keyed by trial id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NotRequired, TypeAlias, TypedDict


class Final(TypedDict):
    """The end of one trial: an outcome's kind, its last step, and its final metrics by name.

    `versions` identifies the software and device of the run: trials that differ in it are not paired. `metrics` of a
    diverged trial may be empty, infinite or NaN: they are counted, never averaged.
    """

    status: str
    step: int
    metrics: Mapping[str, float]
    versions: NotRequired[str | None]


Finals: TypeAlias = Mapping[str, Final]
"""Trial id → its end. A trial that is not in it has not been run."""
