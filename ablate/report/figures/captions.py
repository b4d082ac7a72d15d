"""Sentences for a paper: one for each figure, and one on methods, counted and worded from the verdicts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from ablate.output.escape import for_markdown, markdown_within, visible
from ablate.output.words import factor, listed, percent, plural, spoken
from ablate.report.footnotes import any_unpaired, p_below
from ablate.report.plot import Plot
from ablate.report.wording import margin
from ablate.verdict.summary import Effect, Metric, Summary

SHARED = "that share batches and held-out data"
SOME_SHARED = "that share batches and held-out data unless batch size, context or data differ"
TESTS = {
    "student": "Student's t",
    "sign_flip": "sign flips",
    "sign": "the sign test",
    "repeated": "Student's t at the level of an interim analysis",
    "pooled": "Student's t with the residual of all effects as the error",
    "welch": "Welch's t of two samples",
    "mann_whitney": "ranks of two samples",
    "floor": "t by the noise of other runs",
    "strata": "t of the mean over strata, by the noise within them",
    "worst_rank": "signed ranks over all seeds, diverged runs ranked worst",
    "simulated_t": "t of a trend over sizes, against that of simulated ladders",
}


def sentence(plot: Plot) -> str:
    """Return one sentence: the headline of the plot, then the page's caption, separated by semicolons."""
    beside = [part.removesuffix(".") for part in re.split(r"(?<=\.) (?=[A-Z×n])", plot.caption.strip())]
    if plot.headline:
        beside = [part for part in beside if part.lower() not in plot.headline.lower()]
        beside.insert(0, plot.headline)
    return visible("; ".join([beside[0], *map(_lowered, beside[1:])])) + "."


def _lowered(part: str) -> str:
    return part[:1].lower() + part[1:] if part[1:2].islower() or part[1:2] == " " else part


def methods(summary: Summary) -> str:
    judged = [effect for effect in summary.effects if effect.judged]
    if not judged:
        return "Nothing was compared."
    return visible("; ".join(_methods(summary, judged))) + "."


def _methods(summary: Summary, judged: Sequence[Effect]) -> Iterator[str]:
    counts = {arm.ended + len(arm.missing) for arm in summary.arms}
    noun, unpaired = "run" if summary.elsewhere else "seed", any_unpaired(summary)
    if summary.elsewhere:
        yield f"Each variant has {_range(counts, noun)}, which were trained elsewhere"
    else:
        yield f"Each variant was trained at {_range(counts, noun)} {SOME_SHARED if unpaired else SHARED}"
    lost = sum(arm.diverged for arm in summary.arms), sum(len(arm.missing) for arm in summary.arms)
    fates = [f"{n} {what}" for n, what in zip(lost, ("diverged", "have no result"), strict=True) if n]
    if fates:
        yield f"of the {sum(arm.ended + len(arm.missing) for arm in summary.arms)} runs {listed(fates)}"
    paired = {effect.n for effect in judged if effect.estimate is not None}
    over = f" over the {_range(paired, noun)} that finished on both sides" if paired and paired != counts else ""
    pairing = "differences are paired by seed" + (", where batches are shared," if unpaired else "")
    if summary.elsewhere and unpaired:
        pairing, over = "runs are not paired", ""
    names = [spoken(metric.name) for metric in summary.metrics if metric.log]
    logs = f", of {listed(names)} as logarithms" if names else ""
    yield f"{pairing}{over} and tested by {_tests(judged)}{logs}"
    yield _correction(summary, judged)
    if summary.looks:
        latest = f", most recently at {summary.looked}" if summary.looked else ""
        among = listed([str(n) for n in summary.looks])
        yield f"results were analysed at {among} seeds{latest}, with levels calibrated for all analyses together"
    yield from _margins(summary.metrics, summary)


def _range(counts: set[int], noun: str) -> str:
    least, most = min(counts), max(counts)
    return plural(least, noun) if least == most else f"{least} to {most} {noun}s"


def _tests(judged: Sequence[Effect]) -> str:
    used = Counter(effect.method for effect in judged if effect.p is not None)
    if not used:
        return "nothing yet"
    if len(used) == 1:
        return TESTS[next(iter(used))]
    return listed([f"{TESTS[method]} ({n} of {used.total()} tests)" for method, n in used.most_common()])


def _correction(summary: Summary, judged: Sequence[Effect]) -> str:
    where = "of all metrics together" if summary.family == "page" else "per metric"
    adjusted = any(effect.adjusted_low is not None for effect in judged)
    what = "p-values and intervals are" if adjusted else "p-values are"
    most = "up to " if summary.tests_differ else ""
    family = (
        f"{what} adjusted by Holm over {most}{plural(summary.tests, 'comparison')} {where}"
        if summary.tests > 1
        else f"there is one comparison {where}, which needs no correction for multiple comparisons"
    )
    alone = "" if adjusted else ", intervals are not adjusted"
    kept = sum({judgement.left for judgement in summary.judgements if judgement.left > 0})
    left = f", {percent(kept)} of the {percent(1 - summary.confidence)} reserved for judging again" if kept else ""
    return f"{family}{alone}, at {percent(summary.confidence)} confidence ({p_below(summary)} decides{left})"


def _margins(metrics: Sequence[Metric], summary: Summary) -> Iterator[str]:
    stated = [f"{_margin(metric, summary)} in {spoken(metric.name)}" for metric in metrics if metric.margin is not None]
    if stated:
        yield (
            f"a difference is equivalent if two one-sided tests, adjusted likewise, place it within {listed(stated)}"
        )
    without = [spoken(metric.name) for metric in metrics if metric.margin is None]
    if without and stated:
        yield f"{listed(without)} has no margin" if len(without) == 1 else f"{listed(without)} have no margin"
    elif without:
        yield "no margin of equivalence was declared"


def _margin(metric: Metric, summary: Summary) -> str:
    if not metric.stated.endswith("%"):
        return margin(metric)
    if metric.log:
        return f"a factor {factor(metric.margin or 0.0):.3g}"
    return f"{metric.stated} of {summary.baseline}'s mean"


def document(title: str, named: Sequence[tuple[str, Plot]], methods_sentence: str) -> str:
    head = f"# {for_markdown(title, ' ')}\n\n## Methods\n\n{for_markdown(methods_sentence)}\n\n## Captions\n\n"
    return head + "".join(f"- `{name}`: {markdown_within(sentence(plot))}\n" for name, plot in named)
