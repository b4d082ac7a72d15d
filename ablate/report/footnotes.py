"""What the numbers of the screen mean, and what is peculiar about some of them: sentences from a summary."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from ablate.output.numbers import factor, percent
from ablate.output.words import listed, ordinal, plural
from ablate.report.wording import plain_level, with_fate
from ablate.space.metrics import NATS
from ablate.statistics import POWER, SD_LEVEL, fewest_seeds
from ablate.statistics.paired import flips_from
from ablate.verdict.summary import Effect, Metric, Summary

FACTORIAL = ("main", "interaction")

SPHERICITY = (
    "sphericity: whether all that the runs can be asked varies over seeds alike (John's U; p by simulation): where p "
    "is small, one error for all effects would be wrong"
)
COVERED = (
    "what varies over seeds, hence what an interval covers: initialisation, the order of the data and the choice of "
    "held-out text; all variants of one seed share its batches and its evaluation windows"
)
COVERED_ELSEWHERE = (
    "what an interval covers is what differs from one seed of the table to the next; that the runs of one seed share "
    "all else is for whoever trained them to know"
)
INTERACTIONS = {
    "leave_one_out": "the whole difference less the sum of what each edit does where all others are there",
    "add_one_in": "the whole difference less the sum of what each edit does alone",
}
"""What is beyond a sum, by design; else what two edits do together."""


def peculiarities(summary: Summary) -> list[str]:
    """What the reader must know about single effects and arms, each said once."""
    edits = {(effect.before, effect.after) for effect in summary.effects if effect.kind == "edit"}
    said: dict[tuple[str, str], dict[str, list[str]]] = {}
    for effect in summary.effects:
        repeated = effect.kind == "baseline" and (effect.before, effect.after) in edits
        for note, about in () if repeated else _notes(effect):
            subjects = said.setdefault((note, about), {}).setdefault(_subject(effect, summary), [])
            if effect.metric not in subjects:
                subjects.append(effect.metric)
    effects = {effect.change for effect in summary.effects if effect.kind in FACTORIAL}
    lines = []
    for (note, about), metrics_of in said.items():
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
    """The notes of an effect, each with what it is about: those of a factorial are mostly about all of its effects."""
    if effect.kind in FACTORIAL:
        return [(note, "factorial") for note in effect.note.split("; ") if note]
    return [(effect.note, effect.kind)] if effect.note else []


def _subject(effect: Effect, summary: Summary) -> str:
    if effect.kind == "noise":
        return "A/A"
    return summary.arm(effect.after).name if effect.kind == "baseline" else effect.change


def _looked(summary: Summary) -> Iterator[str]:
    """At how many seeds it was looked, and what comes next."""
    if summary.looked is None:
        return
    among = ", ".join(map(str, summary.looks))
    later = [n for n in summary.looks if n > summary.looked]
    if summary.decided:
        yield f"looked at {summary.looked} seeds (of {among}): all is decided, no more are needed"
    elif later:
        yield f"looked at {summary.looked} seeds (of {among}): not all is decided, the next look is at {later[0]}"
    else:
        yield f"looked at {summary.looked} seeds, the last of {among}: no α is left, so more seeds would find nothing"


NAMED = 8
"""Variants whose bits per byte are told one by one; of more, the least and the largest."""


def in_bits(summary: Summary) -> Iterator[str]:
    """The held-out loss of each variant in bits per byte, where it is judged in nats per token alone."""
    arms = [(arm.name, arm.bits) for arm in summary.arms if arm.bits is not None]
    if not summary.bits_beside:
        return
    told = ", ".join(f"{name} {plain_level(level)}" for name, level in arms)
    if len(arms) > NAMED:
        (least, low), *_, (most, high) = sorted(arms, key=lambda one: one[1].mean)
        told = f"{plain_level(low)} ({least}) to {plain_level(high)} ({most}), mean ± sd"
    yield f"{NATS} in bits per byte of text: {told}; across tokenizers only these can be compared"


def definitions(summary: Summary, computed: Mapping[str, str]) -> list[str]:
    """A line for each metric, then one for each kind of number shown; `computed` says how a metric is computed."""
    lines = [_metric(metric, computed.get(metric.name, ""), summary.baseline) for metric in summary.metrics]
    lines.append("mean ± sd: over the n seeds that finished" + (_LOG_LEVEL if _any_log(summary) else ""))
    lines += _difference(summary)
    lines += _verdicts(summary)
    lines += _planning(summary)
    if summary.front:
        names = "; ".join(with_fate(summary.arm(variant)) for variant in summary.front)
        lines.append(
            f"front: no other variant is better on all metrics at once (by means alone, of shared seeds) than {names}"
        )
    return lines


_LOG_LEVEL = "; where differences are ratios, the geometric mean and the factor it varies by (×÷)"


def _difference(summary: Summary) -> Iterator[str]:
    confidence = percent(summary.confidence)
    methods = {effect.method for effect in summary.effects if effect.low is not None}
    kinds = {effect.kind for effect in summary.effects}
    after = "after - before" + (" (× after/before)" if _any_log(summary) else "")
    if kinds & {"edit", "baseline", "noise"}:
        standing = any(_stands(effect, summary) for effect in summary.effects)
        stood = ", or those of the judgement whose verdict stands" if standing else ""
        pairs = f"paired over the n seeds finished on both sides (in brackets where they are fewer{stood})"
        yield f"difference: {after}, {pairs}"
    yield from _intervals(summary, confidence, methods)
    if "main" in kinds:
        yield (
            "an edit's effect: the mean difference that it makes over the runs of the factorial, by least squares with "
            f"seeds as blocks{_error(summary, confidence)}"
        )
    if "interaction" in kinds:
        ratios = " (of ratios, their product)" if _any_log(summary) else ""
        beyond = "what edits do together beyond the sum of what each does without the other"
        yield f"interaction: {INTERACTIONS.get(summary.design.split(' ')[0].rstrip(','), beyond)}{ratios}"
    if methods - {"pooled"}:
        yield COVERED_ELSEWHERE if summary.elsewhere else COVERED
    if summary.anova:
        yield "analysis of variance: each sum of squares is of a term given all others, and its p is not adjusted"
    if any(line.term == "error" for line in summary.anova):
        yield f"F: of a term, against how that term varies over seeds; {SPHERICITY}"
    if "repeated" in methods:
        yield f"intervals are so wide that all those of the looks hold the true difference with {confidence} confidence"
        yield "what a look found has the numbers of that look"
    if "sign_flip" in methods:
        flipped = [e.level for e in summary.effects if e.method == "sign_flip" and e.level]
        level = max(flipped, default=1 - summary.confidence) / max(1, summary.tests)
        family = f", with {summary.tests} comparisons" if summary.tests > 1 else ""
        yield f"p from {flips_from(level)} pairs on{family}: by flipping the signs of differences, not by t"
    if "noise" in kinds:
        yield (
            "A/A: the baseline with another initialisation, the same batches and windows: what differs is noise, not a "
            "finding"
        )


def _intervals(summary: Summary, confidence: str, methods: Collection[str]) -> Iterator[str]:
    """What the intervals hold, and with what confidence."""
    student = "" if "repeated" in methods else "Student's "
    shown = [effect for effect in summary.effects if effect.low is not None]
    alone = f"{student}{confidence} interval of one comparison"
    if not any(effect.adjusted_low is not None for effect in shown):
        if shown:
            yield f"interval: {alone} by itself, not adjusted for their number"
        return
    several = f"the {summary.tests} comparisons it is one of and for " if summary.tests > 1 else ""
    yield (
        f"interval, adjusted: for {several}judging again, as the verdict is, so that the two agree: better and worse "
        "have no zero in it, equivalent lies inside the margin, undecided neither; all verdicts together hold at "
        f"{confidence}"
    )
    others = [effect for effect in shown if effect.adjusted_low is None]
    rest = "; so is what stands under `adjusted` where nothing is judged, or ranks decide" if others else ""
    yield f"by itself: {alone}, narrower, and no verdict goes by it{rest}"


def _error(summary: Summary, confidence: str) -> str:
    """What the intervals of a factorial's effects are made with."""
    terms = {line.term for line in summary.anova}
    if "error" in terms:
        return f"; {confidence} interval by how that effect varies over seeds, each effect by itself"
    left = "what all effects together leave unexplained as the error"
    return f"; {confidence} interval by t with {left}" if "lack of fit" in terms else ""


