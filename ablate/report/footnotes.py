"""The meaning of the numbers of the screen, and the peculiarities of some of them: sentences from a summary."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping

from ablate.output.words import factor, listed, ordinal, percent, plural
from ablate.plan.plan import INFORMATION
from ablate.report.wording import better, left_aside, plain_level, with_fate
from ablate.space.metrics import DIRECTIONS, NATS, directions
from ablate.space.vary import level_texts
from ablate.statistics import POWER, SD_LEVEL, fewest_seeds
from ablate.statistics.multiple_testing import SHARE_LEFT
from ablate.statistics.paired import flips_from
from ablate.verdict.contrasts import FUNCTIONS
from ablate.verdict.judgement import any_false
from ablate.verdict.summary import Effect, Metric, Summary

FACTORIAL = ("main", "interaction")

SPHERICITY = (
    "sphericity: whether all contrasts of the runs vary equally over seeds (John's U; p by simulation); where p is "
    "small, one error term for all effects would be wrong"
)
COVERED = (
    "an interval covers what varies over seeds: initialisation, the order of the data and the choice of held-out data; "
    "all variants of one seed share its batches and its held-out data"
)
UNPAIRED = "where both sides see other batches (another batch size, context or data) they are two samples, by Welch's t"
TWO_SAMPLES = "two samples of runs without partners, by Welch's t"
WITHOUT_PARTNERS = {
    "mann_whitney": "the median of that over all runs of both sides, with Moses' interval; p by ranks of the two "
    "samples, exact (Mann–Whitney): it says which side tends to be lower, and errs more often where one is noisier; a "
    "bound of the interval may be 0 where runs tie, as p counts ties and the interval does not",
    "strata": "the mean over strata of the difference in each; its error is from how runs vary within them",
    "floor": "by t with the noise s of other runs, error s √(1/n + 1/m): it holds if these runs have that noise, and "
    "not of a noisier one; with tails as heavy as those of t with 3 degrees of freedom 7 % of single comparisons are "
    "false at 4 %, and one of 5 candidates in up to 13 %",
}
COVERED_ELSEWHERE = (
    "an interval covers what differs between the seeds of the table; whether the runs of one seed share everything "
    "else is known only to whoever trained them"
)
INTERACTIONS = {
    "leave_one_out": "the whole difference minus the sum of what each edit does with all others present",
    "add_one_in": "the whole difference minus the sum of what each edit does alone",
}
"""The meaning of an interaction, by design; otherwise it is what two edits do together beyond their sum."""


def warnings(notes: Iterable[str]) -> tuple[str, ...]:
    return tuple(note for note in notes if not note.startswith(INFORMATION))


def information(notes: Iterable[str]) -> tuple[str, ...]:
    return tuple(note for note in notes if note.startswith(INFORMATION))


def peculiarities(summary: Summary) -> list[str]:
    edits = {(effect.before, effect.after) for effect in summary.effects if effect.kind == "edit"}
    metrics_by_note: dict[tuple[str, str], dict[str, list[str]]] = {}
    for effect in summary.effects:
        repeated = effect.kind == "baseline" and (effect.before, effect.after) in edits
        for note, about in () if repeated else _notes(effect):
            subjects = metrics_by_note.setdefault((note, about), {}).setdefault(_subject(effect, summary), [])
            if effect.metric not in subjects:
                subjects.append(effect.metric)
    effects = {effect.change for effect in summary.effects if effect.kind in FACTORIAL}
    lines = []
    for (note, about), metrics_of in metrics_by_note.items():
        for metrics in dict.fromkeys(tuple(each) for each in metrics_of.values()):
            names = [subject for subject, each in metrics_of.items() if tuple(each) == metrics]
            every = about == "factorial" and len(names) > 1 and set(names) == effects
            text = f"{'every effect' if every else listed(names)}: {note}"
            lines.append(text if len(metrics) == len(summary.metrics) else f"{text} ({', '.join(metrics)})")
    for arm in summary.arms:
        if arm.diverged:
            low, high = arm.success(summary.confidence)
            lines.append(
                f"{arm.name}: {arm.finished} of {plural(arm.ended, 'seed')} finished without diverging, "
                f"a share of {100 * low:.0f} % to {100 * high:.0f} % (Wilson's {percent(summary.confidence)} interval)"
            )
    return lines + list(_looked(summary))


def _notes(effect: Effect) -> list[tuple[str, str]]:
    """Return each note with its subject; those of a factorial mostly apply to all of its effects."""
    if effect.kind in FACTORIAL:
        return [(note, "factorial") for note in effect.note.split("; ") if note]
    return [(effect.note, effect.kind)] if effect.note else []


def _subject(effect: Effect, summary: Summary) -> str:
    if effect.kind == "noise":
        return "A/A"
    return summary.arm(effect.after).name if effect.kind == "baseline" else effect.change


def _looked(summary: Summary) -> Iterator[str]:
    if summary.looked is None:
        return
    among = ", ".join(map(str, summary.looks))
    later = [n for n in summary.looks if n > summary.looked]
    if summary.decided:
        yield f"analysed at {summary.looked} seeds (of {among}): everything is decided, no more seeds are needed"
    elif later:
        yield (
            f"interim analysis at {summary.looked} seeds (of {among}): not everything is decided, the next one is at "
            f"{later[0]}"
        )
    else:
        yield f"analysed at {summary.looked} seeds, the last of {among}: no α is left, so more seeds would find nothing"


NAMED = 8
"""Number of variants up to which bits per byte are listed one by one; beyond it only the least and the largest."""


def in_bits(summary: Summary) -> Iterator[str]:
    """Yield the held-out loss of each variant, if it is judged only in nats per token."""
    arms = [(arm.name, arm.bits) for arm in summary.arms if arm.bits is not None]
    if not summary.bits_beside:
        return
    text = ", ".join(f"{name} {plain_level(level)}" for name, level in arms)
    if len(arms) > NAMED:
        (least, low), *_, (most, high) = sorted(arms, key=lambda arm: arm[1].mean)
        text = f"{plain_level(low)} ({least}) to {plain_level(high)} ({most}), mean ± sd"
    yield f"{NATS} in bits per byte of text: {text}; only these can be compared across tokenizers"


def definitions(summary: Summary, computed: Mapping[str, str]) -> list[str]:
    """Return a line for each metric, which `computed` defines, then one for each kind of number shown."""
    lines = [_metric(metric, computed.get(metric.name, ""), summary.baseline) for metric in summary.metrics]
    lines.append("mean ± sd: over the n seeds that finished" + (_LOG_LEVEL if _any_log(summary) else ""))
    lines += _difference(summary)
    lines += _verdicts(summary)
    lines += _planning(summary)
    if summary.front:
        names = "; ".join(with_fate(summary.arm(variant)) for variant in summary.front)
        lines.append(
            f"Pareto front: {names} (no other variant is better on all metrics at once, by the means over shared seeds"
            f"{left_aside(summary)})"
        )
    return lines


_LOG_LEVEL = "; where differences are ratios, the geometric mean ×÷ the geometric sd"


def any_unpaired(summary: Summary) -> bool:
    return any(effect.method == "welch" for effect in summary.effects)


def without_partners(summary: Summary) -> str:
    methods = {effect.method for effect in summary.effects}
    if known := [text for method, text in WITHOUT_PARTNERS.items() if method in methods]:
        return known[0]
    return TWO_SAMPLES if summary.elsewhere and any_unpaired(summary) else ""


def _difference(summary: Summary) -> Iterator[str]:
    confidence = percent(summary.confidence)
    methods = {effect.method for effect in summary.effects if effect.low is not None}
    kinds = {effect.kind for effect in summary.effects}
    after = "after - before" + (" (× after/before)" if _any_log(summary) else "")
    if kinds & {"edit", "baseline", "noise"}:
        standing = any(_stands(effect, summary) for effect in summary.effects)
        stood = ", or those of the judgement whose verdict stands" if standing else ""
        pairs = f"paired over the n seeds that finished on both sides (in brackets where they are fewer{stood})"
        without = without_partners(summary)
        seeds = f"{pairs}{f'; {UNPAIRED}' if any_unpaired(summary) else ''}"
        yield f"difference: {after}, {without or seeds}"
    yield from _intervals(summary, confidence, methods)
    if "main" in kinds:
        yield (
            "effect of an edit: the mean difference that it makes over the runs of the factorial, by least squares "
            f"with seeds as blocks{_error(summary, confidence)}"
        )
        yield from _of_levels(summary)
    if "interaction" in kinds:
        ratios = " (of ratios, their product)" if _any_log(summary) else ""
        beyond = "what edits do together beyond the sum of what each does without the other"
        if any(factors.varied for _, factors in summary.factors):
            beyond += (
                "; with a trend, how much it changes when the edit is present, or over the range of the other trend"
            )
        yield f"interaction: {INTERACTIONS.get(summary.design.split(' ')[0].rstrip(','), beyond)}{ratios}"
    if methods - {"pooled"}:
        shared = f"{COVERED}, unless its batch size, context or data differ" if any_unpaired(summary) else COVERED
        yield COVERED_ELSEWHERE if summary.elsewhere else shared
    if summary.anova:
        yield "analysis of variance: each sum of squares is that of a term given all others; p is not adjusted"
    squares = [(line.sum_of_squares, line.f) for line in summary.anova]
    if any(size == math.inf or (size == 0 and f) for size, f in squares):
        yield (
            "sum of squares: inf or 0 where squares are beyond the numbers that a computer holds, 1e-308 to 1e308; "
            "F and p are computed from smaller or larger ones, and are right"
        )
    if any(line.term == "error" for line in summary.anova):
        yield f"F: a term against how that term varies over seeds; {SPHERICITY}"
    if "repeated" in methods:
        yield f"repeated intervals: those of all interim analyses hold the true difference with {confidence} confidence"
        yield "a verdict found at an interim analysis keeps the numbers of that analysis"
    if "sign_flip" in methods:
        flipped = [e.level for e in summary.effects if e.method == "sign_flip" and e.level]
        level = max(flipped, default=1 - summary.confidence) / max(1, summary.tests)
        family = f", over {summary.tests} comparisons" if summary.tests > 1 else ""
        yield f"p with {flips_from(level)} pairs or more{family}: by sign flips of the differences, not by t"
    if "noise" in kinds:
        yield (
            "A/A: the baseline with another initialisation but the same batches and held-out data: any difference is "
            "noise, not a finding"
        )


def _of_levels(summary: Summary) -> Iterator[str]:
    for varied in dict.fromkeys(varied for _, factors in summary.factors for varied in factors.varied):
        texts = level_texts(varied.values)
        if varied.scale == "nominal":
            yield f"{varied.address}=…: that level against {texts[0]}, averaged over the other edits and factors"
            continue
        axis = ", on a logarithmic axis" if varied.scale == "log" else ""
        line = f", by the least-squares line over its {len(texts)} levels{axis}" if len(texts) > 2 else ""
        bent = (
            "; curvature: by how much the two ends of that range lie above its middle on the least-squares parabola, 0 "
            "for a straight line"
        )
        trend = f"{varied.address}: trend: the change from {texts[0]} to {texts[-1]}{line}"
        yield trend + (bent if len(texts) > 2 else "")


def _intervals(summary: Summary, confidence: str, methods: Collection[str]) -> Iterator[str]:
    student = "" if not {"repeated", *WITHOUT_PARTNERS}.isdisjoint(methods) else "Student's "
    shown = [effect for effect in summary.effects if effect.low is not None]
    simulated = "; of a trend over sizes by t of simulated ladders" if "simulated_t" in methods else ""
    alone = f"{student}{confidence} interval of one comparison alone{simulated}"
    if not any(effect.adjusted_low is not None for effect in shown):
        if shown:
            yield f"interval: {alone}, not adjusted for multiple comparisons"
        return
    several = f"{summary.tests} comparisons and for " if summary.tests > 1 else ""
    yield (
        f"adjusted interval: adjusted, like the verdict beside it, for {several}judging again, so that the two "
        f"agree: for {listed(findings(summary))} it does not contain zero, for equivalent it lies inside the margin, "
        f"for undecided neither holds; all verdicts hold together with {percent(1 - summary.false_at_most)} confidence"
    )
    others = [effect for effect in shown if effect.adjusted_low is None]
    rest = "; it also stands under `adjusted` where nothing is judged, or ranks decide" if others else ""
    yield f"unadjusted: {alone}; it is narrower, and no verdict is based on it{rest}"


def _error(summary: Summary, confidence: str) -> str:
    terms = {line.term for line in summary.anova}
    if "error" in terms:
        return f"; {confidence} interval from how that effect varies over seeds, separately for each effect"
    return (
        f"; {confidence} interval by t with the residual of all effects as the error" if "lack of fit" in terms else ""
    )


def _verdicts(summary: Summary) -> Iterator[str]:
    share, level = percent(summary.false_at_most), p_below(summary)
    page = summary.family == "page"
    where = "of the page, all metrics together" if page else "on each metric"
    most = "up to " if summary.tests_differ else "the "
    counted = f"Holm's correction over {most}{summary.tests} distinct comparisons {where}"
    corrected = [counted] if summary.tests > 1 else []
    corrected += ["correction for interim analyses"] if summary.looks else []
    after = f" after {' and '.join(corrected)}" if corrected else f", one comparison {where}"
    bound = f"{'' if page else 'per metric, '}the chance that any of them is false is at most {share}"
    yield f"{', '.join(findings(summary))}: {level}{after}; {bound}{_judged_again(summary)}{_over_metrics(summary)}"
    if any(_stands(effect, summary) for effect in summary.effects):
        yield "a verdict that stands from an earlier judgement keeps the level and the numbers of that judgement"
    if any(effect.ranked for effect in summary.effects if effect.judged and effect.verdict != "diverged"):
        alpha = max((judgement.level for judgement in summary.judgements), default=1 - summary.confidence)
        beside = " with a better side, and against the other seeds where neither side is better"
        beside = beside if any(metric.better == "none" for metric in summary.metrics) else ""
        alone = "" if alpha <= 0 else f", which needs {fewest_seeds(alpha)} seeds for p < {alpha:.2g}"
        yield (
            "by rank: where a run of a comparison diverged, every seed counts by its rank: diverged ranks below any "
            f"number on every metric{beside}, and is never equivalent; p by sign flips of the ranks{alone}; "
            "n: survivors (over which the difference is taken) / seeds with a rank"
        )
    if any(metric.margin is not None for metric in summary.metrics):
        same = " after the same correction" if corrected else ""
        yield (
            f"equivalent: both one-sided tests against the margin have {level}{same}; {bound}; 'equivalent, differs': "
            "there is a difference, but it is smaller than the margin"
        )


def findings(summary: Summary) -> list[str]:
    """Return the verdicts by which a difference is found: of metrics with a better side, of those without, or both."""
    words = {word for metric in summary.metrics for word in directions(metric.better)}
    return [word for word in DIRECTIONS if word in words]


def _over_metrics(summary: Summary) -> str:
    apart = {FUNCTIONS.get(metric, metric): j.so_far for j in summary.judgements for metric in j.metrics}
    if summary.family == "page" or len(apart) < 2:
        return ""
    return f"; over the {len(apart)} metrics together it is up to {percent(any_false(apart.values()))}"


def _stands(effect: Effect, summary: Summary) -> bool:
    return effect.judgement is not None and any(
        effect.metric in later.metrics and effect.judgement < later.number for later in summary.judgements
    )


def p_below(summary: Summary) -> str:
    """Return `p < 0.04`, or if some metrics have another level, `p < 0.04 (eval_loss: 0.008)`."""
    of = {metric: judgement.level for judgement in summary.judgements for metric in judgement.metrics}
    if not of:
        return f"p < {1 - summary.confidence:.2g}"
    usual = max(of.values())
    if usual == 0:
        return "p < 0, which is impossible: no α is left"
    others = ", ".join(f"{metric}: {level:.2g}" for metric, level in of.items() if level != usual)
    return f"p < {usual:.2g}{f' ({others})' if others else ''}"


def _judged_again(summary: Summary) -> str:
    kept = dict.fromkeys(judgement.left for judgement in summary.judgements if judgement.left > 0)
    if not kept:
        return ""
    again = "including judging again at more seeds" if any(j.number > 1 for j in summary.judgements) else ""
    reserved = f"of which {listed([percent(left) for left in kept])} is reserved for judging again at more seeds"
    return f", {again or reserved}"


def _planning(summary: Summary) -> list[str]:
    planned = [effect for effect in summary.effects if effect.seeds_needed is not None]
    every = [effect for effect in planned if not effect.ranked]
    varying = [effect for effect in every if effect.sd != 0]
    ways = []
    if any(effect.margin is not None for effect in varying):
        ways.append("narrow the interval of the equivalence test to half the margin on each side")
    if any(effect.margin is None or abs(effect.estimate or 0) > effect.margin for effect in varying):
        when = "where it exceeds the margin or none is declared"
        ways.append(f"detect a difference as large as the observed one with {percent(POWER)} power ({when})")
    limit = f"; planned from the upper {percent(SD_LEVEL)} confidence limit of the sd" if ways else ""
    if len(varying) < len(every):
        ways.append("be enough for the sign test" + (" (where differences do not vary)" if varying else ""))
    if len(every) < len(planned):
        ways.append(
            f"detect ranks shifted as far as the observed ones with {percent(POWER)} power, and be enough to decide by "
            "rank if all of them agreed"
        )
    if not ways:
        return []
    among = f" over {summary.tests} comparisons" if summary.tests > 1 else ""
    kept = {metric for j in summary.judgements if j.left > 0 for metric in j.metrics}
    again = dict.fromkeys(
        ((effect.judgement or 1) + 1, SHARE_LEFT * (effect.level or 0.0)) for effect in planned if effect.metric in kept
    )
    when = listed([f"a {ordinal(number)} time, at {percent(level)}" for number, level in again]) if again else ""
    judged = f", judged {when}{among}" if again else _level_of_one(summary)
    return [*_auto(summary), f"+k seeds: about k more seeds would {', or would '.join(ways)}{judged}{limit}"]


def _level_of_one(summary: Summary) -> str:
    level = f", at the level of one of {summary.tests} comparisons" if summary.tests > 1 else ""
    return level + (" at this analysis" if summary.looked is not None else "")


def _auto(summary: Summary) -> Iterator[str]:
    left = dict.fromkeys(judgement.left for judgement in summary.judgements if judgement.left > 0)
    if left and summary.ladders:
        yield (
            f"undecided: more seeds at each size decide more; of the {percent(1 - summary.confidence)}, "
            f"{listed([percent(level) for level in left])} is left for judging again with them"
        )
    elif left and not summary.elsewhere:
        yield (
            "undecided: `seeds: auto` adds seeds until everything is decided; of the "
            f"{percent(1 - summary.confidence)}, {listed([percent(level) for level in left])} is left for that, or all "
            "of it in a space that has `seeds: auto` from the start"
        )


def _metric(metric: Metric, computed: str, baseline: str) -> str:
    parts = [computed] if computed else []
    parts.append(better(metric) + (", compared as a ratio" if metric.log else ""))
    if metric.margin is None:
        parts.append(f"{metric.why_no_margin}, so never equivalent")
    else:
        absolute = f"a factor {factor(metric.margin):.4g}" if metric.log else f"±{metric.margin:.3g}"
        relative = metric.stated.endswith("%") and not metric.log
        parts.append(f"margin {metric.stated} of {baseline}'s mean ({absolute})" if relative else f"margin {absolute}")
    return f"{metric.name}: {'; '.join(parts)}"


def _any_log(summary: Summary) -> bool:
    return any(metric.log for metric in summary.metrics)
