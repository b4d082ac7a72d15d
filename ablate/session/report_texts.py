"""The answer of a run as texts by file name: verdicts, their page, what a search has found."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ablate.report import markdown_renderer
from ablate.report.html import renderer as html_renderer
from ablate.report.json_form import to_json
from ablate.report.page import PageRecord, page
from ablate.report.searched import json_form
from ablate.report.searched import page as page_of_search
from ablate.report.searched.record import SearchRecord
from ablate.report.verdict_tables import to_markdown
from ablate.store.mlflow.sent import Texts
from ablate.verdict.summary import Summary


def of_search(record: SearchRecord) -> Mapping[str, str]:
    """Return the texts of what a search has found."""
    document = page_of_search(record)
    return {
        "search.md": markdown_renderer.render(document),
        "search.json": json_form.to_json(record),
        "search.html": html_renderer.render(document),
    }


def of_verdicts(
    summary: Summary, definitions: Mapping[str, str], gathered: Callable[[], PageRecord] | None
) -> Mapping[str, str]:
    """Return the texts of verdicts and, if there is a record of it, of their page, drawn when first read."""
    verdicts = {
        "verdicts.md": to_markdown(summary, definitions),
        "verdicts.json": to_json(summary, definitions),
    }
    if gathered is None:
        return verdicts

    def pages() -> Mapping[str, str]:
        document = page(gathered())
        return {"page.html": html_renderer.render(document), "page.md": markdown_renderer.render(document)}

    return Texts(verdicts, pages)
