"""The exports of a space, a table and a search: plots, the table of verdicts, sentences; and the folder of one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ablate.output.escape import for_latex, for_markdown, markdown_within, numbers_for_latex, visible
from ablate.output.words import factor, listed, percent, plural, spoken
from ablate.report.comparisons import effects_once, ends, subject
from ablate.report.effect_tables import cells, headings
from ablate.report.figures.files import belongs_to_export, file_names, files_of
from ablate.report.footnotes import any_unpaired, p_below
from ablate.report.page import curves, differences, doses, forest, gains, heatmaps, ladder_plots, pareto
from ablate.report.page.record import PageRecord
from ablate.report.page.verdicts import factorials
from ablate.report.plot import Plot
from ablate.report.searched import plots as searched
from ablate.report.searched.analysis import analyse
from ablate.report.searched.record import SearchRecord
from ablate.report.wording import TESTS, margin
from ablate.store.durable import write_whole, writing
from ablate.verdict.summary import Effect, Metric, Summary

TABLE, SENTENCES = "verdicts.tex", "captions.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """Plots with the names of their files, other files as texts by name, and sentences on what is left out and why."""

    plots: tuple[tuple[str, Plot], ...]
    texts: Mapping[str, str]
    left_out: tuple[str, ...]


def of_space(record: PageRecord) -> Export:
    plots = list(_plots(record))
    return _export(record.title, plots, record.summary, methods_sentence(record.summary), tuple(_left_out(record)))


def of_table(summary: Summary) -> Export:
    left = tuple(_without_pair(summary))
    title = summary.question.strip() or summary.space
    return _export(title, list(forest.plots(summary)), summary, methods_sentence(summary), left)


def of_search(record: SearchRecord) -> Export:
    plots = list(searched.plots(record, analyse(record)))
    summary = record.confirmed
    left = [] if plots else ["every plot: no block has values that can be compared"]
    if summary is None:
        left.append("forests and verdicts.tex: nothing is confirmed at fresh seeds")
    else:
        plots += forest.plots(summary)
        left += _without_pair(summary)
    title = record.question.strip() or record.space
    return _export(title, plots, summary, _searched(record), tuple(left))


def _export(title: str, plots: list[Plot], summary: Summary | None, methods: str, left: tuple[str, ...]) -> Export:
    named = tuple(zip(file_names(plots), plots, strict=True))
    tables = {} if summary is None else {TABLE: latex_table(summary)}
    return Export(plots=named, texts={**tables, SENTENCES: captions(title, named, methods)}, left_out=left)


def _searched(record: SearchRecord) -> str:
    goals = listed([f"{'lower' if o.goal == 'min' else 'higher'} {spoken(o.metric)}" for o in record.objectives])
    search = (
        f"{plural(len(record.trained), 'block')} of the grammar {record.grammar} were trained at "
        f"{plural(len(record.seeds), 'seed')} each ({record.sampler}, seed {record.seed}, {record.spent}) for {goals}, "
        "compared on the tuning split of the text"
    )
    if record.confirmed is None:
        return f"{search}; nothing is confirmed at fresh seeds."
    best = f"the {plural(len(record.chosen), 'best block')} and {record.reference} were trained anew"
    judged = methods_sentence(record.confirmed)
    return f"{search}; {best} at fresh seeds and judged on the verdict split; {judged[:1].lower()}{judged[1:]}"


def _plots(record: PageRecord) -> Iterator[Plot]:
    yield from forest.plots(record.summary)
    yield from () if record.summary.ladders else differences.plots(record)
    yield from ladder_plots.plots(record)
    for terms, factors in factorials(record):
        yield from doses.plots(record, factors, terms)
        yield from pareto.interaction_plots(record, factors, terms)
    for metric in curves.names(record):
        yield from (plot for plot, _ in curves.plots(record, metric))
    for metric in heatmaps.names(record):
        yield from (plot for plot, _ in heatmaps.plots(record, metric))
    yield from heatmaps.kernel_plots(record)
    yield from (plot for plot, _ in gains.plots(record))
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
        if not heatmaps.plots(record, metric):
            yield f"layers-{metric}: no finite value"
    if left := heatmaps.left_out(record):
        yield f"kernels of {', '.join(left)}: too many variants to draw; the view kernels has them"


def _without_pair(summary: Summary) -> Iterator[str]:
    for metric in summary.metrics:
        if not any(effect.estimate is not None for effect in summary.effects if effect.metric == metric.name):
            yield f"forest-{metric.name}: no seed has a result on both sides"


# The verdicts as a LaTeX table in the style of booktabs.

LATEX_COLUMNS = ("metric", "difference", "n", "verdict", "p")
LATEX_NUMBERS = ("difference", "p")


def latex_table(summary: Summary) -> str:
    """Return a `tabular` of every comparison on every metric, for use within a `table`; each name is given once."""
    return "\n".join(_latex_lines(summary)) + "\n"


def _latex_lines(summary: Summary) -> Iterator[str]:
    yield "% \\usepackage{booktabs}; letters beyond Latin and Greek need XeLaTeX or LuaLaTeX"
    yield "\\begin{tabular}{lllrlr}"
    yield "\\toprule"
    yield _latex_row([for_latex(heading) for heading in headings(("change", *LATEX_COLUMNS), summary)])
    yield "\\midrule"
    comparisons: dict[tuple[str, ...], list[Effect]] = {}
    for effect in effects_once(summary.effects):
        comparisons.setdefault(ends(effect), []).append(effect)
    for place, effects in enumerate(comparisons.values()):
        if place:
            yield "\\addlinespace"
        for number, effect in enumerate(effects):
            shown = zip(LATEX_COLUMNS, cells(LATEX_COLUMNS, effect), strict=True)
            values = (numbers_for_latex(cell) if name in LATEX_NUMBERS else for_latex(cell) for name, cell in shown)
            yield _latex_row([for_latex(subject(effect, summary)) if number == 0 else "", *values])
    yield "\\bottomrule"
    yield "\\end{tabular}"


def _latex_row(texts: Sequence[str]) -> str:
    return " & ".join(texts) + r" \\"


# An export written into a folder, beside what earlier ones left there.

OPTION = "--figures"


@dataclass(frozen=True, slots=True)
class Figures:
    """Files by the name of their figure, other files, what was left out and why, and files of an earlier export."""

    folder: Path
    figures: Mapping[str, tuple[str, ...]]
    others: tuple[str, ...]
    left_out: tuple[str, ...]
    earlier: tuple[str, ...]

    @property
    def files(self) -> tuple[str, ...]:
        return (*(name for names in self.figures.values() for name in names), *self.others)


def write_export(export: Export, folder: str | Path) -> Figures:
    """Files of an earlier export are overwritten if they have the same name, and otherwise left and listed."""
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


# A caption for each figure, and the sentence on methods, worded from the verdicts.

SHARED = "that share batches and held-out data"
SOME_SHARED = "that share batches and held-out data unless batch size, context or data differ"


def caption(plot: Plot) -> str:
    """Return one sentence: the headline of the plot, then the page's caption, separated by semicolons."""
    beside = [part.removesuffix(".") for part in re.split(r"(?<=\.) (?=[A-Z×n])", plot.caption.strip())]
    if plot.headline:
        beside = [part for part in beside if part.lower() not in plot.headline.lower()]
        beside.insert(0, plot.headline)
    return visible("; ".join([beside[0], *map(_lowered, beside[1:])])) + "."


def _lowered(part: str) -> str:
    return part[:1].lower() + part[1:] if part[1:2].islower() or part[1:2] == " " else part


def methods_sentence(summary: Summary) -> str:
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
        return TESTS[next(iter(used))].name
    return listed([f"{TESTS[method].name} ({n} of {used.total()} tests)" for method, n in used.most_common()])


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


def captions(title: str, named: Sequence[tuple[str, Plot]], methods: str) -> str:
    head = f"# {for_markdown(title, ' ')}\n\n## Methods\n\n{for_markdown(methods)}\n\n## Captions\n\n"
    return head + "".join(f"- `{name}`: {markdown_within(caption(plot))}\n" for name, plot in named)
