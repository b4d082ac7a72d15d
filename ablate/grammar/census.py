"""How many blocks a grammar has once constraints have spoken: exact where that can be enumerated, else an estimate."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from ablate.grammar.grammar import Grammar

EXACT_UP_TO = 10**6
SAMPLES = 2_000
Z95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Census:
    """`derivations` before constraints (exact); `admitted` after, exact or within [`low`, `high`] at 95 %.

    The interval is Wilson's for the admitted share of `samples` uniform draws, times the number of derivations.
    """

    derivations: int
    admitted: int
    low: int
    high: int
    samples: int | None

    @property
    def exact(self) -> bool:
        """Whether `admitted` was counted, not estimated."""
        return self.samples is None


def take_census(grammar: Grammar, *, exact_up_to: int = EXACT_UP_TO, samples: int = SAMPLES, seed: int = 0) -> Census:
    """Count what the constraints leave: all derivations up to `exact_up_to`, else `samples` uniform draws."""
    total = grammar.count
    if not grammar.constraints:
        return Census(total, total, total, total, None)
    if total <= exact_up_to:
        admitted = sum(1 for _ in grammar.enumerate())
        return Census(total, admitted, admitted, admitted, None)
    rng = random.Random(seed)
    kept = sum(not grammar.refusals(grammar.derive(rng.randrange(total))) for _ in range(samples))
    low, high = wilson(kept, samples)
    return Census(total, _share(total, kept / samples), _share(total, low), _share(total, high), samples)


def wilson(hits: int, n: int, z: float = Z95) -> tuple[float, float]:
    """Wilson's score interval for a share of `hits` in `n`."""
    share, spread = hits / n, z * z / n
    middle = (share + spread / 2) / (1 + spread)
    half = z * math.sqrt(share * (1 - share) / n + spread / (4 * n)) / (1 + spread)
    return max(0.0, middle - half), min(1.0, middle + half)


def _share(total: int, share: float) -> int:
    """A share of a number that may exceed the range of floats."""
    return total * round(share * 10**12) // 10**12
