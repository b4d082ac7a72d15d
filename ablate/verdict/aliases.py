"""Aliases: what else of one to three edits is in the estimate of a factorial's effect, and how often it enters."""

from __future__ import annotations

from ablate.plan.plan import Alias, Factors
from ablate.verdict.contrasts import CROSS

LISTED = 8
"""Aliases of one effect that are named, those first that enter most; of more the number is said."""


def alias_rows(factors: Factors) -> tuple[tuple[str, str], ...]:
    """Each effect that has aliases, and these with how often they enter: `a × b, -0.5 times c × d`."""
    rows = []
    for effect in factors.effects:
        aliases = [alias for alias in factors.aliases if alias.term == effect]
        aliases.sort(key=lambda alias: abs(alias.times), reverse=True)
        said = [_times(alias) for alias in aliases[:LISTED]]
        if len(aliases) > LISTED:
            said.append(f"and {len(aliases) - LISTED} more")
        if said:
            rows.append((CROSS.join(effect), ", ".join(said)))
    return tuple(rows)


def _times(alias: Alias) -> str:
    other = CROSS.join(alias.other)
    return other if alias.times == 1 else f"{alias.times:.3g} times {other}"
