"""Aliases: which other effects of one to three edits enter the estimate of a factorial's effect, and how often."""

from __future__ import annotations

from ablate.plan.plan import Alias, Factors
from ablate.verdict.contrasts import CROSS

LISTED = 8
"""The most aliases listed for one effect, largest coefficients first; further ones are only counted."""


def alias_rows(factors: Factors) -> tuple[tuple[str, str], ...]:
    """List each effect that has aliases, with their coefficients: `a × b, -0.5 times c × d`."""
    rows = []
    for effect in factors.effects:
        aliases = [alias for alias in factors.aliases if alias.term == effect]
        aliases.sort(key=lambda alias: abs(alias.times), reverse=True)
        texts = [_times(alias) for alias in aliases[:LISTED]]
        if len(aliases) > LISTED:
            texts.append(f"and {len(aliases) - LISTED} more")
        if texts:
            rows.append((CROSS.join(effect), ", ".join(texts)))
    return tuple(rows)


def _times(alias: Alias) -> str:
    other = CROSS.join(alias.other)
    return other if alias.times == 1 else f"{alias.times:.3g} times {other}"
