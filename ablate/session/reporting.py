"""The page of a space, from its results: planned, judged, gathered, written. Nothing is trained, nothing is locked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ablate.errors import InputError, RefusedError
from ablate.grammar.named_files import as_typed
from ablate.report.page import PageRecord, to_html, to_markdown
from ablate.session.page_record import PAGES, gather
from ablate.session.planning import PathLike, plan_space
from ablate.source.problems import quote, unknown
from ablate.space.space import Space
from ablate.store.durable import write_whole, writing
from ablate.store.requests import Request, latest, listing
from ablate.verdict.summary import Summary


@dataclass(frozen=True, slots=True)
class Reported:
    """A page: where it is written, for a browser and as Markdown, and the verdicts on it. A search has no summary."""

    html: Path
    markdown: Path
    summary: Summary | None
    record: PageRecord | None = None


def asked(name: str, *, results: PathLike) -> Request:
    """The last run of the space of that name in a results folder; InputError where there is none."""

    found = latest(Path(results))
    if not found:
        raise InputError(f"nothing was run in {results}\n  = run a space first, or name another folder with --results")
    if name not in found:
        message, notes = f"no run of the space {quote(name)} in {results}", ("or give the file of a space",)
        raise unknown(message, name, found, "there are", command=listing(Path(results)), notes=notes)
    return found[name]


def report(space: Space, *, results: PathLike, request: Request | None = None) -> Reported:
    """Write the page of a space from what the results folder knows, also while a run is writing.

    `request` is how it was run, for the command that repeats it. RefusedError where nothing of it was run, and for a
    search that has no page yet: it is written when it runs.
    """
    folder = Path(results)
    if space.design.search is not None:
        return _of_search(space, folder)

    record = gather(plan_space(space, results=folder), folder, request=request)
    page = folder / PAGES / f"{space.name}.html"
    with writing(page.parent):
        page.parent.mkdir(exist_ok=True)
    written = Reported(page, page.with_suffix(".md"), record.summary, record)
    write_whole(written.html, to_html(record).encode())
    write_whole(written.markdown, to_markdown(record).encode())
    return written


def _of_search(space: Space, folder: Path) -> Reported:
    page = folder / PAGES / f"{space.name}.html"
    if not page.exists():
        raise RefusedError(
            f"{space.name} is a search, whose page is written when it runs\n"
            f"  = ablate run {as_typed(space.path)} writes {page}"
        )
    return Reported(page, page.with_suffix(".md"), None)
