"""The page of a space: one record, as a document that is shown for a browser and as Markdown.

    record.py         the answer and everything behind it, as frozen values
    sections.py       the page as a document, section by section
    conclusion.py     the answer in a sentence, and the grid of verdicts
    answer.py         the answer in sentences: what was found, what stands undecided, what did not help
    verdicts.py       tables of verdicts, of the variants, and of a factorial
    cost.py           tables of cost, of what was unequal, of noise, of trials and what they ran with
    forest.py         every comparison with its interval, a panel for each metric
    differences.py    paired differences from the baseline over training
    curves.py         losses and probes over training
    heatmaps.py       probes by layer and step
    token_kernels.py  kernels of tokens by position
    gains.py          trained gains over training
    pareto.py         two metrics against each other; the means of two edits that interact
    panels.py         what plots share: colours of variants, axes, how many fit
    glossary.py       what the numbers mean

Every figure has a table beside it or says where its numbers are; what is folded or drawn at fewer steps is said.
"""

from ablate.report import markdown_renderer
from ablate.report.html import renderer
from ablate.report.page.record import PageRecord, ShownVariant
from ablate.report.page.sections import page


def to_html(record: PageRecord) -> str:
    """The page as one HTML file that needs no other."""
    return renderer.render(page(record))


def to_markdown(record: PageRecord) -> str:
    """The page as Markdown: everything but the plots, whose numbers are in its tables."""
    return markdown_renderer.render(page(record))


__all__ = ["PageRecord", "ShownVariant", "page", "to_html", "to_markdown"]
