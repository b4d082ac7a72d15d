"""A ladder in words and in a table: what a treatment saves in training compute, size by size, and at the next size."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ablate.output.words import interval, percent, significant, spoken
from ablate.report.document import Grid, Statement, StyledText
from ablate.verdict.summary import SizeComparison, SizeResult, Summary

LAWS = {"power": "a·C^-b", "saturating": "E + a·C^-b"}
"""The law of a loss over training compute C."""
HEADING = ("size", "training FLOPs", "loss of the baseline", "loss", "speed-up", "n")
FEW_TENFOLDS = 1.0
"""A ladder over less than this many powers of ten in compute says little beyond it."""


def statements(summary: Summary) -> Iterator[Statement]:
    """Yield for each treatment and loss what it saves at the ends of the ladder, and what the next size would show."""
    for one in shown_once(summary):
        yield Statement((StyledText(named(one, summary), "strong"), StyledText(f": {'; '.join(told(one))}.")))


def shown_once(summary: Summary) -> list[SizeComparison]:
    """Return the comparisons over sizes; of those that are the same under several terms only the first."""
    first: dict[tuple[object, ...], SizeComparison] = {}
    for one in summary.ladders:
        variants = tuple((size.before, size.after) for size in one.sizes if size.trained) or (one.terms,)
        first.setdefault((one.metric, one.treatment, variants), one)
    return list(first.values())


def named(one: SizeComparison, summary: Summary) -> str:
    """Return the name of a comparison over sizes: `op over sizes on eval loss`."""
    under = f" under {one.terms}" if one.terms and len(summary.terms) > 1 else ""
    return f"{one.treatment} over sizes on {spoken(one.metric)}{under}"


def told(one: SizeComparison) -> Iterator[str]:
    """Yield what the sizes show, each a part of a sentence."""
    trained = [size for size in one.sizes if size.trained]
    if not trained:
        yield one.why
        return
    first, last = trained[0], trained[-1]
    yield f"{_needed(one, first)} at {first.size}, and {_needed(one, last)} at {last.size}"
    for ahead in one.sizes:
        if not ahead.trained and ahead.cost is not None and ahead.decided is not None:
            share = "" if not one.spent else f", {significant(ahead.cost / one.spent)} times what these sizes took"
            at = f"at {ahead.size}" if ahead.size != "next" else "at the next size"
            yield (
                f"{at} ({significant(ahead.cost)} FLOPs for {ahead.n} seeds of both{share}) the laws give "
                f"{one.baseline} {ahead.baseline_loss:.4g} and {one.treatment} {ahead.loss:.4g}, which would be found "
                f"different with a chance of {percent(ahead.decided)}"
            )


def _needed(one: SizeComparison, size: SizeResult) -> str:
    if not math.isfinite(size.speed_up):
        return f"by its law {one.baseline} reaches the same loss with no compute"
    return f"{one.baseline} needs {speed_up(size)} the compute for the same loss"


def speed_up(size: SizeResult) -> str:
    """Return a speed-up with its interval: `×1.30 [1.21, 1.40]`."""
    if not math.isfinite(size.speed_up):
        return "∞ (the law of the baseline ends above that loss)"
    bounds = [math.log(bound) if bound > 0 else -math.inf for bound in (size.low, size.high)]
    shown = interval(math.log(size.speed_up), *bounds, log=True)
    if not all(map(math.isfinite, bounds)):
        low, high = (significant(bound) if math.isfinite(bound) else "∞" for bound in (size.low, size.high))
        shown = f"×{significant(size.speed_up)} [{low}, {high}]"
    return shown


def tables(summary: Summary) -> Iterator[Grid]:
    """Yield a table of the sizes for each treatment and loss."""
    for one in shown_once(summary):
        if not one.sizes:
            continue
        yield Grid(
            title=f"{named(one, summary)}, against {one.baseline}",
            note=f"speed-up [{percent(summary.confidence)}, unadjusted]",
            heading=HEADING,
            rows=tuple(_row(size) for size in one.sizes),
            numbers=(1, 2, 3, 5),
            remarks=tuple(remarks(one)),
        )


def _row(size: SizeResult) -> tuple[str, ...]:
    name = size.size if size.trained else f"{size.size} (not trained)" if size.size != "next" else "next (not trained)"
    flops = significant(size.baseline_compute)
    flops += "" if size.compute == size.baseline_compute else f" → {significant(size.compute)}"
    mark = " *" if size.extrapolated and size.trained else ""  # explained below the table
    return name, flops, f"{size.baseline_loss:.4g}", f"{size.loss:.4g}", f"{speed_up(size)}{mark}", str(size.n)


def remarks(one: SizeComparison) -> Iterator[str]:
    """Yield what the numbers mean, and how far the law holds."""
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
