"""The verdicts of a run as Markdown: the tables of the screen, for pages and for MLflow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from ablate.output.markdown import code, escape, paragraph, sentence
from ablate.output.markdown import table as table_lines
from ablate.report import footnotes, wording
from ablate.report.effect_columns import cells, headings
from ablate.report.effect_tables import ANOVA_COLUMNS, KINDS, anova_row, anovas, described
from ablate.verdict.summary import Arm, Effect, Metric, Summary

EFFECT = ("change", "metric", "difference", "by itself", "n", "verdict and note")
VARIANT_HEADING = ("variant", "metric", "mean ± sd", "finished", "diverged")
COST_HEADING = ("parameters", "FLOPs per sequence")


def to_markdown(summary: Summary, definitions: Mapping[str, str]) -> str:
    """The question, every comparison with n, interval and verdict, the variants' means, and what each metric means."""
    return "\n".join(_lines(summary, definitions)) + "\n"


def _lines(summary: Summary, definitions: Mapping[str, str]) -> Iterator[str]:
    yield f"# {escape(summary.space)}"
    yield f"\n{paragraph(summary.question)}\n"
    yield f"Design: {escape(summary.design)}. Baseline: {escape(summary.baseline)}.\n"
    yield from body(summary, definitions)


def body(summary: Summary, definitions: Mapping[str, str], *, level: int = 2) -> Iterator[str]:
    """The lines below the title, their headings at this level."""
    mark = "#" * level
    for title, heading, rows in tables_of(summary):
        yield f"{mark} {escape(title)}\n"
        yield from table(heading, rows)
    yield f"{mark} What the metrics mean\n"
    for metric in summary.metrics:
        meaning = definitions.get(metric.name, "as measured")
        margin = escape(wording.margin(metric) or "none")
        yield f"- {code(metric.name)} ({metric.better} is better; margin {margin}): {sentence(meaning)}"
    yield from (f"- {sentence(note)}" for note in (*footnotes.in_bits(summary), *summary.notes))


def tables_of(summary: Summary) -> Iterator[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
    """The title, heading and rows of each table."""
    several = len(summary.terms) > 1
    heading = headings(EFFECT, summary)
    for (kind, terms), group in groupby(_in_order(summary), key=lambda effect: (effect.kind, effect.terms)):
        under = f", {terms}" if several and terms else ""
        yield _title(kind, summary) + under, heading, [cells(EFFECT, effect) for effect in group]
    for terms, lines in anovas(summary).items():
        under = f", {terms}" if several and terms else ""
        rows: list[tuple[str, ...]] = [(line.metric, *anova_row(line)) for line in lines]
        yield f"Analysis of variance{under}", tuple(column.heading for column in ANOVA_COLUMNS), rows
    columns = VARIANT_HEADING if summary.elsewhere else (*VARIANT_HEADING, *COST_HEADING)
    yield "Variants", columns, [_variant_row(arm, metric) for arm in summary.arms for metric in summary.metrics]


def _in_order(summary: Summary) -> list[Effect]:
    """Effects by kind, then by terms, else as they come."""
    kinds, terms = list(KINDS), list(summary.terms)
    order = {kind: place for place, kind in enumerate([*kinds, "baseline", "noise"])}
    return sorted(summary.effects, key=lambda e: (order[e.kind], terms.index(e.terms) if e.terms in terms else 0))


def _title(kind: str, summary: Summary) -> str:
    if kind == "noise":
        return "A/A: nothing but the initialisation changed"
    return f"{KINDS[kind][0]}, {described(kind, summary)}" if kind in KINDS else f"Against {summary.baseline}"


def _variant_row(arm: Arm, metric: Metric) -> tuple[str, ...]:
    asked = arm.ended + len(arm.missing)
    cost = () if arm.cost is None else (f"{arm.parameters:,}", f"{arm.flops:,}")
    ends = (f"{arm.finished} of {asked}", str(arm.diverged))
    return arm.name, metric.name, wording.level(arm.levels.get(metric.name), metric), *ends, *cost


def table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table, and an empty one."""
    yield from (*table_lines(heading, rows), "")
