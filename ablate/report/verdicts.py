"""From final metrics to verdicts: one `Effect` for each comparison of the plan and each metric of the judge."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ablate import statistics
from ablate.plan.plan import Comparison, Plan, Variant
from ablate.report.finals import Finals
from ablate.report.pairing import Pairs, Side, pair, sides
from ablate.report.summary import Arm, Effect, Level, Metric, Summary, Verdict
from ablate.space.documents import Judge, Judged
from ablate.statistics import Paired


def judge(plan: Plan, rules: Judge, finals: Finals) -> Summary:
    """Judge every comparison of `plan` on every metric of `rules`, with the trials that have ended so far.

    Holm's correction covers, for each metric, the comparisons of one kind: the edits are one family, the comparisons
    with the baseline another.
    """
    of = sides(plan, finals)
    baseline = plan.variant(plan.baseline)
    metrics = tuple(_metric(name, judged, baseline.name, of[baseline.id]) for name, judged in rules.metrics.items())
    effects: dict[tuple[int, int], Effect] = {}
    for column, metric in enumerate(metrics):
        for kind in dict.fromkeys(comparison.kind for comparison in plan.comparisons):
            family = {row: c for row, c in enumerate(plan.comparisons) if c.kind == kind}
            found = _judge_family(list(family.values()), metric, of, rules.confidence)
            effects.update({(row, column): effect for row, effect in zip(family, found, strict=True)})
    return Summary(
        space=plan.space,
        question=plan.question,
        design=plan.design,
        baseline=baseline.name,
        confidence=rules.confidence,
        metrics=metrics,
        arms=tuple(_arm(variant, of[variant.id], metrics) for variant in plan.variants),
        effects=tuple(effects[place] for place in sorted(effects)),
        notes=plan.notes,
    )


def absolute_margin(margin: str | float, *, log: bool, baseline_mean: float | None) -> float | None:
    """A margin on its metric's own scale: a number as it is, `5%` of the baseline's mean, on the log scale log 1.05.

    None for `none`, for a margin relative to a mean that does not exist, and for one that comes out as zero.

    >>> absolute_margin("1%", log=False, baseline_mean=-2.5)
    0.025
    """
    if isinstance(margin, float):
        return margin
    if not margin.endswith("%"):
        return None
    share = float(margin[:-1]) / 100
    return (math.log1p(share) if log else share * abs(baseline_mean or 0.0)) or None


def _metric(name: str, judged: Judged, baseline: str, side: Side) -> Metric:
    log = judged.scale == "log"
    values = side.values(name, log=log)
    mean = float(np.mean(list(values.values()))) if values else None
    margin = absolute_margin(judged.margin, log=log, baseline_mean=mean)
    stated = f"{judged.margin:g}" if isinstance(judged.margin, float) else judged.margin.replace("%", " %")
    reason = ""
    if margin is None:
        declared = stated.endswith("%")
        value = "has no value yet" if mean is None else "gives a margin of 0"
        reason = f"{stated} of {baseline}'s mean {value}" if declared else "no margin declared"
    return Metric(
        name=name, scale=judged.scale, better=judged.better, margin=margin, stated=stated, why_no_margin=reason
    )


def _arm(variant: Variant, side: Side, metrics: Sequence[Metric]) -> Arm:
    levels = {metric.name: _level(side.values(metric.name, log=metric.log), log=metric.log) for metric in metrics}
    return Arm(
        variant=variant.id,
        name=variant.name,
        edits=variant.edits,
        parameters=variant.parameters,
        flops=variant.flops,
        finished=len(side.finished),
        diverged=len(side.diverged),
        missing=tuple(sorted(side.missing.items())),
        levels={name: level for name, level in levels.items() if level is not None},
    )


def _level(values: Mapping[int, float], *, log: bool) -> Level | None:
    if not values:
        return None
    numbers = np.array(list(values.values()))
    numbers = np.log(numbers) if log else numbers
    mean = float(numbers.mean())
    sd = statistics.spread(numbers, of=float(log)) if numbers.size > 1 else None
    return Level(mean=math.exp(mean) if log else mean, sd=sd, n=numbers.size)


def _judge_family(
    family: Sequence[Comparison], metric: Metric, of: Mapping[str, Side], confidence: float
) -> list[Effect]:
    pairs = [pair(of[c.before], of[c.after], metric.name, log=metric.log) for c in family]
    tests = [
        statistics.paired(p.before, p.after, log=metric.log, confidence=confidence) if p.n > 1 else None for p in pairs
    ]
    adjusted = statistics.holm([test.p if test else None for test in tests])
    alpha = (1 - confidence) / len(family)
    return [
        _effect(c, metric, of[c.before], of[c.after], p, test, p_adjusted, confidence, alpha)
        for c, p, test, p_adjusted in zip(family, pairs, tests, adjusted, strict=True)
    ]


def _effect(
    comparison: Comparison,
    metric: Metric,
    before: Side,
    after: Side,
    pairs: Pairs,
    test: Paired | None,
    p_adjusted: float | None,
    confidence: float,
    family_alpha: float,
) -> Effect:
    lost = before.lost or after.lost
    significant = p_adjusted is not None and p_adjusted < 1 - confidence
    verdict = "diverged" if lost else _verdict(test, metric, significant)
    return Effect(
        kind=comparison.kind,
        metric=metric.name,
        change=comparison.change,
        before=comparison.before,
        after=comparison.after,
        n=pairs.n,
        ended_before=before.ended,
        ended_after=after.ended,
        diverged_before=len(before.diverged),
        diverged_after=len(after.diverged),
        estimate=test.mean if test else _single(pairs, metric),
        low=test.low if test else None,
        high=test.high if test else None,
        tost_low=test.tost_low if test else None,
        tost_high=test.tost_high if test else None,
        p=test.p if test else None,
        p_adjusted=p_adjusted,
        scale=metric.scale,
        margin=metric.margin,
        verdict=verdict,
        differs=verdict == "equivalent" and significant,
        seeds_needed=_seeds(test, metric, confidence, family_alpha) if test and verdict == "undecided" else None,
        note="; ".join(_notes(before, after, pairs, test, metric, verdict)),
    )


def _single(pairs: Pairs, metric: Metric) -> float | None:
    if pairs.n != 1:
        return None
    (x,), (y,) = pairs.before, pairs.after
    return math.log(y / x) if metric.log else y - x


def _verdict(test: Paired | None, metric: Metric, significant: bool) -> Verdict:
    """Inside the margin comes first: a difference too small to matter is not better, however sure it is."""
    if test is None:
        return "undecided"
    if metric.margin is not None and test.inside(metric.margin):
        return "equivalent"
    if significant:
        return "better" if (test.mean < 0) == (metric.better == "lower") else "worse"
    return "undecided"


def _seeds(test: Paired, metric: Metric, confidence: float, family_alpha: float) -> int | None:
    """How many pairs would decide; always more than there are."""
    if test.sd == 0:
        if metric.margin is not None and abs(test.mean) < metric.margin:
            return statistics.seeds_for_signs(2 * (1 - confidence))
        return statistics.seeds_for_signs(family_alpha) if test.mean else None
    sd = statistics.sd_upper(test.sd, test.n)
    found = statistics.seeds_for_power(test.mean, sd, alpha=family_alpha)
    if metric.margin is not None:
        narrow = statistics.seeds_for_margin(sd, metric.margin, confidence=confidence)
        # A difference beyond the margin is decided by finding it, which can take far fewer than a narrow interval.
        ways = [n for n in (narrow, found if abs(test.mean) > metric.margin else None) if n is not None]
        found = min(ways, default=None)
    return None if found is None else max(found, test.n + 1)


def _notes(before: Side, after: Side, pairs: Pairs, test: Paired | None, metric: Metric, verdict: Verdict) -> list[str]:
    notes = []
    if before.diverged or after.diverged:
        counts = (
            f"{len(before.diverged)} of {before.ended} diverged before, {len(after.diverged)} of {after.ended} after"
        )
        notes.append(counts if verdict == "diverged" else f"the difference is about survivors: {counts}")
    reasons: dict[str, list[int]] = {}
    for seed, reason in pairs.unpaired.items():
        if seed not in before.diverged and seed not in after.diverged:
            reasons.setdefault(reason, []).append(seed)
    notes += [
        f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))} not paired: {reason}"
        for reason, seeds in reasons.items()
    ]
    if verdict == "diverged":
        return notes
    if pairs.n == 0:
        notes.append("no seed has a result on both sides")
    elif pairs.n == 1:
        notes.append("one pair has no spread to judge by, two or more seeds do")
    elif test and test.sd == 0:
        same = "the two sides are identical" if test.mean == 0 else "the difference is the same"
        notes.append(f"{same} at every seed: no spread, so the sign test decides")
    return notes
