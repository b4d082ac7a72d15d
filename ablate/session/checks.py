"""One check of results, its answer, and how two documents differ."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ablate.store.checksummed_lines import compact

Answer: TypeAlias = Literal["right", "wrong", "told"]
"""`told` where a check could not be made, or a difference proves nothing."""
CLOSE = 1e-9
"""Relative difference up to which a statistic that is computed anew is the same: libraries differ in last bits."""
MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Check:
    """What was checked, of which space (none: of the whole), and what came of it."""

    space: str
    check: Literal["seals", "cache", "files", "plan", "trials", "verdicts", "page", "retrained"]
    answer: Answer
    what: str


def unequal(kept: object, anew: object, at: str = "") -> Iterator[str]:
    """Yield where two documents differ, and how; statistics may differ in last bits."""
    if isinstance(kept, Mapping) and isinstance(anew, Mapping):
        for key in {**kept, **anew}:
            name = f" of {kept.get('change', '')} {kept.get('metric', '')}".rstrip() if "verdict" in kept else ""
            yield from unequal(kept.get(key), anew.get(key), f"{at}.{key}{name}".lstrip("."))
    elif _sequence(kept) and _sequence(anew) and len(kept) == len(anew):  # type: ignore[arg-type]
        for place, (one, other) in enumerate(zip(kept, anew, strict=True)):  # type: ignore[call-overload]
            yield from unequal(one, other, f"{at}[{place}]")
    elif not _same(kept, anew):
        yield f"{at}: kept {_short(kept)}, computed {_short(anew)}"


def _sequence(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _same(kept: object, anew: object) -> bool:
    before, after = _number(kept), _number(anew)
    if before is None or after is None:
        return kept == anew
    return math.isclose(before, after, rel_tol=CLOSE, abs_tol=CLOSE) or (math.isnan(before) and math.isnan(after))


def _number(value: object) -> float | None:
    """Return a number; those that are not finite stand in JSON as text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    return float(value) if not isinstance(value, str) or value in ("NaN", "Infinity", "-Infinity") else None


def _short(value: object) -> str:
    text = compact(value)
    return text if len(text) < 60 else f"{text[:57]}…"


def some(items: Sequence[str]) -> str:
    more = f" and {len(items) - MOST_NAMED} more" if len(items) > MOST_NAMED else ""
    return "; ".join(items[:MOST_NAMED]) + more
