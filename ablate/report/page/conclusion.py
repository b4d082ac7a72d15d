"""The answer to a space's question in a sentence or two, and the grid of verdicts behind it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ablate.output.words import listed, plural, spoken
from ablate.report import wording
from ablate.report.document import Cell, VerdictGrid
from ablate.report.page.answer import leading, subject
from ablate.verdict.summary import Effect, Metric, Summary

MOST_ANSWERS = 3
"""Sentences of an answer; where there would be more, the grid says the rest."""


def conclusion(summary: Summary) -> list[str]:
    """The answer: whole variants against the baseline, or, where the design compares none, each edit.

    Every metric comes with its difference, and its interval; the grid has the rest.
    """
    compared = leading(summary)
    if not compared:
        return ["The design compares nothing."]
    whole = [effects for effects in compared if effects[0].kind == "baseline"]
    asked = whole or compared
    sentences = [_sentence(effects, summary) for effects in asked[:MOST_ANSWERS]]
    if len(asked) > MOST_ANSWERS:
        sentences.append(f"The other {len(asked) - MOST_ANSWERS} comparisons are in the grid below.")
    if pending := list(dict.fromkeys(one.pending for one in summary.judgements if one.pending)):
        sentences += [f"No verdicts yet: {why}." for why in pending]
    return sentences


def _sentence(effects: Sequence[Effect], summary: Summary) -> str:
    """`op against pre_ln, 5 seeds: eval loss equivalent within 1 % (-0.0012 [-0.0058, +0.0034]); …`."""
    parts = [_found(effect, summary.metric(effect.metric)) for effect in effects]
    counts = sorted({effect.ranked or effect.n for effect in effects})
    seeds = plural(counts[0], "seed") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"
    return f"{subject(effects[0], summary)}, {seeds}: {'; '.join(parts)}."


def _found(effect: Effect, metric: Metric) -> str:
    """What one metric says: the verdict first, then by how much."""
    name, size = spoken(metric.name), wording.difference(effect)
    if effect.estimate is None or effect.verdict == "diverged":
        return f"{name} {spoken(effect.verdict)}"
    if effect.verdict == "equivalent":
        return f"{name} equivalent within {wording.margin(metric)} ({size})"
    if effect.verdict == "undecided":
        return f"{name} undecided ({size})"
    by = "at" if metric.log else "by"
    of = ", of survivors" if effect.ranked else ""
    return f"{name} {spoken(effect.verdict)} {by} {size}{of}"


def grid(summary: Summary) -> VerdictGrid | None:
    """What the design isolates, then whole variants, by metric; None where nothing is compared."""
    compared = leading(summary)
    if not compared:
        return None
    rows = tuple(
        (subject(effects[0], summary), tuple(_cell(effects, metric) for metric in summary.metrics))
        for effects in compared
    )
    names = tuple(f"{spoken(metric.name)} ({metric.better} is better)" for metric in summary.metrics)
    return VerdictGrid(title="Verdicts at a glance", heading=("change", *names), rows=rows)


def _cell(effects: Sequence[Effect], metric: Metric) -> Cell:
    effect = next((one for one in effects if one.metric == metric.name), None)
    if effect is None:
        return Cell("none")
    number = wording.difference(effect) if effect.estimate is not None else ""
    return Cell(effect.verdict, wording.verdict(effect), number)


def meaning(summary: Summary) -> str:
    """What the grid has: what differences are, how many tests they were held against, and the margins."""
    return " ".join(_meaning(summary))


def _meaning(summary: Summary) -> Iterator[str]:
    log = any(metric.log for metric in summary.metrics)
    yield "Differences are after less before" + (", or after over before (×)" if log else "") + ", paired by seed,"
    if any(effect.adjusted_low is not None for effect in summary.effects):
        over = f" for {summary.tests} comparisons a metric" if summary.tests > 1 and summary.family == "metric" else ""
        yield f"with the interval that goes with the verdict, adjusted as it is{over}."
    else:
        yield f"with the {100 * summary.confidence:.4g} % interval of each by itself."
    margins = [f"{spoken(m.name)} {_margin(m)}" for m in summary.metrics if m.margin is not None]
    if margins:
        yield f"Margins of equivalence: {listed(margins)}."
    if any(effect.seeds_needed is not None for effect in summary.effects):
        yield "+k seeds: about so many more would decide."


def _margin(metric: Metric) -> str:
    """`1 % (±0.023)`."""
    stated = wording.margin(metric)
    relative = stated.endswith("%") and not metric.log
    return f"{stated} (±{metric.margin:.3g})" if relative else stated
