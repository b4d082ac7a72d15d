"""What was unequal, declared or not, in lines for the screen; the page also has what was equal, and every number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ablate.output.words import listed
from ablate.verdict.fairness_audit import Unequal, UnequalQuantity

COUNTED = ("layers", "width", "hidden width of MLPs", "steps")
"""Quantities shown as they are; for others the relative difference is enough."""


def unequal_lines(audits: Sequence[Unequal]) -> Iterator[str]:
    """Yield a line for each variant, whatever its terms: the quantities in which it differs from the baseline."""
    terms: dict[str, list[str]] = {}
    rows: dict[str, dict[str, UnequalQuantity]] = {}
    for audit in audits:
        for row in audit.rows:
            under = terms.setdefault(row.variant, [])
            if audit.terms and audit.terms not in under:
                under.append(audit.terms)
            known = rows.setdefault(row.variant, {}).get(row.quantity)
            if known is None or (row.declared and not known.declared):
                rows[row.variant][row.quantity] = row
    for variant, of in rows.items():
        name = next(iter(of.values())).name
        own = len(audits) == 1 or not terms[variant] or any(name.endswith(f", {term}") for term in terms[variant])
        under_which = "" if own else f" under {listed(terms[variant])}"
        yield f"{name}{under_which} differs in {'; '.join(map(_against, of.values()))}"


def _against(row: UnequalQuantity) -> str:
    near = f", {nearness(row)}" if row.declared else ""
    if row.share is None or row.quantity in COUNTED:
        return f"{row.quantity}: {row.here} against {row.baseline}{near}"
    return f"{row.quantity}: {share(row.share)}{near}"


def share(of: float) -> str:
    """Return how much more or less it is, in per cent.

    >>> share(-0.0022), share(0.0667)
    ('-0.22 %', '+6.7 %')
    """
    percent = 100 * of
    return f"{percent:+.0f} %" if abs(percent) >= 9.95 else f"{percent:+.2g} %"


def nearness(row: UnequalQuantity) -> str:
    """Return how close a quantity that is declared equal came: within the tolerance, or as close as possible."""
    return "as close as possible" if row.within is None else f"within the {100 * row.within:.4g} % declared"
