"""What was not equal whatever was declared, in lines for the screen; the page has what was, and every number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ablate.output.words import listed
from ablate.verdict.fairness_audit import Unequal, UnequalQuantity

COUNTED = ("layers", "width", "hidden width of MLPs", "steps")
"""Quantities that are shown as they are; of others it is enough by how much they differ."""


def unequal_lines(found: Sequence[Unequal]) -> Iterator[str]:
    """A line for each variant, whatever the terms that it is under: in what it is not as the baseline."""
    terms: dict[str, list[str]] = {}
    rows: dict[str, dict[str, UnequalQuantity]] = {}
    for one in found:
        for row in one.rows:
            under = terms.setdefault(row.variant, [])
            if one.terms and one.terms not in under:
                under.append(one.terms)
            known = rows.setdefault(row.variant, {}).get(row.quantity)
            if known is None or (row.declared and not known.declared):
                rows[row.variant][row.quantity] = row
    for variant, of in rows.items():
        name = next(iter(of.values())).name
        own = len(found) == 1 or not terms[variant] or any(name.endswith(f", {one}") for one in terms[variant])
        under_which = "" if own else f" under {listed(terms[variant])}"
        yield f"{name}{under_which} is not equal in {'; '.join(map(_against, of.values()))}"


def _against(row: UnequalQuantity) -> str:
    near = f", {nearness(row)}" if row.declared else ""
    if row.share is None or row.quantity in COUNTED:
        return f"{row.quantity}: {row.here} against {row.baseline}{near}"
    return f"{row.quantity}: {share(row.share)}{near}"


def share(of: float) -> str:
    """How much more or less, in per cent.

    >>> share(-0.0022), share(0.0667)
    ('-0.22 %', '+6.7 %')
    """
    percent = 100 * of
    return f"{percent:+.0f} %" if abs(percent) >= 9.95 else f"{percent:+.2g} %"


def nearness(row: UnequalQuantity) -> str:
    """Of what is declared equal, how near it came: within what was declared, or as near as it can."""
    return "as near as it comes" if row.within is None else f"within the {100 * row.within:.4g} % declared"
