"""The exports of a space and of a search: their plots, the table of verdicts, the sentences, and what is left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ablate.output.words import listed, plural, spoken
from ablate.report.figures import captions, latex
from ablate.report.figures.files import belongs_to_export, file_names, files_of
from ablate.report.page import curves, differences, doses, forest, gains, heatmaps, ladder_plots, pareto
from ablate.report.page.record import PageRecord
from ablate.report.page.verdicts import factorials
from ablate.report.plot import Plot
from ablate.report.searched import plots as searched
from ablate.report.searched.analysis import analyse
from ablate.report.searched.record import SearchRecord
from ablate.store.durable import write_whole, writing
from ablate.verdict.summary import Summary

TABLE, SENTENCES = "verdicts.tex", "captions.md"
"""The files beside the figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """Plots with the names of their files, other files as texts by name, and sentences on what is left out and why."""

    plots: tuple[tuple[str, Plot], ...]
    texts: Mapping[str, str]
    left_out: tuple[str, ...]


def of_space(record: PageRecord) -> Export:
    """Return every plot of the page of a space."""
    plots = list(_plots(record))
    return _export(record.title, plots, record.summary, captions.methods(record.summary), tuple(_left_out(record)))


def of_table(summary: Summary) -> Export:
    """Return the forest plots of a table of runs that were trained elsewhere."""
    left = tuple(_without_pair(summary))
    title = summary.question.strip() or summary.space
    return _export(title, list(forest.plots_of(summary)), summary, captions.methods(summary), left)


def of_search(record: SearchRecord) -> Export:
    """Return the plots of a search, and forest plots of its confirmation."""
    plots = list(searched.plots(record, analyse(record)))
    summary = record.confirmed
    left = [] if plots else ["every plot: no block has values that can be compared"]
    if summary is None:
        left.append("forests and verdicts.tex: nothing is confirmed at fresh seeds")
    else:
        plots += forest.plots_of(summary)
        left += _without_pair(summary)
    title = record.question.strip() or record.space
    return _export(title, plots, summary, _searched(record), tuple(left))


def _export(title: str, plots: list[Plot], summary: Summary | None, methods: str, left: tuple[str, ...]) -> Export:
    named = tuple(zip(file_names(plots), plots, strict=True))
    tables = {} if summary is None else {TABLE: latex.table(summary)}
    return Export(plots=named, texts={**tables, SENTENCES: captions.document(title, named, methods)}, left_out=left)


def _searched(record: SearchRecord) -> str:
    """Return the methods of the search and of its confirmation as one sentence."""
    goals = listed([f"{'lower' if o.goal == 'min' else 'higher'} {spoken(o.metric)}" for o in record.objectives])
    search = (
        f"{plural(len(record.trained), 'block')} of the grammar {record.grammar} were trained at "
        f"{plural(len(record.seeds), 'seed')} each ({record.sampler}, seed {record.seed}, {record.spent}) for {goals}, "
        "compared on the tuning split of the text"
    )
    if record.confirmed is None:
        return f"{search}; nothing is confirmed at fresh seeds."
    best = f"the {plural(len(record.chosen), 'best block')} and {record.reference} were trained anew"
    judged = captions.methods(record.confirmed)
    return f"{search}; {best} at fresh seeds and judged on the verdict split; {judged[:1].lower()}{judged[1:]}"


def _plots(record: PageRecord) -> Iterator[Plot]:
    """Yield the plots in the order of the page."""
    yield from forest.plots(record)
    yield from () if record.summary.ladders else differences.difference_plots(record)
    yield from ladder_plots.plots(record)
    for terms, factors in factorials(record):
        yield from doses.dose_plots(record, factors, terms)
        yield from pareto.interaction_plots(record, factors, terms)
    for metric in curves.names(record):
        yield from (plot for plot, _ in curves.grouped_plots(record, metric))
    for metric in heatmaps.names(record):
        yield from (plot for plot, _ in heatmaps.grouped_plots(record, metric))
    yield from heatmaps.kernel_plots(record)
    yield from (plot for plot, _ in gains.gain_plots(record))
    yield from pareto.front_plots(record)


def _left_out(record: PageRecord) -> Iterator[str]:
    yield from _without_pair(record.summary)
    for terms, factors in factorials(record):
        if left := pareto.left_out(factors):
            yield f"interactions{f' under {terms}' if terms else ''} of {', '.join(left)}: too many pairs to draw"
    salted = [variant.name for variant in record.plan.variants if variant.setting.salt]
    if salted and record.curves:
        yield f"training of {', '.join(salted)}: it repeats the baseline"
    for metric in heatmaps.names(record):
        if not heatmaps.grouped_plots(record, metric):
            yield f"layers-{metric}: no finite value"
    if left := heatmaps.left_out(record):
        yield f"kernels of {', '.join(left)}: too many variants to draw; the view kernels has them"


def _without_pair(summary: Summary) -> Iterator[str]:
    """Yield the metrics for which no comparison has an estimate."""
    for metric in summary.metrics:
        if not any(effect.estimate is not None for effect in summary.effects if effect.metric == metric.name):
            yield f"forest-{metric.name}: no seed has a result on both sides"


# An export written into a folder, beside what earlier ones left there.

OPTION = "--figures"


@dataclass(frozen=True, slots=True)
class Figures:
    """The result of an export: files by the name of their figure, other files, what it left out and why, and files in
    the folder from an earlier export.
    """

    folder: Path
    figures: Mapping[str, tuple[str, ...]]
    others: tuple[str, ...]
    left_out: tuple[str, ...]
    earlier: tuple[str, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """The names of all files written."""
        return (*(name for names in self.figures.values() for name in names), *self.others)


def write_export(export: Export, folder: str | Path) -> Figures:
    """Write an export into a folder, which is created if needed.

    Files of an earlier export are overwritten if they have the same name, and otherwise left and listed.
    """
    folder = Path(folder)
    with writing(folder, OPTION):
        folder.mkdir(parents=True, exist_ok=True)
        there = sorted(path.name for path in folder.iterdir() if path.is_file())
    figures: dict[str, tuple[str, ...]] = {}
    for name, plot in export.plots:
        contents = dict(files_of(plot, name))
        for file, content in contents.items():
            write_whole(folder / file, content, OPTION)
        figures[name] = tuple(contents)
    for file, text in export.texts.items():
        write_whole(folder / file, text.encode(), OPTION)
    written = {*export.texts, *(file for files in figures.values() for file in files)}
    earlier = tuple(name for name in belongs_to_export(there) if name not in written)
    return Figures(folder, figures, tuple(export.texts), export.left_out, earlier)
