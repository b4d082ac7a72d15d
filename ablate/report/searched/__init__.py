"""The results of a search over blocks: one record, shown on the terminal, as Markdown, as JSON and as a page.

    record.py        the search as frozen values: its objectives, proposals, trained and confirmed blocks
    analysis.py      the Pareto front, the blocks that beat the reference, hypervolume
    confirmation.py  how much of it remained at fresh seeds, and how to ask which edit of a block matters
    answer.py        the answer and its caveats, in sentences
    rows.py          the tables of results
    history.py       the tables of how the search went
    sections.py      the page and the screen as documents; the record as JSON, and from it
    plots.py         its plots

A search proposes candidates; it does not establish findings. It compares many blocks at few seeds, so the best of them
are partly lucky: the report says so, and shows how much of their advantage remained at fresh seeds.
"""

from ablate.report import html_renderer, markdown_renderer
from ablate.report.searched.record import SearchRecord
from ablate.report.searched.sections import page


def to_html(record: SearchRecord) -> str:
    return html_renderer.render(page(record))


def to_markdown(record: SearchRecord) -> str:
    """Plots are left out: their numbers are in the tables."""
    return markdown_renderer.render(page(record))


__all__ = ["page", "to_html", "to_markdown"]
