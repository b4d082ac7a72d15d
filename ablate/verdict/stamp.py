"""When a claim was made: before or after both sides of what it compares had results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Stamped: TypeAlias = Literal["before results", "after results", "not dated"]
"""`not dated`: no plan with this claim was run yet, and one side has no result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """The date of a claim against that of what it is about.

    `at` is when the first plan with this claim, as it is, was kept, in seconds since 1970; that plan's id, `plan`, is
    the hash of its whole `space`. `known_at` is when both sides had a result, at whatever seeds, profile or plan, and
    `known_in` the space that the later of the two was in; None where one side has none. `changes` are what else differs
    between that space and the present one, `was` other claims that were stated before on the same comparison and
    metric, and are not made any more.
    """

    stamped: Stamped
    at: float | None = None
    plan: str = ""
    space: str = ""
    known_at: float | None = None
    known_in: str = ""
    changes: tuple[str, ...] = ()
    was: tuple[str, ...] = ()
