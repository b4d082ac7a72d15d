"""A ladder's numbers on one metric: the trend of a speed-up as a test, and the speed-up at each size."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from ablate import statistics
from ablate.output.words import chance, plural
from ablate.plan.plan import PlannedLadder
from ablate.statistics import SizeLadder
from ablate.statistics.spread import logarithms, magnitude, times
from ablate.verdict.contrasts import SpeedUpTrend, trend_of
from ablate.verdict.experiment import Experiment, Seed, Side, pair
from ablate.verdict.hypothesis_test import Ruling, Tested
from ablate.verdict.summary import Metric, SizeComparison, SizeResult

PER_TENFOLD = math.log(10)  # a trend is told for ten times the training compute
BENT = 0.05  # the p of a law's curvature below which it is told
FEWEST = 2  # the fewest seeds of a size that tell its noise


def test_trend(
    question: SpeedUpTrend,
    sides: Mapping[str, Side],
    compute: Mapping[str, float | None],
    metric: Metric,
    ruling: Ruling,
) -> Tested:
    """Test whether a treatment's speed-up grows or shrinks over sizes.

    The estimate is the logarithm of the factor by which it grows for ten times the training compute. Where a run has
    no usable loss it is not tested: the sizes at which runs are lost would decide it.
    """
    lost = _lost(question, sides, metric)
    try:
        baseline, treatment = _ladders(question, sides, compute, metric)
        trend = statistics.trend(
            baseline, treatment, paired=question.paired, kind=question.law, level=ruling.confidence
        )
        bent = statistics.fit_law(baseline, kind=question.law).curvature_p
    except ValueError as error:
        return Tested(n=0, notes=(str(error), *lost), method="simulated_t")
    n = min(map(len, (*baseline.losses, *treatment.losses)))
    if trend is None:
        return Tested(n=n, notes=("a speed-up is infinite: its trend has no slope",), method="simulated_t")
    tested = Tested(
        n=n,
        estimate=trend.slope * PER_TENFOLD,
        low=trend.low * PER_TENFOLD,
        high=trend.high * PER_TENFOLD,
        df=trend.df,
        p=trend.p,
        method="simulated_t",
        error=trend.error * PER_TENFOLD,
        critical=trend.critical,
        notes=_bending(bent, question.law),
    )
    return replace(tested, p=None, error=None, notes=(f"not judged: {'; '.join(lost)}",)) if lost else tested


def _bending(p: float, law: str) -> tuple[str, ...]:
    if p >= BENT:
        return ()
    other = ", or try law: saturating" if law == "power" else ""
    return (
        f"the losses of the baseline bend away from the {law} law (p = {chance(p)}), which tilts speed-ups and their "
        f"trend: use larger or more sizes{other}",
    )


def size_comparisons(
    experiment: Experiment,
    ladder: PlannedLadder,
    terms: str,
    metric: Metric,
    sides: Mapping[str, Side],
    confidence: float,
) -> Iterator[SizeComparison]:
    """Yield the speed-ups of each treatment by a metric's laws: at the sizes trained, and at the next size."""
    compute = {variant.id: variant.compute for variant in experiment.variants}
    unpaired = {
        ladder.treatment_of(comparison.change)
        for comparison in experiment.comparisons
        if comparison.kind == "trend" and comparison.terms == terms and comparison.unpaired
    }
    for treatment in ladder.treatments:
        question = trend_of(ladder, treatment, paired=treatment not in unpaired)
        bare = SizeComparison(
            terms=terms, metric=metric.name, baseline=ladder.baseline, treatment=treatment, law=ladder.law
        )
        try:
            ladders = _ladders(question, sides, compute, metric)
            yield _compared(bare, ladder, question, ladders, confidence)
        except ValueError as error:
            yield replace(bare, why=str(error))


