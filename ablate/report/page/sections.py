"""The pages of a space and of a table as documents: the answer, the grid of verdicts, the plots, and the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ablate.output.words import of_profile, plural, spoken
from ablate.plan.plan import TERMS, Variant
from ablate.report import footnotes
from ablate.report.comparisons import size_tables
from ablate.report.document import (
    BulletList,
    Figure,
    Fold,
    Grid,
    Group,
    Part,
    Prose,
    ReportDocument,
    Section,
    Stacked,
    TableOf,
    Verbatim,
)
from ablate.report.effect_tables import tables_of
from ablate.report.page import (
    answer,
    cost,
    curves,
    differences,
    doses,
    forecast,
    forest,
    gains,
    heatmaps,
    ladder_plots,
    panels,
    pareto,
    verdicts,
)
from ablate.report.page.curves import names
from ablate.report.page.record import PageRecord
from ablate.report.plot import Plot, svg_of
from ablate.space.metrics import BITS
from ablate.verdict.summary import Summary

COURSES = 8  # number of curves of losses and probes shown at first; the others are folded
OPEN = 4  # number of probes whose heat maps are shown at first; those of the others are folded


def page(record: PageRecord) -> ReportDocument:
    """Return the page; the same record gives the same document."""
    about = (*answer.headline(record), *answer.provenance(record))
    return ReportDocument(title=record.title, about=about, parts=tuple(_parts(record)))


def _parts(record: PageRecord) -> Iterator[Part]:
    summary = record.summary
    if record.partial:
        yield Prose(answer.unfinished(record), "warning")
    yield from answer.opening(summary)
    for line in record.mixed:
        yield Prose(line, "warning")
    if noise := tuple(answer.noise(summary)):
        yield BulletList(noise)
    sections: tuple[tuple[str, Iterable[Part]], ...] = (
        ("Comparisons", _comparisons(record)),
        # Of a ladder, the baseline is that of the largest size, and differences are at each.
        ("Over training", () if summary.ladders else _group(map(_figure, differences.plots(record)))),
        ("Verdicts", map(TableOf, (*verdicts.verdicts(record), verdicts.variants(record)))),
        ("Sizes", [*_group(map(_figure, ladder_plots.plots(record))), *map(TableOf, size_tables(summary))]),
        ("Factorial", _factorial(record)),
        ("Training", _training(record)),
        ("Layers", _layers(record)),
        ("Kernels", _kernels(record)),
        ("Forecast", _forecast(record)),
        ("Gains", _gains(record)),
        ("Trade-offs", _group(map(_figure, pareto.front_plots(record)))),
        ("Blocks", _blocks(record)),
        ("Notes", _notes(record)),
        ("What did not help", [BulletList(tuple(answer.negatives(record)))]),
        ("Cost", [TableOf(cost.cost(record), titled=False)]),
        ("Equal terms", _equal_terms(record)),
        ("Noise and power", [TableOf(cost.noise(record), titled=False)]),
        ("Repeat it", _repeat(record)),
        ("What the numbers mean", [BulletList(tuple(definitions(record)))]),
    )
    for title, parts in sections:
        if shown := tuple(parts):
            yield Section(title, shown, folded=title in FOLDED)


FOLDED = (
    *("Kernels", "Gains", "Blocks", "What did not help", "Cost", "Equal terms", "Noise and power", "Repeat it"),
    "What the numbers mean",
)
"""Sections that are closed at first, and printed only if they are open."""


def _comparisons(record: PageRecord) -> Iterator[Part]:
    yield from _group(map(_figure, forest.plots(record.summary)))
    compared = {effect.metric for effect in record.summary.effects if effect.estimate is not None}
    if without := [metric.name for metric in record.summary.metrics if metric.name not in compared]:
        yield Prose(f"No plot of {', '.join(without)}: no seed has a result on both sides.", "note")


def _factorial(record: PageRecord) -> Iterator[Part]:
    for terms, factors in verdicts.factorials(record):
        yield from _group(map(_figure, doses.plots(record, factors, terms)))
        left = len(pareto.left_out(factors))
        more = f" {left} more pairs are only in the tables." if left else ""
        yield from _group(_figure(plot, more) for plot in pareto.interaction_plots(record, factors, terms))
        yield TableOf(verdicts.runs(record, terms, factors))
        tables = [verdicts.aliases(terms, factors)]
        tables += [verdicts.anova(record, terms, metric) for metric in record.summary.metrics]
        yield from (TableOf(grid) for grid in tables if grid is not None)


def _training(record: PageRecord) -> Iterator[Part]:
    names = curves.names(record)
    salted = [variant.name for variant in record.plan.variants if variant.setting.salt]
    if names and salted:
        yield Prose(f"Numbers of {', '.join(salted)} are only in the tables above and below.", "note")
    plots = [
        _figure_with_table(curves.plots(record, metric), curves.table(record, metric), spoken(metric))
        for metric in names
    ]
    yield from _group(plots[:COURSES])
    if left := names[COURSES:]:
        named = ", ".join(map(spoken, left))
        yield Fold(f"{plural(len(left), 'more probe')}: {named}", tuple(_group(plots[COURSES:])))


def _figure_with_table(drawn: Sequence[tuple[Plot, Sequence[Variant]]], grid: Grid, what: str) -> Stacked:
    parts: list[Part] = [_figure(plot) for plot, _ in drawn[:1]]
    if rest := drawn[1:]:
        first = {variant.id for variant in drawn[0][1]}
        others = ", ".join(v.name for _, group in rest for v in group if v.id not in first)
        parts.append(Fold(f"{what} of {others}", tuple(_figure(plot) for plot, _ in rest)))
    parts.append(Fold(f"numbers of {what}", (TableOf(grid, bare=True),)))
    return Stacked(tuple(parts))


def _layers(record: PageRecord) -> Iterator[Part]:
    every = [(metric, heatmaps.plots(record, metric)) for metric in heatmaps.names(record)]
    shown = [(metric, _of_metric(record, metric, plots)) for metric, plots in every if plots]
    if shown:
        yield Prose("Layers from the first (bottom) to the last, steps from left to right.", "note")
        yield from _group(part for _, part in shown[:OPEN])
    if left := shown[OPEN:]:
        named = ", ".join(spoken(metric) for metric, _ in left)
        yield Fold(f"heat maps of {plural(len(left), 'more probe')}: {named}", tuple(_group(part for _, part in left)))


def _of_metric(record: PageRecord, metric: str, plots: Sequence[tuple[Plot, Sequence[Variant]]]) -> Stacked:
    about = f"{spoken(metric).capitalize()}, {heatmaps.about(record, metric)}"
    first, *rest = [svg_of(plot, panels.WIDTH) for plot, _ in plots]
    parts: list[Part] = [Figure(first, about, tuple(heatmaps.key(heatmaps.scale_of(record, metric))))]
    if rest:
        others = [variant.name for _, group in plots[1:] for variant in group]
        named = f"maps of {plural(len(others), 'more variant')}: {', '.join(others)}"
        parts.append(Fold(named, tuple(Figure(svg, "") for svg in rest)))
    parts.append(Fold(f"numbers of {spoken(metric)} by layer", (TableOf(heatmaps.table(record, metric), bare=True),)))
    return Stacked(tuple(parts))


def _kernels(record: PageRecord) -> Iterator[Part]:
    figures = [_figure(plot) for plot in heatmaps.kernel_plots(record)]
    if left := heatmaps.left_out(record):
        more = f" Not drawn: {', '.join(left)}; the view kernels has them."
        figures[-1] = replace(figures[-1], caption=figures[-1].caption + more)
    yield from _group(figures)


def _forecast(record: PageRecord) -> Iterator[Part]:
    if not record.plan.forecasts:
        return
    ends, every = forecast.ends(record), forecast.layers(record)
    yield TableOf(ends)
    if forecast.has_layers_between(record):
        yield Fold(f"every layer, {every.note}", (TableOf(every, bare=True),))


def _gains(record: PageRecord) -> Iterator[Part]:
    drawn = list(gains.plots(record))
    if not drawn:
        return
    yield from _group(_figure(plot) for plot, _ in drawn[: gains.FIRST])
    if rest := drawn[gains.FIRST :]:
        names = ", ".join(dict.fromkeys(variant.name for _, variant in rest))
        inside = tuple(_group(_figure(plot) for plot, _ in rest))
        yield Fold(f"{plural(len(rest), 'more plot')} of gains: {names}", inside)
    grid = gains.table(record)
    yield Fold(f"numbers of {plural(len(grid.rows), 'gain')}: {grid.note}", (TableOf(grid, bare=True),))


def _blocks(record: PageRecord) -> Iterator[Part]:
    yield Prose(f"Each variant against {record.summary.baseline}; open one to see its block.", "note")
    for shown in record.blocks:
        variant = record.plan.variant(shown.variant)
        names = () if variant.id == record.plan.baseline else tuple(name for name, _ in shown.edits)
        summary = "the baseline" if variant.id == record.plan.baseline else "" if names else "no edit"
        parts: list[Part] = [Prose(line) for line in cost.own(variant)]
        if shown.edits:
            parts.append(BulletList(tuple(f"`{name}` {detail}" for name, detail in shown.edits)))
        parts.append(Verbatim(shown.block, "yaml"))
        yield Fold(summary, tuple(parts), name=variant.name, code=names)


def _notes(record: PageRecord) -> Iterator[Part]:
    if warned := (*record.beside, *verdicts.caveats(record.summary)):
        yield BulletList(tuple(warned), "beware")


def _equal_terms(record: PageRecord) -> Iterator[Part]:
    lead = f"{TERMS}: "
    if told := tuple(note.removeprefix(lead) for note in record.plan.notes if note.startswith(lead)):
        yield BulletList(told)
    yield from (TableOf(grid) for grid in cost.unequal(record))


def _repeat(record: PageRecord) -> Iterator[Part]:
    yield Verbatim("\n".join(record.again), "sh")
    if record.head:
        yield Prose(f"Head of the records: {record.head}", "note")
    yield BulletList(record.corpus)
    yield Section("Versions", (BulletList(tuple(cost.ran_with(record)) or ("nothing has run yet",)),))
    fingerprints, trials = cost.fingerprints(record), cost.trials(record)
    yield Fold(f"fingerprints {fingerprints.note}", (TableOf(fingerprints, bare=True),))
    listed = f"{plural(len(record.plan.trials), 'trial')}, {trials.note}"
    yield Fold(listed, (TableOf(trials, bare=True), BulletList(trials.remarks)))
    yield Fold("the space's file", (Verbatim(record.source, "yaml"),))
    yield Fold("the resolved space, with nothing left out", (Verbatim(record.resolved, "yaml", small=True),))


def _figure(plot: Plot, more: str = "") -> Figure:
    return Figure(svg_of(plot, panels.WIDTH), plot.caption + more)


def _group(parts: Iterable[Part]) -> Iterator[Group]:
    if shown := tuple(parts):
        yield Group(shown)


def definitions(record: PageRecord) -> list[str]:
    summary = record.summary
    lines = list(footnotes.definitions(summary, record.definitions))
    judged = {metric.name for metric in summary.metrics}
    beside = [BITS] if summary.bits_beside else []
    measured = [*beside, *names(record), *dict.fromkeys(course.metric for course in record.gains)]
    lines += [f"{name}: {record.definitions[name]}" for name in measured if name in record.definitions.keys() - judged]
    analyses = " and for the interim analyses" if summary.looks else ""
    alone = ", if only this analysis were made" if summary.looks else ""
    lines.append(
        "p: for no difference; p of equivalence: the larger of the two one-sided tests; both are adjusted by Holm over "
        f"the family{analyses}. q: the p for no difference, adjusted by Benjamini and Hochberg: of those below a "
        f"level, at most that share is false on average{alone}; no verdict is based on it"
    )
    return lines


# The page of a table of runs that were trained elsewhere: those sections of a space's page that need nothing else.


def table_page(summary: Summary) -> ReportDocument:
    return ReportDocument(
        title=summary.question.strip() or summary.space,
        about=(
            *(summary.space, summary.design, f"the baseline is {summary.baseline}"),
            *of_profile(summary.profile),
        ),
        parts=tuple(_table_parts(summary)),
    )


def _table_parts(summary: Summary) -> Iterator[Part]:
    yield from answer.opening(summary)
    if drawn := tuple(map(_figure, forest.plots(summary))):
        yield Section("Comparisons", (Group(drawn),))
    yield Section("Verdicts", tuple(map(TableOf, tables_of(summary))))
    if notes := verdicts.caveats(summary):
        yield Section("Notes", (BulletList(tuple(notes), "beware"),))
    yield Section("What the numbers mean", (BulletList(tuple(footnotes.definitions(summary, {}))),), folded=True)
