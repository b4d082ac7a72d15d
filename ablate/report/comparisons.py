"""Comparisons in words: their names, savings over the sizes of a ladder, and quantities that were not equal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from ablate.output.words import interval, listed, percent, significant, spoken
from ablate.report.document import Grid, Statement, StyledText
from ablate.verdict.fairness_audit import Unequal, UnequalQuantity
from ablate.verdict.summary import Effect, SizeComparison, SizeResult, Summary

# Names. The same two variants under several terms are one comparison, which is reported once.

Ends: TypeAlias = tuple[str, ...]
"""The identity of a comparison, whatever its terms: its two variants, else what changes and the terms."""


def ends(effect: Effect) -> Ends:
    """Return the identity of a comparison of two variants, or of a factorial, among those of its kind."""
    if effect.before and effect.after:
        return effect.kind, effect.before, effect.after
    return effect.kind, effect.terms, effect.change


def once(comparisons: Iterable[tuple[Effect, ...]]) -> list[tuple[Effect, ...]]:
    first: dict[Ends, tuple[Effect, ...]] = {}
    for effects in comparisons:
        first.setdefault(ends(effects[0]), effects)
    return list(first.values())


def effects_once(effects: Iterable[Effect]) -> list[Effect]:
    first: dict[tuple[Ends, str], Effect] = {}
    for effect in effects:
        first.setdefault((ends(effect), effect.metric), effect)
    return list(first.values())


def terms_of(effect: Effect, summary: Summary) -> tuple[str, ...]:
    """All terms under which its comparison is made, in order; none if the question has only one set of terms."""
    if len(summary.terms) < 2:
        return ()
    wanted = ends(effect)
    return tuple(dict.fromkeys(other.terms for other in summary.effects if other.terms and ends(other) == wanted))


def subject(effect: Effect, summary: Summary) -> str:
    named, terms = effect.change, terms_of(effect, summary)
    if effect.kind == "baseline":
        after = summary.arm(effect.after).name
        named = f"{after} against {summary.arm(effect.before).name}"
        terms = () if len(terms) == 1 and after.endswith(f", {terms[0]}") else terms
    elif effect.kind == "noise":
        named = f"A/A: {effect.change}"
    return f"{named} under {listed(terms)}" if terms else named


# A ladder: the training compute that a treatment saves, size by size, and at the next size.

LAWS = {"power": "a·C^-b", "saturating": "E + a·C^-b"}  # the law of a loss over training compute C
SIZE_HEADING = ("size", "training FLOPs", "loss of the baseline", "loss", "speed-up", "n")
FEW_TENFOLDS = 1.0  # a ladder over less than this many powers of ten in compute says little beyond it


def size_statements(summary: Summary) -> Iterator[Statement]:
    for one in shown_once(summary):
        yield Statement((StyledText(_size_name(one, summary), "strong"), StyledText(f": {'; '.join(_savings(one))}.")))


def shown_once(summary: Summary) -> list[SizeComparison]:
    """Of those that are the same under several terms, only the first."""
    first: dict[tuple[object, ...], SizeComparison] = {}
    for one in summary.ladders:
        variants = tuple((size.before, size.after) for size in one.sizes if size.trained) or (one.terms,)
        first.setdefault((one.metric, one.treatment, variants), one)
    return list(first.values())


def _size_name(one: SizeComparison, summary: Summary) -> str:
    """Return `op over sizes on eval loss`."""
    under = f" under {one.terms}" if one.terms and len(summary.terms) > 1 else ""
    return f"{one.treatment} over sizes on {spoken(one.metric)}{under}"


def _savings(one: SizeComparison) -> Iterator[str]:
    trained = [size for size in one.sizes if size.trained]
    if not trained:
        yield one.why
        return
    first, last = trained[0], trained[-1]
    yield f"{_needed(one, first)} at {first.size}, and {_needed(one, last)} at {last.size}"
    for ahead in one.sizes:
        if not ahead.trained and ahead.cost is not None and ahead.decided is not None:
            relative = "" if not one.spent else f", {significant(ahead.cost / one.spent)} times what these sizes took"
            at = f"at {ahead.size}" if ahead.size != "next" else "at the next size"
            yield (
                f"{at} ({significant(ahead.cost)} FLOPs for {ahead.n} seeds of both{relative}) the laws give "
                f"{one.baseline} {ahead.baseline_loss:.4g} and {one.treatment} {ahead.loss:.4g}, which would be found "
                f"different with a chance of {percent(ahead.decided)}"
            )


def _needed(one: SizeComparison, size: SizeResult) -> str:
    if not math.isfinite(size.speed_up):
        return f"by its law {one.baseline} reaches the same loss with no compute"
    return f"{one.baseline} needs {speed_up(size)} the compute for the same loss"


def speed_up(size: SizeResult) -> str:
    """Return `×1.30 [1.21, 1.40]`."""
    if not math.isfinite(size.speed_up):
        return "∞ (the law of the baseline ends above that loss)"
    bounds = [math.log(bound) if bound > 0 else -math.inf for bound in (size.low, size.high)]
    shown = interval(math.log(size.speed_up), *bounds, log=True)
    if not all(map(math.isfinite, bounds)):
        low, high = (significant(bound) if math.isfinite(bound) else "∞" for bound in (size.low, size.high))
        shown = f"×{significant(size.speed_up)} [{low}, {high}]"
    return shown


def size_tables(summary: Summary) -> Iterator[Grid]:
    for one in shown_once(summary):
        if not one.sizes:
            continue
        yield Grid(
            title=f"{_size_name(one, summary)}, against {one.baseline}",
            note=f"speed-up [{percent(summary.confidence)}, unadjusted]",
            heading=SIZE_HEADING,
            rows=tuple(_row(size) for size in one.sizes),
            numbers=(1, 2, 3, 5),
            remarks=tuple(_size_remarks(one)),
        )


def _row(size: SizeResult) -> tuple[str, ...]:
    name = size.size if size.trained else f"{size.size} (not trained)" if size.size != "next" else "next (not trained)"
    flops = significant(size.baseline_compute)
    flops += "" if size.compute == size.baseline_compute else f" → {significant(size.compute)}"
    mark = " *" if size.extrapolated and size.trained else ""  # explained below the table
    return name, flops, f"{size.baseline_loss:.4g}", f"{size.loss:.4g}", f"{speed_up(size)}{mark}", str(size.n)


def _size_remarks(one: SizeComparison) -> Iterator[str]:
    yield (
        f"speed-up: the factor by which {one.baseline} would need more compute to reach the loss of {one.treatment}, "
        f"by its law L = {LAWS[one.law]} over training FLOPs C"
    )
    if one.exponent is not None and one.exponent_low is not None and one.exponent_high is not None:
        floor = "" if one.irreducible is None else f", E = {one.irreducible:.4g}"
        yield (
            f"b = {one.exponent:.3g} [{one.exponent_low:.3g}, {one.exponent_high:.3g}]{floor}; "
            f"that losses bend away from the law: p = {significant(one.curvature_p or 0.0)}"
        )
    if any(size.extrapolated and size.trained for size in one.sizes):
        yield "*: beyond the sizes that the law was fitted to"
    trained = [size.baseline_compute for size in one.sizes if size.trained]
    if (tenfolds := math.log10(trained[-1] / trained[0])) < FEW_TENFOLDS:
        yield f"sizes differ {10**tenfolds:.2g} times in compute: the trend of so short a ladder says little beyond it"


# Unequal quantities, declared or not, in lines for the screen; the page also has the equal ones and every number.

COUNTED = ("layers", "width", "hidden width of MLPs", "steps")
"""Quantities shown as they are; for others the relative difference is enough."""


def unequal_lines(audits: Sequence[Unequal]) -> Iterator[str]:
    """Yield a line for each variant that differs from the baseline, whatever its terms."""
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
    hundredths = 100 * of
    return f"{hundredths:+.0f} %" if abs(hundredths) >= 9.95 else f"{hundredths:+.2g} %"


def nearness(row: UnequalQuantity) -> str:
    """Return `within the 1 % declared`, or `as close as possible`."""
    return "as close as possible" if row.within is None else f"within the {100 * row.within:.4g} % declared"
