"""The page of a space, from its results: planned, judged, gathered, written. Nothing is trained, nothing is locked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ablate.errors import InputError, RefusedError
from ablate.grammar.named_files import as_typed
from ablate.report import markdown_renderer
from ablate.report.document import ReportDocument
from ablate.report.figures import Export, belongs_to_export, files_of, of_search, of_space
from ablate.report.html import renderer as html_renderer
from ablate.report.page import PageRecord, page
from ablate.report.searched import page as page_of_search
from ablate.report.searched.json_form import from_json
from ablate.report.searched.record import SearchRecord
from ablate.session.page_record import PAGES, gather
from ablate.session.planning import PathLike, plan_space
from ablate.source.problems import quote, unknown
from ablate.space.space import Space
from ablate.store.durable import write_whole, writing
from ablate.store.kept_forecasts import with_kept_forecasts
from ablate.store.requests import Request, latest, listing
from ablate.verdict.summary import Summary

FIGURES = "--figures"
"""The option that names the folder of figures."""


@dataclass(frozen=True, slots=True)
class Reported:
    """A page: its files, for a browser and as Markdown, and the verdicts on it. A search has no summary, and its
    document is in its JSON.
    """

    html: Path
    markdown: Path
    summary: Summary | None
    record: PageRecord | None = None
    document: ReportDocument | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """The result of an export: files by the name of their figure, other files, what it left out and why, and files in
    the folder from an earlier export.
    """

    folder: Path
    figures: Mapping[str, tuple[str, ...]]
    others: tuple[str, ...]
    left_out: tuple[str, ...]
    earlier: tuple[str, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """The names of all files written."""
        return (*(name for names in self.figures.values() for name in names), *self.others)


def last_request(name: str, *, results: PathLike) -> Request:
    """Return the request of a space's last run in a results folder; InputError if there is none."""

    requests = latest(Path(results))
    if not requests:
        raise InputError(f"nothing was run in {results}\n  = run a space first, or name another folder with --results")
    if name not in requests:
        message, notes = f"no run of the space {quote(name)} in {results}", ("or give the file of a space",)
        raise unknown(message, name, requests, "there are", command=listing(Path(results)), notes=notes)
    return requests[name]


def report(space: Space, *, results: PathLike, request: Request | None = None) -> Reported:
    """Write the page of a space from what the results folder knows, also during a run.

    `request` is how it was run, for the command that repeats it. RefusedError if nothing of it was run, and for a
    search that has no page yet, which its run writes.
    """
    folder = Path(results)
    if space.design.search is not None:
        return _of_search(space, folder)

    planned = plan_space(space, results=folder, forecasts="none")
    record = gather(replace(planned, plan=with_kept_forecasts(planned.plan, folder)), folder, request=request)
    path, document = folder / PAGES / f"{space.name}.html", page(record)
    with writing(path.parent):
        path.parent.mkdir(exist_ok=True)
    written = Reported(path, path.with_suffix(".md"), record.summary, record, document)
    write_whole(written.html, html_renderer.render(document).encode())
    write_whole(written.markdown, markdown_renderer.render(document).encode())
    return written


def _of_search(space: Space, folder: Path) -> Reported:
    path = folder / PAGES / f"{space.name}.html"
    if not path.exists():
        raise RefusedError(
            f"{space.name} is a search, whose page is written when it is run\n"
            f"  = ablate run {as_typed(space.path)} writes {path}"
        )
    return Reported(path, path.with_suffix(".md"), None)


def document_of(reported: Reported) -> ReportDocument | None:
    """Return the document of a page; None for a search whose record cannot be read."""
    if reported.document is not None:
        return reported.document
    try:
        return page_of_search(_search_record(reported))
    except RefusedError:
        return None


def export_figures(reported: Reported, folder: PathLike) -> Figures:
    """Write the figures of a page into a folder, as `write_export` does."""
    return write_export(_export(reported), folder)


def write_export(export: Export, folder: PathLike) -> Figures:
    """Write an export into a folder, which is created if needed.

    Files of an earlier export are overwritten if they have the same name, and otherwise left and listed.
    """
    folder = Path(folder)
    with writing(folder, FIGURES):
        folder.mkdir(parents=True, exist_ok=True)
        there = sorted(path.name for path in folder.iterdir() if path.is_file())
    figures: dict[str, tuple[str, ...]] = {}
    for name, plot in export.plots:
        contents = dict(files_of(plot, name))
        for file, content in contents.items():
            write_whole(folder / file, content, FIGURES)
        figures[name] = tuple(contents)
    for file, text in export.texts.items():
        write_whole(folder / file, text.encode(), FIGURES)
    written = {*export.texts, *(file for files in figures.values() for file in files)}
    earlier = tuple(name for name in belongs_to_export(there) if name not in written)
    return Figures(folder, figures, tuple(export.texts), export.left_out, earlier)


def _export(reported: Reported) -> Export:
    return of_search(_search_record(reported)) if reported.record is None else of_space(reported.record)


def _search_record(reported: Reported) -> SearchRecord:
    """Read the record of a search from the JSON beside its page; RefusedError if that cannot be read."""
    kept = reported.html.with_suffix(".json")
    try:
        return from_json(kept.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not in the format of this version"
        raise RefusedError(
            f"the record of the search, {kept}, cannot be read: {why}\n"
            "  = run the search again: it trains nothing that is known, and writes the record again"
        ) from error
