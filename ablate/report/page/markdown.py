"""The page of a space as Markdown: everything but the plots, whose numbers are in its tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ablate.output.markdown import code, escape, fenced, paragraph
from ablate.output.markdown import sentence as written
from ablate.report import markdown
from ablate.report.html.document import sentence
from ablate.report.html.grid import Grid
from ablate.report.page import answer, cost, curves, gains, glossary, heatmaps, verdicts
from ablate.report.page.record import PageRecord


def to_markdown(record: PageRecord) -> str:
    """The page. The same record gives the same text."""
    return "\n".join(_lines(record)).rstrip("\n") + "\n"


def _lines(record: PageRecord) -> Iterator[str]:
    yield f"# {escape(record.title, ' ')}\n\n{' · '.join(map(written, answer.headline(record)))}\n"
    if record.partial:
        yield f"**{written(answer.unfinished(record))}**\n"
    yield from _bullets(answer.answers(record) or ["Nothing is decided yet."])
    if left := answer.undecided(record):
        yield from ("## Undecided\n", *_bullets(left))
    if warned := [*record.beside, *verdicts.caveats(record.summary)]:
        yield from ("## Notes\n", *_bullets(warned, mark="**!** "))
    yield "## Changes\n"
    yield from _changes(record)
    yield "## Verdicts\n"
    for grid in (*verdicts.verdicts(record), verdicts.variants(record)):
        yield from _grid(grid)
    yield from _factorial(record)
    yield from _training(record)
    yield "## Cost and terms\n"
    for grid in (cost.cost(record), *cost.unequal(record), cost.noise(record)):
        yield from _grid(grid)
    if lines := answer.negatives(record):
        yield from ("## What did not help\n", *_bullets(lines))
    yield from _repeat(record)
    yield from ("## What the numbers mean\n", *_bullets(glossary.definitions(record)))


def _changes(record: PageRecord) -> Iterator[str]:
    for shown in record.blocks:
        base = " (the baseline)" if shown.variant == record.plan.baseline else ""
        yield f"- **{escape(record.variant(shown.variant).name)}**{base}"
        yield from (f"  - {written(line)}" for line in cost.own(record.variant(shown.variant)))
        yield from (f"  - {code(name)}: {escape(detail)}" for name, detail in shown.edits)
        yield f"  - block: {code(shown.block)}"
    yield ""


def _factorial(record: PageRecord) -> Iterator[str]:
    for terms, factors in verdicts.factorials(record):
        yield from _grid(verdicts.runs(record, terms, factors))
        tables = [verdicts.aliases(terms, factors)]
        tables += [verdicts.anova(record, terms, metric) for metric in record.summary.metrics]
        for grid in tables:
            if grid is not None:
                yield from _grid(grid)


def _training(record: PageRecord) -> Iterator[str]:
    if names := curves.names(record):
        yield "## Training\n\nPlots of these, by step and by layer, are on the HTML page.\n"
        for metric in names:
            yield from _grid(curves.table(record, metric))
    for metric in heatmaps.names(record):
        yield from _grid(heatmaps.table(record, metric))
    if record.gains:
        yield from _grid(gains.table(record))


def _repeat(record: PageRecord) -> Iterator[str]:
    yield "## Repeat it\n"
    yield fenced("sh", "\n".join(record.again)) + "\n"
    yield from _bullets(record.corpus)
    yield from _bullets(cost.ran_with(record) or ["nothing has run yet"])
    yield from _grid(cost.fingerprints(record))
    yield from _grid(cost.trials(record))
    yield f"The space's file:\n\n{fenced('yaml', record.source.rstrip())}\n"


def _grid(grid: Grid) -> Iterator[str]:
    yield f"### {escape(grid.title)}\n"
    if grid.note:
        yield f"{paragraph(sentence(grid.note))}\n"
    if grid.rows:
        yield from markdown.table(grid.heading, grid.rows)
    found = [*_marked(grid.caveats, "**!** "), *_marked(grid.remarks)]
    yield from (*found, "") if found else ()


def _bullets(lines: Iterable[str], mark: str = "") -> Iterator[str]:
    found = _marked(lines, mark)
    yield from (*found, "") if found else ()


def _marked(lines: Iterable[str], mark: str = "") -> list[str]:
    return [f"- {mark}{written(line)}" for line in lines]
