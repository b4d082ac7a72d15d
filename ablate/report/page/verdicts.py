"""The tables of the verdicts: comparisons with their intervals, the variants, and the parts of a factorial."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ablate.output import words
from ablate.plan.plan import Factors
from ablate.report import footnotes, wording
from ablate.report.comparisons import effects_once, subject, terms_of
from ablate.report.document import Grid
from ablate.report.effect_tables import KINDS, anova_statistic, cells, described, headings, p_or_dash, title_of
from ablate.report.page.record import PageRecord
from ablate.space.metrics import BITS, NATS
from ablate.space.vary import level_texts
from ablate.verdict.contrasts import alias_rows
from ablate.verdict.summary import Anova, Arm, Effect, Metric, Summary

LEVELS = {1: "with", -1: "without"}
MEANINGS = {
    "baseline": "whole variants",
    "noise": "only the initialisation changed: any difference is noise, and is not judged",
}


def verdicts(record: PageRecord) -> list[Grid]:
    """A table for each kind of comparison under each of the terms; those shared by terms have one."""
    summary, order = record.summary, [*KINDS, *MEANINGS]
    groups: dict[tuple[str, tuple[str, ...]], list[Effect]] = {}
    for effect in sorted(effects_once(summary.effects), key=lambda effect: order.index(effect.kind)):
        groups.setdefault((effect.kind, terms_of(effect, summary)), []).append(effect)
    grids = []
    for (kind, terms), effects in groups.items():
        grids.append(
            Grid(
                title=_under(_title(kind, summary), words.listed(terms) if terms else ""),
                note=MEANINGS.get(kind) or described(kind, summary),
                heading=("change", *headings(COLUMNS, summary)),
                rows=tuple((_named(effect, summary), *cells(COLUMNS, effect)) for effect in effects),
                numbers=(5, 6, 7, 8),
                whole=(3, 4),
            )
        )
    return grids


def _title(kind: str, summary: Summary) -> str:
    if kind in KINDS:
        return title_of(kind, summary)
    return "Noise" if kind == "noise" else f"Against {summary.baseline}"


def caveats(summary: Summary) -> list[str]:
    return [*footnotes.peculiarities(summary), *summary.notes]


COLUMNS = ("verdict", "metric", "difference and test", "unadjusted or –", "n", "p", "q", "p of equivalence")


def _named(effect: Effect, summary: Summary) -> str:
    return effect.change if effect.kind in ("edit", "baseline") else subject(effect, summary)


def variants(record: PageRecord) -> Grid:
    summary = record.summary
    names = [metric.name for metric in summary.metrics]
    if summary.bits_beside:
        names.insert(names.index(NATS) + 1, BITS)
    rows = tuple(
        (
            arm.name,
            *(_mean(arm, name, summary) for name in names),
            f"{arm.finished} of {arm.ended + len(arm.missing)}",
            str(arm.diverged),
            f"{arm.parameters:,}",
            f"{arm.flops:,}",
        )
        for arm in summary.arms
    )
    counts = ("finished", "diverged", "parameters", "FLOPs per example")
    return Grid(
        title="Variants",
        note=f"mean ± sd over the seeds that finished; the baseline is {summary.baseline}",
        heading=("variant", *names, *counts),
        rows=rows,
        numbers=tuple(range(len(names) + 1, len(names) + 5)),
        remarks=tuple(_front(summary)),
    )


def _mean(arm: Arm, name: str, summary: Summary) -> str:
    if name == BITS and summary.bits_beside:
        return wording.plain_level(arm.bits) if arm.bits else "no value"
    return wording.level(arm.levels.get(name), summary.metric(name))


def _front(summary: Summary) -> Iterator[str]:
    if summary.front:
        names = ", ".join(wording.with_fate(summary.arm(id)) for id in summary.front)
        yield (
            "On the Pareto front (no variant is better in one metric and as good in the others, by the means over the "
            f"seeds that both have{wording.left_aside(summary)}): {names}"
        )


def runs(record: PageRecord, terms: str, factors: Factors) -> Grid:
    summary, metrics = record.summary, record.summary.metrics
    rows = []
    for id, levels in factors.runs:
        arm = summary.arm(id)
        shown = tuple(wording.level(arm.levels.get(metric.name), metric) for metric in metrics)
        edits, varied = levels[: len(factors.edits)], levels[len(factors.edits) :]
        values = [level_texts(f.values)[level] for f, level in zip(factors.varied, varied, strict=True)]
        rows.append((arm.name, *(LEVELS.get(level, str(level)) for level in edits), *values, *shown))
    return Grid(
        title=_under("Runs", terms),
        note=factors.how or "which edits each run has, and its mean ± sd over seeds",
        heading=("run", *factors.edits, *(factor.address for factor in factors.varied), *(m.name for m in metrics)),
        rows=tuple(rows),
    )


def aliases(terms: str, factors: Factors) -> Grid | None:
    rows = alias_rows(factors)
    if not rows:
        return None
    kind = f"a fraction of resolution {factors.resolution}: " if factors.resolution else ""
    return Grid(
        title=_under("Aliases", terms),
        note=f"{kind}the other effects contained in an estimate, and their coefficients",
        heading=("effect", "its estimate also contains"),
        rows=rows,
    )


def anova(record: PageRecord, terms: str, metric: Metric) -> Grid | None:
    lines = [line for line in record.summary.anova if line.terms == terms and line.metric == metric.name]
    if not lines:
        return None
    total = sum(line.sum_of_squares or 0.0 for line in lines)
    return Grid(
        title=_under(f"Analysis of variance, {words.spoken(metric.name)}", terms),
        note="seeds are blocks; F compares a term with how it varies over seeds; p is not adjusted for the number of "
        f"terms; {footnotes.SPHERICITY}" + ("; of natural logarithms" if metric.log else ""),
        heading=("source", "sum of squares", "share", "df", "F", "p"),
        rows=tuple(_anova_row(line, total) for line in lines),
        numbers=(1, 2, 3, 4, 5),
    )


def _anova_row(line: Anova, total: float) -> tuple[str, ...]:
    if line.sum_of_squares is None:
        return line.term, "–", "–", "–", anova_statistic(line), p_or_dash(line.p)
    share = f"{100 * line.sum_of_squares / total:.1f} %" if 0 < total < math.inf else "–"
    return (
        line.term,
        f"{line.sum_of_squares:.4g}",
        share,
        str(line.df),
        anova_statistic(line) or "–",
        p_or_dash(line.p),
    )


def _under(title: str, terms: str) -> str:
    return f"{title}, under {terms}" if terms else title


def factorials(record: PageRecord) -> Sequence[tuple[str, Factors]]:
    return record.summary.factors or record.plan.factors
