"""The verb that writes a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ablate.cli.console import console
from ablate.cli.naming import complete_space, space_file
from ablate.cli.options import RESULTS, Json, Plugin, Profile, ResultsFolder, Set
from ablate.errors import InputError
from ablate.output.streams import write_text

if TYPE_CHECKING:
    from ablate.session.reporting import Reported

Asked = Annotated[
    str,
    typer.Argument(
        metavar="SPACE",
        help="A space: the name of one that was run, its file, or its file's name.",
        show_default=False,
        autocompletion=complete_space,
    ),
]


def report(
    space: Asked,
    profile: Profile = None,
    settings: Set = None,
    results: ResultsFolder = RESULTS,
    plugin: Plugin = None,
    json: Json = False,
) -> None:
    """Write the page of a space from its results, for a browser and as Markdown; nothing is trained."""
    found = _report(space, profile, settings, results, plugin)
    if json:
        _as_json(found)
    else:
        _shown(found)


def _report(
    space: str, profile: str | None, settings: list[str] | None, results: Path, plugin: list[Path] | None
) -> Reported:
    from ablate import api
    from ablate.session import reporting

    if _is_file(space, results):
        loaded = api.load_space(space_file(Path(space)), profile=profile, settings=settings or (), plugins=plugin or ())
        return reporting.report(loaded, results=results)
    request = reporting.asked(space, results=results)
    if given := [name for name, value in (("--profile", profile), ("--set", settings), ("--plugin", plugin)) if value]:
        raise InputError(
            f"{', '.join(given)} has no effect with the name of a space, which is shown as it was run\n"
            f"  = leave it out, or give the file: {request.path}"
        )
    loaded = api.load_space(request.path, profile=request.profile, settings=request.settings, plugins=request.plugins)
    return reporting.report(loaded, results=results, request=request)


def _is_file(space: str, results: Path) -> bool:
    """Whether the file of a space is meant: by its path, or by a name that no run has."""
    from ablate.grammar.named_files import is_name, own_files, shipped_files
    from ablate.store.requests import latest

    if not is_name(space) or Path(space).is_file():
        return True
    return space not in latest(results) and (space in own_files("space") or space in shipped_files("space"))


def _as_json(found: Reported) -> None:
    from ablate.report.json_form import document, dump

    said = {} if found.record is None else document(found.record.summary, found.record.definitions)
    write_text(dump({"html": str(found.html), "markdown": str(found.markdown), "summary": said or None}))


def _shown(found: Reported) -> None:
    from ablate.report.page import answer, conclusion

    screen = console()
    if found.record is not None:
        record = found.record
        lines = [record.title, *conclusion.conclusion(record.summary)]
        lines += [answer.unfinished(record)] if record.partial else []
        for line in lines:
            screen.print(line, markup=False, highlight=False, soft_wrap=True)
    screen.print(
        f"page: {found.html}\n      {found.markdown}", style="dim", markup=False, highlight=False, soft_wrap=True
    )
