"""The answer of a run as texts by file name: verdicts, their page, what a search has found."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ablate.report.json_form import to_json
from ablate.report.page import PageRecord
from ablate.report.page import to_html as page_to_html
from ablate.report.page import to_markdown as page_to_markdown
from ablate.report.searched import json_form
from ablate.report.searched import to_html as search_to_html
from ablate.report.searched import to_markdown as search_to_markdown
from ablate.report.searched.record import SearchRecord
from ablate.report.verdict_tables import to_markdown
from ablate.store.mlflow.sent import Texts
from ablate.verdict.summary import Summary


def of_search(record: SearchRecord) -> Mapping[str, str]:
    """What a search has found."""
    return {
        "search.md": search_to_markdown(record),
        "search.json": json_form.to_json(record),
        "search.html": search_to_html(record),
    }


def of_verdicts(
    summary: Summary, definitions: Mapping[str, str], gathered: Callable[[], PageRecord] | None
) -> Mapping[str, str]:
    """Verdicts; and where there is something to show, their page, drawn when it is asked for."""
    verdicts = {
        "verdicts.md": to_markdown(summary, definitions),
        "verdicts.json": to_json(summary, definitions),
    }
    if gathered is None:
        return verdicts

    def pages() -> Mapping[str, str]:
        record = gathered()
        return {"page.html": page_to_html(record), "page.md": page_to_markdown(record)}

    return Texts(verdicts, pages)