def _verdicts(summary: Summary) -> Iterator[str]:
    share, level = percent(1 - summary.confidence), p_below(summary)
    page = summary.family == "page"
    where = "of the page, all metrics together" if page else "on each metric"
    counted = f"Holm's correction over the {summary.tests} distinct comparisons {where}"
    corrected = [counted] if summary.tests > 1 else []
    corrected += ["correction for looking several times"] if summary.looks else []
    after = f" after {' and '.join(corrected)}" if corrected else f", one comparison {where}"
    bound = f"{'any of them' if page else 'on one metric any of them'} is false in at most {share} of such tables"
    yield f"better, worse: {level}{after}; {bound}{_judged_again(summary)}"
    if any(_stands(effect, summary) for effect in summary.effects):
        yield "a verdict that stands was given at the level of the judgement that found it, and has its numbers"
    if any(effect.ranked for effect in summary.effects if effect.judged and effect.verdict != "diverged"):
        alpha = max((one.level for one in summary.judgements), default=1 - summary.confidence)
        alone = "" if alpha <= 0 else f", which takes {fewest_seeds(alpha)} seeds for p < {alpha:.2g}"
        yield (
            "by rank: where a run of a comparison diverged every seed counts, by its rank: diverged is worse than any "
            f"number, on every metric, and never equivalent; p by flipping the signs of ranks{alone}; n: survivors, "
            "which the difference beside it is of, / seeds that have a rank"
        )
    if any(metric.margin is not None for metric in summary.metrics):
        same = " after the same correction" if corrected else ""
        yield (
            f"equivalent: both one-sided tests against the margin have {level}{same}; {bound}; 'differs' where a "
            "difference is found as well: one too small to matter"
        )


