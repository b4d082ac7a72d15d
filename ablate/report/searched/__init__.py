"""The results of a search over blocks: one record, shown on the terminal, as Markdown, as JSON and as a page.

    record.py              the search as frozen values: its objectives, proposals, trained and confirmed blocks
    analysis.py            what follows: the Pareto front, the blocks that beat the reference, hypervolume
    confirmation.py        how much of it remained at fresh seeds
    confirmation_table.py  the table of the confirmation, for the terminal
    answer.py              the answer and its caveats, in sentences
    rows.py                the tables of results
    history.py             the tables of how the search went
    ask_next.py            how to repeat it, and how to ask which edit of a block matters
    screen.py              the answer in one screen, for the terminal
    json_form.py           the record of a search as JSON, and from it
    sections.py            the page as a document
    plots.py               its plots
    axes.py                their axes

A search proposes candidates; it does not establish findings. It compares many blocks at few seeds, so the best of them
are partly lucky: the report says so, and shows how much of their advantage remained at fresh seeds.
"""

from ablate.report import markdown_renderer
from ablate.report.html import renderer
from ablate.report.searched.record import SearchRecord
from ablate.report.searched.sections import page


def to_html(record: SearchRecord) -> str:
    """Return the page of a search as one self-contained HTML file."""
    return renderer.render(page(record))


def to_markdown(record: SearchRecord) -> str:
    """Return the page of a search as Markdown: everything except the plots, whose numbers are in its tables."""
    return markdown_renderer.render(page(record))


__all__ = ["page", "to_html", "to_markdown"]
