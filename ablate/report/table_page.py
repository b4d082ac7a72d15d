"""The page of a table of runs that were trained elsewhere: those sections of a space's page that need nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from ablate.output.words import of_profile
from ablate.report import footnotes, markdown_renderer
from ablate.report.document import BulletList, Figure, Group, Part, ReportDocument, Section, TableOf
from ablate.report.html import renderer
from ablate.report.html.drawn import shown
from ablate.report.page import answer, forest, panels
from ablate.report.verdict_tables import tables_of
from ablate.verdict.summary import Summary


def page(summary: Summary) -> ReportDocument:
    """Return the answer, the grid of verdicts, every comparison, caveats, and what the numbers mean."""
    return ReportDocument(
        title=summary.question.strip() or summary.space,
        about=(
            *(summary.space, summary.design, f"the baseline is {summary.baseline}"),
            *of_profile(summary.profile),
        ),
        parts=tuple(_parts(summary)),
    )


def to_html(summary: Summary) -> str:
    """Return the page as one self-contained HTML file."""
    return renderer.render(page(summary))


def to_markdown(summary: Summary) -> str:
    """Return the page as Markdown."""
    return markdown_renderer.render(page(summary))


def _parts(summary: Summary) -> Iterator[Part]:
    yield from answer.opening(summary)
    if drawn := tuple(Figure(shown(plot, panels.WIDTH), plot.caption) for plot in forest.plots_of(summary)):
        yield Section("Comparisons", (Group(drawn),))
    yield Section("Verdicts", tuple(map(TableOf, tables_of(summary))))
    if notes := (*footnotes.peculiarities(summary), *summary.notes):
        yield Section("Notes", (BulletList(tuple(notes), "beware"),))
    yield Section("What the numbers mean", (BulletList(tuple(footnotes.definitions(summary, {}))),), folded=True)
