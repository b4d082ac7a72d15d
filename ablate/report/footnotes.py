"""What the numbers of the screen mean, and what is peculiar about some of them: sentences from a summary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ablate.report.summary import Effect, Metric, Summary
from ablate.report.wording import factor, listed, plural, with_fate
from ablate.statistics import POWER, SD_LEVEL
from ablate.statistics.paired import flips_from

FACTORIAL = ("main", "interaction")
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
                f"a share of {100 * low:.0f} % to {100 * high:.0f} % (Wilson's {_percent(summary.confidence)} interval)"
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
        yield f"looked at {summary.looked} seeds, the last of {among}: more seeds take another plan"


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
    confidence = _percent(summary.confidence)
    methods = {effect.method for effect in summary.effects if effect.low is not None}
    kinds = {effect.kind for effect in summary.effects}
    after = "after - before" + (" (× after/before)" if _any_log(summary) else "")
    if kinds & {"edit", "baseline", "noise"}:
        pairs = "paired over the n seeds finished on both sides (in brackets where they are fewer)"
        student = "" if methods & {"repeated", "bootstrap"} else "Student's "
        interval = f"{student}{confidence} interval, not adjusted for the number of comparisons"
        yield f"difference: {after}, {pairs}; {interval}"
    if "main" in kinds:
        yield (
            "an edit's effect: the mean difference that it makes over the runs of the factorial, by least squares with "
            f"seeds as blocks{_error(summary, confidence)}"
        )
    if "interaction" in kinds:
        ratios = " (of ratios, their product)" if _any_log(summary) else ""
        beyond = "what edits do together beyond the sum of what each does without the other"
        yield f"interaction: {INTERACTIONS.get(summary.design.split(' ')[0].rstrip(','), beyond)}{ratios}"
    if summary.anova:
        yield "analysis of variance: each sum of squares is of a term given all others, and its p is not adjusted"
    if "repeated" in methods:
        yield f"intervals are so wide that all those of the looks hold the true difference with {confidence} confidence"
        yield "what a look found has the numbers of that look"
    if methods & {"sign_flip", "bootstrap"}:
        level = (1 - summary.confidence) / max(1, summary.tests)
        family = f", with {summary.tests} comparisons" if summary.tests > 1 else ""
        yield f"p from {flips_from(level)} pairs on{family}: by flipping the signs of differences, not by t"
    if "bootstrap" in methods:
        yield "from 20 pairs on the interval is the studentised bootstrap's; equivalence is tested by t at every n"
    if "noise" in kinds:
        yield "A/A: the baseline with another initialisation and the same batches: what differs is noise, not a finding"


def _error(summary: Summary, confidence: str) -> str:
    """What the intervals of a factorial's effects are made with."""
    terms = {line.term for line in summary.anova}
    if "error" in terms:
        return f"; {confidence} interval by t with the error of runs within seeds, all runs together"
    left = "what all effects together leave unexplained as the error"
    return f"; {confidence} interval by t with {left}" if "lack of fit" in terms else ""


def _verdicts(summary: Summary) -> Iterator[str]:
    alpha, percent = f"{1 - summary.confidence:.2g}", _percent(1 - summary.confidence)
    page = summary.family == "page"
    where = "of the page, all metrics together" if page else "on each metric"
    counted = f"Holm's correction over the {summary.tests} distinct comparisons {where}"
    corrected = [counted] if summary.tests > 1 else []
    corrected += ["correction for looking several times"] if summary.looks else []
    after = f" after {' and '.join(corrected)}" if corrected else f", one comparison {where}"
    bound = f"{'any of them' if page else 'on one metric any of them'} is false in at most {percent} of such tables"
    yield f"better, worse: p < {alpha}{after}; {bound}"
    if any(metric.margin is not None for metric in summary.metrics):
        same = " after the same correction" if corrected else ""
        yield (
            f"equivalent: both one-sided tests against the margin have p < {alpha}{same}; {bound}; 'differs' where a "
            "difference is found as well: one too small to matter"
        )


def _planning(summary: Summary) -> list[str]:
    every = [effect for effect in summary.effects if effect.seeds_needed is not None]
    asked = [effect for effect in every if effect.sd != 0]
    ways = []
    if any(effect.margin is not None for effect in asked):
        ways.append("bring the interval of the equivalence test to half the margin on each side")
    if any(effect.margin is None or abs(effect.estimate or 0) > effect.margin for effect in asked):
        when = "where it is beyond the margin, or none is declared"
        ways.append(f"find a difference as large as the one seen {_percent(POWER)} of the time ({when})")
    limit = f"; planned from the {_percent(SD_LEVEL)} upper limit of the sd" if ways else ""
    if len(asked) < len(every):
        ways.append("be enough for the sign test" + (" (where differences do not vary)" if asked else ""))
    if not ways:
        return []
    level = f", at the level of one of {summary.tests} comparisons" if summary.tests > 1 else ""
    level += " at this look" if summary.looked is not None else ""
    return [f"+k seeds: about so many more would {', or would '.join(ways)}{level}{limit}"]


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


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
