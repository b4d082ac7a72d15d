"""The page of a space, from its results: planned, judged, gathered, written. Nothing is trained, nothing is locked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
from ablate.store.requests import Request, latest, listing
from ablate.verdict.summary import Summary

FIGURES = "--figures"
"""What names the folder of figures on the command line."""


@dataclass(frozen=True, slots=True)
class Reported:
    """A page: where it is written, for a browser and as Markdown, and the verdicts on it. A search has no summary, and
    its document is in its JSON.
    """

    html: Path
    markdown: Path
    summary: Summary | None
    record: PageRecord | None = None
    document: ReportDocument | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """What an export wrote: files by the name of their figure, the others, what it left out and why, and what lies in
    the folder from an earlier one.
    """

    folder: Path
    figures: Mapping[str, tuple[str, ...]]
    others: tuple[str, ...]
    left_out: tuple[str, ...]
    earlier: tuple[str, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """The names of all that it wrote."""
        return (*(name for names in self.figures.values() for name in names), *self.others)


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
            f"{space.name} is a search, whose page is written when it runs\n"
            f"  = ablate run {as_typed(space.path)} writes {path}"
        )
    return Reported(path, path.with_suffix(".md"), None)


def document_of(reported: Reported) -> ReportDocument | None:
    """What stands on a page; None for a search whose record cannot be read."""
    if reported.document is not None:
        return reported.document
    try:
        return page_of_search(_search_record(reported))
    except RefusedError:
        return None


def export_figures(reported: Reported, folder: PathLike) -> Figures:
    """Write the figures of a page that was reported into a folder, which is made where it is not there.

    What is there from an earlier export is written over where it has the same name, and otherwise left and named.
    """
    export, folder = _export(reported), Path(folder)
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
    """The record of a search, from the JSON beside its page; RefusedError where that cannot be read."""
    kept = reported.html.with_suffix(".json")
    try:
        return from_json(kept.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not as this version writes it"
        raise RefusedError(
            f"what a search found is read from {kept}, which cannot be read: {why}\n"
            "  = run the search again, which trains nothing that is known and writes it anew"
        ) from error
