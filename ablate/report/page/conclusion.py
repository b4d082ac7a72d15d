"""The answer to a space's question in a sentence or two, and the grid of verdicts behind it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ablate.output.numbers import percent
from ablate.output.words import listed, plural, spoken
from ablate.report import expected, wording
from ablate.report.comparisons import subject
from ablate.report.document import Cell, Lead, Part, Prose, TableOf, VerdictGrid
from ablate.report.effect_tables import described, title_of
from ablate.report.footnotes import UNPAIRED, any_unpaired, without_partners
from ablate.report.page.answer import leading
from ablate.verdict.summary import Effect, Metric, Summary

MOST_ANSWERS = 3
"""Maximum number of sentences of an answer; the grid has the rest."""


ISOLATED = ("edit", "main")
"""Kinds of comparison that concern one edit."""


def opening(summary: Summary) -> Iterator[Part]:
    """Yield the opening of every page of verdicts: the answer, the grid, and what the grid means."""
    yield Lead(tuple(conclusion(summary)))
    if (verdicts := grid(summary)) is not None:
        yield verdicts
        yield Prose(meaning(summary), "note")
    if (claims := expected.table(summary)) is not None:
        yield TableOf(claims)


def conclusion(summary: Summary) -> list[str]:
    """Return the answer: whole variants against the baseline, then the edits responsible; or each edit, if the design
    compares no whole variant. Every metric comes with its difference and its interval; the grid has the rest.
    """
    compared = leading(summary)
    if not compared:
        return ["The design compares nothing."]
    whole = [effects for effects in compared if effects[0].kind == "baseline"]
    leaders = whole or compared
    if summary.ladders:  # after the trend, the largest size first
        trends = [effects for effects in compared if effects[0].kind == "trend"]
        leaders = [*trends, *(effects for effects in reversed(compared) if effects not in trends)]
    sentences = [_sentence(effects, summary) for effects in leaders[:MOST_ANSWERS]]
    if (others := len(leaders) - MOST_ANSWERS) > 0:
        rest = "other comparison is" if others == 1 else f"other {others} comparisons are"
        sentences.append(f"The {rest} in the grid below.")
    if whole:
        sentences += _of_edits([effects for effects in compared if effects[0].kind in ISOLATED], summary)
    if pending := list(dict.fromkeys(judgement.pending for judgement in summary.judgements if judgement.pending)):
        sentences += [f"No verdicts yet: {why}." for why in pending]
    return sentences


def _of_edits(edits: Sequence[Sequence[Effect]], summary: Summary) -> Iterator[str]:
    """Yield the edits with a finding and its size, and those without one; nothing before there are verdicts."""
    if not edits or any(judgement.pending for judgement in summary.judgements):
        return
    findings, nothing, lost = [], [], []
    for effects in edits:
        decided = [effect for effect in effects if effect.verdict not in ("undecided", "diverged")]
        parts = [_result(effect, summary.metric(effect.metric)) for effect in decided]
        named = subject(effects[0], summary)
        if parts:
            findings.append(f"{named}: {', '.join(parts)}")
        elif all(effect.verdict == "diverged" for effect in effects):
            lost.append(named)
        else:
            nothing.append(named)
    rest = [f"nothing was found for {listed(nothing)}"] if nothing else []
    rest += [f"{listed(lost)} cannot be judged, since a side diverged at every seed"] if lost else []
    yield f"Of its edits, {'; '.join(filter(None, [*findings[:MOST_ANSWERS], _more(len(findings)), *rest]))}."


def _more(findings: int) -> str:
    return f"{findings - MOST_ANSWERS} more in the grid" if findings > MOST_ANSWERS else ""


def _sentence(effects: Sequence[Effect], summary: Summary) -> str:
    """Return `op against pre_ln, 5 seeds: eval loss equivalent within 1 % (-0.0012 [-0.0058, +0.0034]); …`."""
    parts = [_result(effect, summary.metric(effect.metric)) for effect in effects]
    counts = sorted({effect.ranked or effect.n for effect in effects})
    seeds = plural(counts[0], "seed") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"
    return f"{subject(effects[0], summary)}, {seeds}: {'; '.join(parts)}."


def _result(effect: Effect, metric: Metric) -> str:
    """Return the result on one metric: the verdict first, then the difference."""
    name, size = spoken(metric.name), wording.difference(effect)
    if effect.kind == "trend":
        return f"{name}: {wording.trend(effect)}"
    if effect.estimate is None or effect.verdict == "diverged":
        return f"{name} {spoken(effect.verdict)}"
    if effect.verdict == "equivalent":
        return f"{name} equivalent within {wording.margin(metric)} ({size})"
    if effect.verdict == "undecided":
        return f"{name} {'identical at every seed' if effect.identical else 'undecided'} ({size})"
    by = "at" if metric.log else "by"
    of = ", survivors only" if effect.ranked else ""
    if metric.better == "none":
        return f"{name} {spoken(effect.verdict)} ({size}{of})"
    return f"{name} {spoken(effect.verdict)} {by} {size}{of}"


def grid(summary: Summary) -> VerdictGrid | None:
    """Return what the design isolates, then whole variants, by metric; None if nothing is compared."""
    compared = leading(summary)
    if not compared:
        return None
    rows = tuple(
        (subject(effects[0], summary), tuple(_cell(effects, metric) for metric in summary.metrics))
        for effects in compared
    )
    names = tuple(f"{spoken(metric.name)} ({wording.better(metric)})" for metric in summary.metrics)
    return VerdictGrid(title="Verdicts at a glance", heading=("change", *names), rows=rows)


def _cell(effects: Sequence[Effect], metric: Metric) -> Cell:
    effect = next((candidate for candidate in effects if candidate.metric == metric.name), None)
    if effect is None:
        return Cell("none")
    number = wording.difference(effect) if effect.estimate is not None else ""
    return Cell(effect.verdict, wording.verdict(effect), number)


def meaning(summary: Summary) -> str:
    """Return what the grid shows: the meaning of differences, the number of comparisons, and the margins."""
    return " ".join(_meaning(summary))


def _meaning(summary: Summary) -> Iterator[str]:
    log = any(metric.log for metric in summary.metrics)
    kinds = dict.fromkeys(effect.kind for effect in summary.effects if effect.kind in ISOLATED)
    for kind in kinds:
        title = title_of(kind, summary) if summary.ladders or kind == "edit" else "Edits"
        yield f"{title}: {described(kind, summary)}."
    seeds = f"paired by seed; {UNPAIRED}" if any_unpaired(summary) else "paired by seed"
    paired = without_partners(summary) or seeds
    yield f"Differences are after minus before{', or after divided by before (×)' if log else ''}, {paired}."
    if any(effect.adjusted_low is not None for effect in summary.effects):
        over = f", by Holm over {summary.tests} comparisons" if summary.tests > 1 else ""
        together = percent(1 - summary.false_at_most)
        yield f"Each interval is adjusted like its verdict{over}; all verdicts hold together at {together} confidence."
    else:
        yield f"Each interval is the unadjusted {percent(summary.confidence)} interval of that comparison."
    yield from _margins(summary)
    if any(effect.seeds_needed is not None for effect in summary.effects):
        yield "+k seeds: about k more seeds would decide that cell, one way or the other."
    base = next(arm for arm in summary.arms if arm.name == summary.baseline)
    if levels := [
        f"{spoken(m.name)} {wording.level(base.levels[m.name], m)}" for m in summary.metrics if m.name in base.levels
    ]:
        yield f"{base.name} has {listed(levels)}."


def _margins(summary: Summary) -> Iterator[str]:
    margins = [f"{spoken(m.name)} {_margin(m)}" for m in summary.metrics if m.margin is not None]
    without = [spoken(m.name) for m in summary.metrics if m.margin is None]
    if margins:
        never = (
            f"; {listed(without)} {'has' if len(without) == 1 else 'have'} none, so never equivalent" if without else ""
        )
        yield f"Margins of equivalence: {listed(margins)}{never}."


def _margin(metric: Metric) -> str:
    """Return the margin, as `1 % (±0.023)`."""
    stated = wording.margin(metric)
    relative = stated.endswith("%") and not metric.log
    return f"{stated} (±{metric.margin:.3g})" if relative else stated