def _stands(effect: Effect, summary: Summary) -> bool:
    """Whether the verdict and the numbers are those of an earlier judgement."""
    return effect.judgement is not None and any(
        effect.metric in one.metrics and effect.judgement < one.number for one in summary.judgements
    )


def p_below(summary: Summary) -> str:
    """`p < 0.04`, or where metrics are judged for another time, `p < 0.04 (eval_loss: 0.008)`."""
    of = {metric: one.level for one in summary.judgements for metric in one.metrics}
    if not of:
        return f"p < {1 - summary.confidence:.2g}"
    usual = max(of.values())
    if usual == 0:
        return "p < 0, which nothing has: no α is left"
    others = ", ".join(f"{metric}: {level:.2g}" for metric, level in of.items() if level != usual)
    return f"p < {usual:.2g}{f' ({others})' if others else ''}"


def _judged_again(summary: Summary) -> str:
    """What of it is kept for judging the question again, where something is."""
    kept = dict.fromkeys(one.left for one in summary.judgements if one.left > 0)
    if not kept:
        return ""
    again = "judging again at more seeds included" if any(one.number > 1 for one in summary.judgements) else ""
    return f", {again or f'{listed([percent(left) for left in kept])} of it kept for judging again at more seeds'}"


def _planning(summary: Summary) -> list[str]:
    planned = [effect for effect in summary.effects if effect.seeds_needed is not None]
    every = [effect for effect in planned if not effect.ranked]
    asked = [effect for effect in every if effect.sd != 0]
    ways = []
    if any(effect.margin is not None for effect in asked):
        ways.append("bring the interval of the equivalence test to half the margin on each side")
    if any(effect.margin is None or abs(effect.estimate or 0) > effect.margin for effect in asked):
        when = "where it is beyond the margin, or none is declared"
        ways.append(f"find a difference as large as the one seen {percent(POWER)} of the time ({when})")
    limit = f"; planned from the {percent(SD_LEVEL)} upper limit of the sd" if ways else ""
    if len(asked) < len(every):
        ways.append("be enough for the sign test" + (" (where differences do not vary)" if asked else ""))
    if len(every) < len(planned):
        ways.append(
            f"find ranks that lean as those seen {percent(POWER)} of the time, and be enough to decide by rank if all "
            "of them agreed"
        )
    if not ways:
        return []
    among = f" over {summary.tests} comparisons" if summary.tests > 1 else ""
    again = dict.fromkeys((one.number + 1, one.next_level) for one in summary.judgements if one.left > 0)
    when = listed([f"a {ordinal(number)} time, at {percent(level)}" for number, level in again]) if again else ""
    judged = f", judged {when}{among}" if again else _level_of_one(summary)
    return [*_auto(summary), f"+k seeds: about so many more would {', or would '.join(ways)}{judged}{limit}"]


def _level_of_one(summary: Summary) -> str:
    level = f", at the level of one of {summary.tests} comparisons" if summary.tests > 1 else ""
    return level + (" at this look" if summary.looked is not None else "")


def _auto(summary: Summary) -> Iterator[str]:
    """What else decides: seeds that are added until nothing is left to decide."""
    left = dict.fromkeys(one.left for one in summary.judgements if one.left > 0)
    if left and not summary.elsewhere:
        yield (
            "undecided: `seeds: auto` adds seeds until all is decided, and looks at what is left, "
            f"{listed([percent(one) for one in left])}; where one begins with it, it has all of "
            f"{percent(1 - summary.confidence)}"
        )


def _metric(metric: Metric, computed: str, baseline: str) -> str:
    parts = [computed] if computed else []
    parts.append(f"{metric.better} is better" + (", compared as a ratio" if metric.log else ""))
    if metric.margin is None:
        parts.append(f"{metric.why_no_margin}, so never equivalent")
    else:
        absolute = f"a factor {factor(metric.margin):.4g}" if metric.log else f"±{metric.margin:.3g}"
        relative = metric.stated.endswith("%") and not metric.log
        parts.append(f"margin {metric.stated} of {baseline}'s mean ({absolute})" if relative else f"margin {absolute}")
    return f"{metric.name}: {'; '.join(parts)}"


def _any_log(summary: Summary) -> bool:
    return any(metric.log for metric in summary.metrics)
