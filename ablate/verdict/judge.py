"""Judge: from final metrics to verdicts, one `Effect` for each comparison of the plan and each metric of the judge."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from ablate import statistics
from ablate.output import words
from ablate.plan.plan import Comparison, Plan
from ablate.space.judge import Judge
from ablate.space.metrics import BITS, LOSSES, Better
from ablate.statistics.spread import log_ratio, logarithms, magnitude, times
from ablate.verdict.claims import correlations, expectations
from ablate.verdict.contrasts import (
    Contrast,
    Difference,
    FactorialEffect,
    SpeedUpTrend,
    WeightedSum,
    comparison_id,
    contrasts,
    is_tested_on,
    weights_of,
)
from ablate.verdict.experiment import Experiment, Finals, Seed, Side, Treatment, experiment_of, names_of, pair
from ablate.verdict.hypothesis_test import TIED, Ruling, Tested, missing, test_pairs
from ablate.verdict.interim import Findings, InterimAnalyses, InterimAnalysis, analyse_looks, lost, stand, the_same
from ablate.verdict.judgement import (
    FIRST,
    Account,
    carried_over,
    judgement_notes,
    judgement_of,
    metric_families,
    settled,
)
from ablate.verdict.ladder import size_comparisons
from ablate.verdict.multiplicity import NOTHING, Corrected, adjusted_interval
from ablate.verdict.power import seeds_needed
from ablate.verdict.summary import (
    Anova,
    Arm,
    Effect,
    Judgement,
    Level,
    Metric,
    SizeComparison,
    Summary,
    Verdict,
    better_of,
    verdict_of,
)

IDENTICAL = "identical at every seed; more seeds change nothing"
NEW: Account = MappingProxyType({})  # the account of a question that was never judged before


def judge(design: Plan | Experiment, rules: Judge, finals: Finals, account: Account = NEW) -> Summary:
    """Judge every comparison of a plan, or of an experiment without one, on every metric of `rules`.

    Holm's correction covers all distinct comparisons on a metric, or on the page where `rules.family` says so, also
    those that could not be made, but none with noise. The chance that any `better` or `worse` is false is at most 1 -
    `rules.confidence`, and so is that of any `equivalent`, over all judgements together: the `account` says which
    judgement of each comparison this is, over how many, and what the earlier ones found (default: it is the first).
    Before all trials have ended there are numbers and no verdicts.
    """
    experiment = design if isinstance(design, Experiment) else experiment_of(design)
    analyses = analyse_looks(experiment, rules, finals, account)
    look = analyses.look
    effects = [
        _noise(comparison, metric, analyses.every, rules)
        if question is None
        else _effect(comparison, question, metric.name, analyses, account)
        for comparison, question in zip(experiment.comparisons, contrasts(experiment), strict=True)
        for metric in look.metrics
        if question is None or is_tested_on(question, metric.name)
    ]
    judgements = tuple(_judgements(experiment, rules, analyses, account))
    several = len(rules.metrics) > 1
    arms = tuple(_arm(v, look.sides.get(v.id, analyses.every[v.id]), look.metrics) for v in experiment.variants)
    return Summary(
        space=experiment.space,
        question=experiment.question,
        design=experiment.design,
        baseline=experiment.variant(experiment.baseline).name,
        confidence=rules.confidence,
        metrics=look.metrics,
        arms=arms,
        effects=tuple(effects),
        notes=(*experiment.notes, *_looking(experiment, analyses), *judgement_notes(judgements, several=several)),
        looks=experiment.looks,
        looked=analyses.looked,
        factors=experiment.factors,
        anova=tuple(_anova(look)),
        front=pareto_front(look.sides, look.metrics),
        family=rules.family,
        tests=max((judgement.tests for judgement in judgements), default=0),
        judgements=judgements,
        elsewhere=experiment.elsewhere,
        expectations=expectations(
            rules.expect,
            {name: judged.better for name, judged in rules.metrics.items()},
            names_of(experiment),
            experiment.comparisons,
            effects,
            correlations(
                rules.expect,
                look.sides,
                experiment.forecasts,
                look.seeds,
                judgements,
                looks=len(experiment.looks),
            ),
        ),
        ladders=tuple(_ladders(experiment, look, rules)),
        profile=experiment.profile,
    )


def _ladders(experiment: Experiment, look: InterimAnalysis, rules: Judge) -> Iterator[SizeComparison]:
    for terms, ladder in experiment.ladders:
        for metric in look.metrics:
            if metric.name in LOSSES:
                yield from size_comparisons(experiment, ladder, terms, metric, look.sides, rules.confidence)


def _effect(
    comparison: Comparison, question: Contrast, name: str, analyses: InterimAnalyses, account: Account
) -> Effect:
    """The numbers are those of the look that found it, or of the last look where nothing was found."""
    now, held, request = analyses.look, account.get(name, FIRST), (name, question)
    own = held.of(name, comparison_id(question))
    findings = stand(request, analyses.looks, analyses.held[request])
    diverged = lost(question, now)
    look = now if diverged or findings.shown is None else findings.shown
    metric = next(metric for metric in look.metrics if metric.name == name)
    test = _test_of(comparison, question, name, look)
    before, after = _two_sides(comparison, question, look)
    verdict = _verdict(findings, test, diverged=diverged, better=better_of(comparison.kind, metric.better))
    corrected = look.corrected[request]
    judged = analyses.left == 0 and held.counted
    same = judged and the_same(request, now)
    more = verdict == "undecided" and judged and not same
    effect = _filled(
        comparison,
        metric,
        before,
        after,
        test,
        corrected,
        verdict=verdict,
        differs=verdict == "equivalent" and findings.difference is not None,
        seeds=seeds_needed(test, metric, look.rulings[request]) if more else None,
        identical=same,
        notes=[
            *([IDENTICAL] if same else []),
            *(note for note in _notes(question, before, after, test, metric, verdict) if not same or note != TIED),
            *_over_looks(comparison, question, metric, findings, look, now),
        ],
    )
    if isinstance(question, SpeedUpTrend):  # a ratio of compute, whatever the metric's scale, without a margin
        effect = replace(effect, scale="log", margin=None)
    effect = replace(effect, level=analyses.held[request], judgement=own.number)
    if (adjusted := adjusted_interval(test, corrected, verdict)) is not None:
        effect = replace(
            effect,
            adjusted_low=adjusted.low,
            adjusted_high=adjusted.high,
            adjusted_confidence=adjusted.confidence,
        )
    if own.earlier is None:
        return effect
    if own.state == "settled":
        return settled(effect, own.earlier)
    return carried_over(effect, own.earlier, len(now.seeds))


def _test_of(comparison: Comparison, question: Contrast, name: str, look: InterimAnalysis) -> Tested:
    test = look.tested[name, question]
    turned = isinstance(question, Difference) and comparison.before != question.first
    return test.mirrored() if turned else test


def _over_looks(
    comparison: Comparison,
    question: Contrast,
    metric: Metric,
    findings: Findings,
    shown: InterimAnalysis,
    now: InterimAnalysis,
) -> Iterator[str]:
    def at(look: InterimAnalysis) -> str:
        test = _test_of(comparison, question, metric.name, look)
        seen = words.interval(test.estimate, test.low, test.high, log=metric.log)
        return seen if test.ranks is None else f"{seen} among survivors, p = {words.chance(test.ranks.p)} by ranks"

    last = len(now.seeds)
    if shown is not now:
        yield f"found at {len(shown.seeds)} seeds; at all {last}: {at(now)}"
    if findings.inside is not None and findings.difference not in (None, shown):
        assert findings.difference is not None
        yield f"a difference was found at {len(findings.difference.seeds)} seeds: {at(findings.difference)}"
    for look, what in ((findings.no_difference, "a difference"), (findings.not_inside, "equivalence")):
        if look is not None:
            yield f"{what} was found at {len(look.seeds)} seeds: {at(look)}; no longer at all {last}: {at(now)}"


def _noise(comparison: Comparison, metric: Metric, of: Mapping[str, Side], rules: Judge) -> Effect:
    """An A/A effect: an interval over the seeds that both have, and no verdict."""
    before, after = of[comparison.before], of[comparison.after]
    among = before.seeds & after.seeds
    before, after = before.at(among), after.at(among)
    alpha = 1 - rules.confidence
    ruling = Ruling(confidence=rules.confidence, level=alpha, tests=1, next_level=alpha)
    test = test_pairs(pair(before, after, metric.name, log=metric.log), metric, ruling)
    verdict: Verdict = "diverged" if before.lost or after.lost else "undecided"
    question = Difference(comparison.before, comparison.after)
    notes = _notes(question, [before], [after], test, metric, verdict)
    return _filled(comparison, metric, [before], [after], test, NOTHING, verdict=verdict, notes=notes)


def _filled(
    comparison: Comparison,
    metric: Metric,
    before: Sequence[Side],
    after: Sequence[Side],
    test: Tested,
    corrected: Corrected,
    *,
    verdict: Verdict,
    differs: bool = False,
    seeds: int | None = None,
    identical: bool = False,
    notes: Sequence[str] = (),
) -> Effect:
    return Effect(
        kind=comparison.kind,
        metric=metric.name,
        change=comparison.change,
        before=comparison.before,
        after=comparison.after,
        n=test.n,
        ended_before=sum(side.ended for side in before),
        ended_after=sum(side.ended for side in after),
        diverged_before=sum(len(side.diverged) for side in before),
        diverged_after=sum(len(side.diverged) for side in after),
        unusable_before=sum(len(side.unusable(metric.name, log=metric.log)) for side in before),
        unusable_after=sum(len(side.unusable(metric.name, log=metric.log)) for side in after),
        estimate=test.estimate,
        low=test.low,
        high=test.high,
        tost_low=test.tost_low,
        tost_high=test.tost_high,
        p=test.p,
        p_adjusted=corrected.p_adjusted,
        scale=metric.scale,
        margin=metric.margin,
        verdict=verdict,
        differs=differs,
        seeds_needed=seeds,
        identical=identical,
        note="; ".join(notes),
        terms=comparison.terms,
        q=corrected.q,
        p_equivalent=test.p_equivalent,
        p_equivalent_adjusted=corrected.p_equivalent_adjusted,
        method=test.method,
        df=test.df,
        sd=test.sd,
        ranked=0 if test.ranks is None else test.ranks.n,
        rank_sum=None if test.ranks is None else test.ranks.total,
    )


def _verdict(findings: Findings, test: Tested, *, diverged: bool, better: Better) -> Verdict:
    """Equivalence comes first, however certain a small difference."""
    if diverged:
        return "diverged"
    if findings.inside is not None:
        return "equivalent"
    if findings.difference is not None:
        return verdict_of(test.up, better, by_rank=test.ranks is not None)
    return "undecided"


def _two_sides(comparison: Comparison, question: Contrast, look: InterimAnalysis) -> tuple[list[Side], list[Side]]:
    """The variants that enter the contrast with a minus, and those with a plus."""
    if isinstance(question, Difference):
        return [look.sides[comparison.before]], [look.sides[comparison.after]]
    if isinstance(question, SpeedUpTrend):
        before, after = zip(*question.pairs, strict=True)
        return [look.sides[variant] for variant in before], [look.sides[variant] for variant in after]
    if isinstance(question, WeightedSum):
        signs = list(question.weights)
    else:
        assert isinstance(question, FactorialEffect)
        signs = weights_of(question, next(f for _, f in look.factors if f.runs == question.runs))
    return (
        [look.sides[variant] for variant in dict.fromkeys(v for v, sign in signs if sign < 0)],
        [look.sides[variant] for variant in dict.fromkeys(v for v, sign in signs if sign > 0)],
    )


def _notes(
    question: Contrast, before: Sequence[Side], after: Sequence[Side], test: Tested, metric: Metric, verdict: Verdict
) -> list[str]:
    notes = []
    ends = [(sum(len(s.diverged) for s in of), sum(s.ended for s in of)) for of in (before, after)]
    (k, n), (other, total) = ends
    ranked = test.method == "mann_whitney" and metric.better != "none"  # diverged runs are in that difference
    if (k or other) and not ranked and not isinstance(question, FactorialEffect | SpeedUpTrend):
        where = ("before", "after") if isinstance(question, Difference) else ("subtracted", "added")
        counts = f"{k} of {n} diverged {where[0]}, {other} of {total} {where[1]}"
        notes.append(counts if verdict == "diverged" else f"the difference is over survivors only: {counts}")
    if isinstance(question, Difference):
        (x,), (y,) = before, after
        paired = question.paired
        left_out = pair(x, y, metric.name, log=metric.log).unpaired if paired else _left_out(x, y, metric)
        known = {seed: why for seed, why in left_out.items() if seed not in x.diverged and seed not in y.diverged}
        notes += missing(known, "not paired" if paired else "left out")
    return notes if verdict == "diverged" and isinstance(question, Difference) else [*notes, *test.notes]


def _left_out(before: Side, after: Side, metric: Metric) -> Mapping[Seed, str]:
    reasons: dict[Seed, list[str]] = {}
    for side, where in ((before, "before"), (after, "after")):
        values = side.values(metric.name, log=metric.log)
        for seed in sorted(side.seeds.difference(values)):
            reasons.setdefault(seed, []).append(f"{side.why_not(seed, metric.name)} {where}")
    return {seed: ", ".join(whys) for seed, whys in reasons.items()}


def _arm(variant: Treatment, side: Side, metrics: Sequence[Metric]) -> Arm:
    levels = {metric.name: _level(side.values(metric.name, log=metric.log), log=metric.log) for metric in metrics}
    return Arm(
        variant=variant.id,
        name=variant.name,
        edits=variant.edits,
        parameters=variant.parameters,
        flops=variant.flops,
        training_flops=variant.training_flops,
        finished=len(side.finished),
        diverged=len(side.diverged),
        missing=tuple(sorted(side.missing.items())),
        levels={name: level for name, level in levels.items() if level is not None},
        steps=variant.steps,
        bits=_level(side.values(BITS, log=False), log=False),
    )


def _level(values: Mapping[Seed, float], *, log: bool) -> Level | None:
    if not values:
        return None
    numbers = np.array(list(values.values()))
    k = magnitude(numbers) if log else 0
    numbers = logarithms(numbers, k) if log else numbers
    mean = float(numbers.mean())
    sd = statistics.spread(numbers, of=float(log)) if numbers.size > 1 else None
    return Level(mean=times(math.exp(mean), k) if log else mean, sd=sd, n=numbers.size)


def _anova(look: InterimAnalysis) -> Iterator[Anova]:
    for (metric, terms), analysed in look.factorials.items():
        for line in analysed.lines:
            yield Anova(
                metric=metric,
                terms=terms,
                term=line.term,
                sum_of_squares=line.sum_of_squares,
                df=line.df,
                f=line.f,
                p=line.p,
            )
        if shape := analysed.sphericity:
            yield Anova(metric=metric, terms=terms, term="sphericity", p=shape.p, u=shape.u)


def _looking(experiment: Experiment, analyses: InterimAnalyses) -> Iterator[str]:
    looks, seeds = experiment.looks, experiment.seeds
    if looks and analyses.looked is None:
        yield f"nothing is judged before the first look, at {looks[0]} seeds: not all of its trials have ended"
    elif looks and analyses.looked != len(seeds) and analyses.look.seeds != seeds:
        yield f"judged at {analyses.looked} of {len(seeds)} seeds: the rest have not all ended, or were added later"


def _judgements(
    experiment: Experiment, rules: Judge, analyses: InterimAnalyses, account: Account
) -> Iterator[Judgement]:
    for metrics in metric_families(rules):
        judgement = judgement_of(experiment, rules, metrics, account)
        pending = ""
        if analyses.left:
            pending = f"{analyses.left} of {analyses.planned} trials have not ended; they follow once all have"
        elif not account.get(metrics[0], FIRST).counted and judgement.tested:
            pending = "these seeds are not in the record of questions; `ablate run` adds them"
        yield replace(judgement, pending=pending)


# The Pareto front: the variants that no other variant dominates.


def pareto_front(of: Mapping[str, Side], metrics: Sequence[Metric]) -> tuple[str, ...]:
    """The ids of the variants on the Pareto front by means: no other is at least as good on every metric that has a
    better side, and better on one.

    Two are compared at the seeds that both have, metric by metric, so that none wins by having lost the hard ones;
    without a common seed neither dominates the other. Empty for fewer than two such metrics. Variants without a value
    on some of them are not on the front and dominate none. Noise is ignored, so being on the front is not a verdict.
    """
    metrics = [metric for metric in metrics if metric.better != "none"]
    if len(metrics) < 2:
        return ()
    valued = [id for id, side in of.items() if all(side.values(metric.name, log=metric.log) for metric in metrics)]
    return tuple(
        id for id in valued if not any(_dominates(of[other], of[id], metrics) for other in valued if other != id)
    )


def _dominates(other: Side, here: Side, metrics: Sequence[Metric]) -> bool:
    gains = [_mean_gain(other, here, metric) for metric in metrics]
    known = [gain for gain in gains if gain is not None]
    return len(known) == len(gains) and all(gain >= 0 for gain in known) and any(gain > 0 for gain in known)


def _mean_gain(other: Side, here: Side, metric: Metric) -> float | None:
    """The gain of the other on average over common seeds; the mean log ratio on the log scale."""
    pairs = pair(here, other, metric.name, log=metric.log)
    if not pairs.n:
        return None
    rises = [log_ratio(x, y) if metric.log else y - x for x, y in zip(pairs.before, pairs.after, strict=True)]
    return math.fsum(rises) / pairs.n * (-1 if metric.better == "lower" else 1)
