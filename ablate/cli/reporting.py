"""The verb that writes a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ablate.cli.console import console, from_here, note
from ablate.cli.naming import complete_space, space_file
from ablate.cli.options import RESULTS, Json, Plugin, Profile, ResultsFolder, Set
from ablate.errors import InputError
from ablate.output.streams import write_text
from ablate.output.words import of_profile, plural

if TYPE_CHECKING:
    from ablate.report.figures import Figures
    from ablate.session.reporting import Reported

SpaceToReport = Annotated[
    str,
    typer.Argument(
        metavar="SPACE",
        help="A space: the name of one that was run, or its file, by path or by name.",
        show_default=False,
        autocompletion=complete_space,
    ),
]

FiguresFolder = Annotated[
    Path | None,
    typer.Option(
        "--figures",
        metavar="DIR",
        help="Write figures to this folder, with their numbers, a LaTeX table, and sentences for captions and methods.",
        show_default=False,
    ),
]


def report(
    space: SpaceToReport,
    profile: Profile = None,
    settings: Set = None,
    results: ResultsFolder = RESULTS,
    plugin: Plugin = None,
    figures: FiguresFolder = None,
    json: Json = False,
) -> None:
    """Write the page of a space from its results, for a browser and as Markdown; nothing is trained.

    With --figures also its plots for a paper, as SVG, PDF and PNG at the width of a column and of a page. With --json,
    print where the page is, its verdicts in full, and its content, section by section.
    """
    from ablate.session import reporting

    reported = _report(space, profile, settings, results, plugin)
    if reported.changed:
        note(reported.changed)
    exported = None if figures is None else reporting.export_figures(reported, figures)
    if json:
        _as_json(reported, exported)
    else:
        _shown(reported)
        if exported is not None:
            show_figures(exported)


def _report(
    space: str, profile: str | None, settings: list[str] | None, results: Path, plugin: list[Path] | None
) -> Reported:
    from ablate import api
    from ablate.session import reporting

    if _is_file(space, results):
        loaded = api.load_space(space_file(Path(space)), profile=profile, settings=settings or (), plugins=plugin or ())
        return reporting.report(loaded, results=results)
    if given := [name for name, value in (("--profile", profile), ("--set", settings), ("--plugin", plugin)) if value]:
        file = reporting.last_request(space, results=results).shown[0]
        raise InputError(
            f"{', '.join(given)} has no effect with the name of a space, which is reported as it was run\n"
            f"  = leave it out, or give the file: {file}"
        )
    return reporting.report_run(space, results=results)


def _is_file(space: str, results: Path) -> bool:
    """Return whether the file of a space is meant: by its path, or by a name that no run has."""
    from ablate.grammar.named_files import is_name, own_files, shipped_files
    from ablate.store.snapshot import Snapshot

    if not is_name(space) or Path(space).is_file():
        return True
    now = Snapshot(results)
    known = {*now.requests, *now.tables}
    return space not in known and (space in own_files("space") or space in shipped_files("space"))


def _as_json(reported: Reported, exported: Figures | None) -> None:
    from ablate.report import json_renderer
    from ablate.report.json_form import document, dump
    from ablate.session.reporting import document_of

    page, record = document_of(reported), reported.record
    summary = {} if reported.summary is None else document(reported.summary, record.definitions if record else {})
    answer: dict[str, object] = {"html": str(reported.html), "markdown": str(reported.markdown)}
    answer["summary"] = summary or None
    answer["page"] = None if page is None else json_renderer.render(page)
    if exported is not None:
        answer["figures"] = figures_in_json(exported)
    write_text(dump(answer))


def figures_in_json(exported: Figures) -> dict[str, object]:
    """Return which files were written, what was left out, and what is there from an earlier export."""
    return {
        "folder": str(exported.folder),
        "files": exported.files,
        "left_out": exported.left_out,
        "earlier": exported.earlier,
    }


def _shown(reported: Reported) -> None:
    from ablate.report.page import answer, conclusion

    screen = console()
    if reported.record is not None:
        record = reported.record
        lines = [record.title, *of_profile(record.summary.profile), *conclusion.conclusion(record.summary)]
        lines += [answer.unfinished(record)] if record.partial else []
        for line in lines:
            screen.print(line, markup=False, highlight=False, soft_wrap=True)
    elif reported.summary is not None:
        for line in (reported.summary.space, *conclusion.conclusion(reported.summary)):
            screen.print(line, markup=False, highlight=False, soft_wrap=True)
    pages = f"page: {from_here(reported.html)}\n      {from_here(reported.markdown)}"
    screen.print(pages, style="dim", markup=False, highlight=False, soft_wrap=True)


def show_figures(exported: Figures) -> None:
    """Print which files were written, what was left out and why, and what is there from an earlier export."""
    screen = console()
    lines = [
        f"figures: {plural(len(exported.figures), 'plot')}, {plural(len(exported.files), 'file')} in {exported.folder}"
    ]
    for name, files in exported.figures.items():
        endings = ", ".join(file.removeprefix(name) for file in files)
        lines.append(f"         {name}: {endings}")
    lines += [f"         {name}" for name in exported.others]
    if exported.left_out:
        lines.append(f"left out: {len(exported.left_out)}")
        lines += [f"         {line}" for line in exported.left_out]
    if exported.earlier:
        lines.append(f"from an earlier export, left as they are: {', '.join(exported.earlier)}")
    for line in lines:
        screen.print(line, style="dim", markup=False, highlight=False, soft_wrap=True)
