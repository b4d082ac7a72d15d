"""What a plan uses of earlier results: the only way in which measurements decide what is trained next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ablate.space.fair import Plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Results that a plan depends on; empty before anything was trained.

    `seeds` are those that the looks so far require (None: the space's). `tuned` are the settings that tuning chose, by
    variant id (none: the recipe's); `paces` are seconds per step, by `Models.as_written` of a model, measured once and
    kept.
    """

    seeds: tuple[int, ...] | None = None
    tuned: Mapping[str, tuple[tuple[str, Plain], ...]] = field(default_factory=dict)
    paces: Mapping[str, float] = field(default_factory=dict)


NOTHING = Known()
