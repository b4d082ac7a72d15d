"""What a search over blocks found: one record, shown on the terminal, as Markdown, as JSON and as a page.

    record.py              the search as frozen values: what was asked, proposed, trained, and confirmed
    analysis.py            what follows from them: the Pareto front, who beats the reference, hypervolume
    confirmation.py        what fresh seeds left of it
    confirmation_table.py  the table of that, for the terminal
    answer.py              the answer and what to beware of, in sentences
    rows.py                the tables of what was found
    history.py             the tables of how the search went
    glossary.py            what each number means
    ask_next.py            how to repeat it, and how to ask which edit of a found block matters
    screen.py              the answer in one screen, for the terminal
    json_form.py           the record of a search as JSON, and from it
    sections.py            the page as a document
    plots.py               its plots
    axes.py                their axes

A search proposes; it does not find out. It looks at many blocks at few seeds, so the best of them are in part the
luckiest: what is said of them is said with that, and what fresh seeds left of it stands beside it.
"""

from ablate.report import markdown_renderer
from ablate.report.html import renderer
from ablate.report.searched.record import SearchRecord
from ablate.report.searched.sections import page


def to_html(record: SearchRecord) -> str:
    """The page of a search as one HTML file that needs no other."""
    return renderer.render(page(record))


def to_markdown(record: SearchRecord) -> str:
    """The page of a search as Markdown: everything but the plots, whose numbers are in its tables."""
    return markdown_renderer.render(page(record))


__all__ = ["page", "to_html", "to_markdown"]
