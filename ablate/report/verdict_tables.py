"""The verdicts of a run as Markdown: the tables of the screen, for pages and for MLflow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from ablate.output.words import of_profile
from ablate.report import footnotes, markdown_renderer, size_comparisons, wording
from ablate.report.claims import claims_table
from ablate.report.document import BulletList, Grid, Prose, ReportDocument, Section, TableOf
from ablate.report.effect_columns import cells, headings
from ablate.report.effect_tables import ANOVA_COLUMNS, KINDS, anova_row, anovas, described, title_of
from ablate.verdict.summary import Arm, Effect, Metric, Summary

EFFECT = ("change", "metric", "difference", "unadjusted or –", "n", "verdict and note")
VARIANT_HEADING = ("variant", "metric", "mean ± sd", "finished", "diverged")
COST_HEADING = ("parameters", "FLOPs per example")


def to_markdown(summary: Summary, definitions: Mapping[str, str]) -> str:
    """Return the question, every comparison with n, interval and verdict, the means, and what the metrics mean."""
    head = f"Design: {summary.design}", f"Baseline: {summary.baseline}", *of_profile(summary.profile)
    return markdown_renderer.render(
        ReportDocument(
            title=summary.space,
            about=(summary.question,),
            parts=(
                Prose(f"{'. '.join(head)}."),
                *map(TableOf, tables_of(summary)),
                Section("What the metrics mean", (BulletList(tuple(_meanings(summary, definitions))),)),
            ),
        )
    )


def _meanings(summary: Summary, definitions: Mapping[str, str]) -> Iterator[str]:
    for metric in summary.metrics:
        meaning = definitions.get(metric.name, "as measured")
        margin = wording.margin(metric) or "none"
        yield f"`{metric.name}` ({wording.better(metric)}; margin {margin}): {meaning}"
    yield from (*footnotes.in_bits(summary), *summary.notes)


def tables_of(summary: Summary) -> Iterator[Grid]:
    """Yield a table for each kind of comparison, one for each analysis of variance, and one of the variants."""
    several = len(summary.terms) > 1
    heading = headings(EFFECT, summary)
    if (claims := claims_table(summary)) is not None:
        yield claims
    for (kind, terms), group in groupby(_in_order(summary), key=lambda effect: (effect.kind, effect.terms)):
        under = f", {terms}" if several and terms else ""
        yield _grid(_title(kind, summary) + under, heading, [cells(EFFECT, effect) for effect in group])
    yield from size_comparisons.tables(summary)
    for terms, lines in anovas(summary).items():
        under = f", {terms}" if several and terms else ""
        rows: list[tuple[str, ...]] = [(line.metric, *anova_row(line)) for line in lines]
        yield _grid(f"Analysis of variance{under}", tuple(column.heading for column in ANOVA_COLUMNS), rows)
    columns = VARIANT_HEADING if summary.elsewhere else (*VARIANT_HEADING, *COST_HEADING)
    yield _grid("Variants", columns, [_variant_row(arm, metric) for arm in summary.arms for metric in summary.metrics])


NUMBERS = ("n", "finished", "diverged", *COST_HEADING)
"""Columns whose cells are numbers."""


def _grid(title: str, heading: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Grid:
    numbers = tuple(place for place, name in enumerate(heading) if name in NUMBERS)
    return Grid(title=title, note="", heading=heading, rows=tuple(rows), numbers=numbers)


def _in_order(summary: Summary) -> list[Effect]:
    """Return effects ordered by kind, then by terms."""
    kinds, terms = list(KINDS), list(summary.terms)
    order = {kind: place for place, kind in enumerate([*kinds, "baseline", "noise"])}
    return sorted(summary.effects, key=lambda e: (order[e.kind], terms.index(e.terms) if e.terms in terms else 0))


def _title(kind: str, summary: Summary) -> str:
    if kind == "noise":
        return "A/A: only the initialisation changed"
    return f"{title_of(kind, summary)}, {described(kind, summary)}" if kind in KINDS else f"Against {summary.baseline}"


def _variant_row(arm: Arm, metric: Metric) -> tuple[str, ...]:
    planned = arm.ended + len(arm.missing)
    cost = () if arm.cost is None else (f"{arm.parameters:,}", f"{arm.flops:,}")
    ends = (f"{arm.finished} of {planned}", str(arm.diverged))
    return arm.name, metric.name, wording.level(arm.levels.get(metric.name), metric), *ends, *cost
