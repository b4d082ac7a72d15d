"""The page of a space: one record as a document, rendered for a browser and as Markdown.

    record.py         the answer and everything behind it, as frozen values
    sections.py       the page as a document, section by section; that of a table of runs trained elsewhere
    answer.py         the answer in a sentence, the grid of verdicts, and the texts around them
    verdicts.py       tables of verdicts, of the variants, and of a factorial
    cost.py           tables of cost, unequal quantities, noise, trials and the versions they ran with
    forest.py         every comparison with its interval, a panel for each metric
    differences.py    paired differences from the baseline over training
    curves.py         losses and probes over training
    heatmaps.py       heat maps of probes by layer and step, and of the kernels of tokens by position
    forecast.py       what was forecast before the first step, beside what was measured
    gains.py          trained gains over training
    pareto.py         two metrics against each other; interaction plots of two edits
    doses.py          a metric over the levels of an ordered factor
    ladder_plots.py   losses and speed-ups over the training compute of a ladder's sizes
    panels.py         what plots share: colours of variants, axes, how many fit

Every figure has a table beside it or says where its numbers are; the page says what is folded or drawn at fewer steps.
"""

from ablate.report import html_renderer, markdown_renderer
from ablate.report.page.record import PageRecord, ShownVariant
from ablate.report.page.sections import page, table_page


def to_html(record: PageRecord) -> str:
    return html_renderer.render(page(record))


def to_markdown(record: PageRecord) -> str:
    """Plots are left out: their numbers are in the tables."""
    return markdown_renderer.render(page(record))


__all__ = ["PageRecord", "ShownVariant", "page", "table_page", "to_html", "to_markdown"]