def _compared(
    bare: SizeComparison,
    ladder: PlannedLadder,
    question: SpeedUpTrend,
    ladders: tuple[SizeLadder, SizeLadder],
    confidence: float,
) -> SizeComparison:
    baseline, treatment = ladders
    found = statistics.speed_ups(baseline, treatment, paired=question.paired, kind=question.law, level=confidence)
    law = statistics.fit_law(baseline, kind=question.law, level=confidence)
    sizes = [
        SizeResult(
            size=step.size,
            before=before,
            after=after,
            baseline_compute=baseline.compute[k],
            compute=speed_up.compute,
            baseline_loss=_mean(baseline.losses[k], question.law),
            loss=_mean(treatment.losses[k], question.law),
            speed_up=speed_up.speed_up,
            low=speed_up.low,
            high=speed_up.high,
            extrapolated=speed_up.extrapolated,
            n=min(speed_up.n),
        )
        for k, (step, (before, after), speed_up) in enumerate(zip(ladder.steps, question.pairs, found, strict=True))
    ]
    n = min(size.n for size in sizes)
    there = dict(ladder.next_compute)
    ahead = statistics.next_size(
        baseline,
        treatment,
        compute=there.get(ladder.baseline) or baseline.compute[-1] ** 2 / baseline.compute[-2],
        treatment_compute=there.get(bare.treatment) or treatment.compute[-1] ** 2 / treatment.compute[-2],
        n=n,
        paired=question.paired,
        kind=question.law,
        level=confidence,
    )
    sizes.append(
        SizeResult(
            size=ladder.next or "next",
            baseline_compute=ahead.compute,
            compute=ahead.treatment_compute,
            baseline_loss=ahead.baseline,
            loss=ahead.treatment,
            speed_up=ahead.speed_up,
            low=ahead.low,
            high=ahead.high,
            extrapolated=True,
            n=n,
            trained=False,
            cost=ahead.cost,
            decided=ahead.decided,
            better=ahead.better,
        )
    )
    return replace(
        bare,
        sizes=tuple(sizes),
        exponent=law.exponent,
        exponent_low=law.exponent_low,
        exponent_high=law.exponent_high,
        factor=law.factor,
        irreducible=law.irreducible if question.law == "saturating" else None,
        curvature_p=law.curvature_p,
        spent=sum(n * each for each in (*baseline.compute, *treatment.compute)),
    )


def _mean(losses: tuple[float, ...], law: str) -> float:
    """The mean, geometric for a power law."""
    if law == "power":
        k = magnitude(losses)
        return times(math.exp(float(logarithms(losses, k).mean())), k)
    return sum(losses) / len(losses)


def _ladders(
    question: SpeedUpTrend, sides: Mapping[str, Side], compute: Mapping[str, float | None], metric: Metric
) -> tuple[SizeLadder, SizeLadder]:
    """The losses of both at each size; ValueError where a size has too few, or its compute is not known."""
    sizes = [_losses(sides[before], sides[after], metric, question) for before, after in question.pairs]
    if short := [number for number, both in enumerate(sizes, 1) if min(map(len, both)) < FEWEST]:
        which = f"size {short[0]} has" if len(short) == 1 else f"{len(short)} sizes have"
        raise ValueError(f"no law: {which} fewer than {FEWEST} seeds with a loss on both sides")
    known = [[compute[variant] for variant in pair_of] for pair_of in question.pairs]
    flops = [tuple(each for each in column if each is not None) for column in zip(*known, strict=True)]
    if any(len(column) < len(question.pairs) for column in flops):
        raise ValueError("no law: the training compute of a size is not known yet")
    before, after = (
        SizeLadder(
            compute=column,
            losses=tuple(tuple(both[side].values()) for both in sizes),
            seeds=tuple(tuple(both[side]) for both in sizes),
        )
        for side, column in enumerate(flops)
    )
    return before, after


def _losses(
    before: Side, after: Side, metric: Metric, question: SpeedUpTrend
) -> tuple[Mapping[Seed, float], Mapping[Seed, float]]:
    if question.paired:
        pairs = pair(before, after, metric.name, log=True)
        x, y = (dict(zip(pairs.seeds, side, strict=True)) for side in (pairs.before, pairs.after))
        return x, y
    return before.values(metric.name, log=True), after.values(metric.name, log=True)


def _lost(question: SpeedUpTrend, sides: Mapping[str, Side], metric: Metric) -> list[str]:
    gone = [
        sum(len(sides[variant].without(metric.name, log=True)) for variant in variants) for variants in question.pairs
    ]
    if not any(gone):
        return []
    return [f"{plural(sum(gone), 'run')} diverged, at {plural(sum(map(bool, gone)), 'size')}"]
