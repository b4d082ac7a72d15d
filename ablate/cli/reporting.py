"""Reporting: the verbs that write pages and figures and train nothing, `report` and `forecast`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ablate.cli.console import console, from_here, note, show
from ablate.cli.options import (
    GRAMMAR,
    RESULTS,
    GrammarFile,
    Json,
    Plugin,
    Profile,
    ResultsFolder,
    Set,
    complete_space,
    load_grammar,
    load_space,
)
from ablate.errors import InputError
from ablate.output.escape import write_text
from ablate.output.words import of_profile, plural

if TYPE_CHECKING:
    from ablate.report.document import ReportDocument
    from ablate.report.figures import Figures
    from ablate.session.forecasting import Forecasts
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
    from ablate.session import reporting

    if _is_file(space, results):
        return reporting.report(load_space(Path(space), profile, settings, plugin), results=results)
    if given := [name for name, value in (("--profile", profile), ("--set", settings), ("--plugin", plugin)) if value]:
        file = reporting.last_request(space, results=results).shown[0]
        raise InputError(
            f"{', '.join(given)} has no effect with the name of a space, which is reported as it was run\n"
            f"  = leave it out, or give the file: {file}"
        )
    return reporting.report_run(space, results=results)


def _is_file(space: str, results: Path) -> bool:
    """True if the file of a space is meant: by its path, or by a name that no run has."""
    from ablate.grammar.named_files import is_name, own_files, shipped_files
    from ablate.store.snapshot import Snapshot

    if not is_name(space) or Path(space).is_file():
        return True
    now = Snapshot(results)
    known = {*now.requests, *now.tables}
    return space not in known and (space in own_files("space") or space in shipped_files("space"))


def _as_json(reported: Reported, exported: Figures | None) -> None:
    from ablate.report.json_form import document, dump, render
    from ablate.session.reporting import document_of

    page, record = document_of(reported), reported.record
    summary = {} if reported.summary is None else document(reported.summary, record.definitions if record else {})
    answer = {
        "html": str(reported.html),
        "markdown": str(reported.markdown),
        "summary": summary or None,
        "page": None if page is None else render(page),
        **({} if exported is None else {"figures": figures_in_json(exported)}),
    }
    write_text(dump(answer))


def figures_in_json(exported: Figures) -> dict[str, str | tuple[str, ...]]:
    return {
        "folder": str(exported.folder),
        "files": exported.files,
        "left_out": exported.left_out,
        "earlier": exported.earlier,
    }


def _shown(reported: Reported) -> None:
    from ablate.report.page.answer import conclusion, unfinished

    screen, record = console(), reported.record
    lines: list[str] = []
    if record is not None:
        lines = [record.title, *of_profile(record.summary.profile), *conclusion(record.summary)]
        lines += [unfinished(record)] if record.partial else []
    elif reported.summary is not None:
        lines = [reported.summary.space, *conclusion(reported.summary)]
    for line in lines:
        screen.print(line, soft_wrap=True)
    pages = f"page: {from_here(reported.html)}\n      {from_here(reported.markdown)}"
    screen.print(pages, style="dim", soft_wrap=True)


def show_figures(exported: Figures) -> None:
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
        screen.print(line, style="dim", soft_wrap=True)


def _block_size(what: str, most: int = 1_000_000) -> Any:
    return typer.Option(min=1, max=most, help=f"Of a block: its {what}.", show_default=False)


def forecast(
    named: Annotated[
        str,
        typer.Argument(
            metavar="BLOCK|SPACE",
            help="A block by its name, or a space: its file or its name.",
            show_default=False,
            autocompletion=complete_space,
        ),
    ],
    grammar: GrammarFile = GRAMMAR,
    layers: Annotated[int | None, _block_size("number of layers", 1_000)] = None,
    width: Annotated[int | None, _block_size("width")] = None,
    heads: Annotated[int | None, _block_size("number of heads")] = None,
    context: Annotated[int | None, _block_size("number of tokens in a sequence", 4096)] = None,
    repetition: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Of a block: the chance that two of its tokens are the same.", show_default=False
        ),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(
            "--figures",
            metavar="DIR",
            help="Write curves over the layers, and token kernels, to this folder, with their numbers.",
            show_default=False,
        ),
    ] = None,
    samples: Annotated[
        int, typer.Option(min=0, max=100, help="Also sample this many initialisations, and show what they measure.")
    ] = 0,
    profile: Profile = None,
    settings: Set = None,
    results: ResultsFolder = RESULTS,
    plugin: Plugin = None,
    json: Json = False,
) -> None:
    """Forecast a model before a single step: rank collapse, growth of the stream, and how its gradient goes back.

    A block is shown layer by layer, at sizes for display unless others are given; a space variant by variant, at its
    own sizes and on its own text. Nothing is trained.
    """
    from ablate.grammar.named_files import means_space
    from ablate.report.screens.forecast import as_json
    from ablate.report.terminal_renderer import Screen

    sizes = {"n_layers": layers, "d_model": width, "n_heads": heads, "seq_len": context, "repetition": repetition}
    given: dict[str, float] = {name: size for name, size in sizes.items() if size is not None}
    of_block = bool(given) or grammar != GRAMMAR
    if means_space(named) and not (of_block and _is_block(named, grammar, plugin)):
        if of_block:
            raise InputError(
                f"{named} is a space, with a grammar and sizes of its own: sizes and --grammar are given for blocks\n"
                "  = change those of the space: --set model.layers=24"
            )
        if _is_block(named, grammar, plugin):
            note(f"{named} is a space, which this is, and a block: for the block give a size, such as --layers 12")
        title, forecasts, screen = _forecast_space(named, profile, settings, plugin, results, samples)
    else:
        if profile is not None or settings:
            raise InputError(
                f"{named} is a block: --profile and --set are of spaces\n  = give its sizes: --layers, --width, --heads"
            )
        title, forecasts, screen = _forecast_block(named, grammar, plugin, given, samples)
    written = None if figures is None else _write_figures(title, forecasts, figures)
    if json:
        there = None if written is None else figures_in_json(written)
        write_text(as_json(forecasts.models, forecasts.refused, forecasts.sampled, there))
    else:
        show(Screen(screen))
        if written is not None:
            show_figures(written)


def _forecast_space(
    named: str,
    profile: str | None,
    settings: list[str] | None,
    plugin: list[Path] | None,
    results: Path,
    samples: int,
) -> tuple[str, Forecasts, ReportDocument]:
    """The title of a space, the forecasts of its variants and their screen."""
    from ablate.report.screens.forecast import space_screen
    from ablate.session.forecasting import forecast_space

    space = load_space(Path(named), profile, settings, plugin)
    forecasts = forecast_space(space, results=results, samples=samples)
    screen = space_screen(space.name, space.question, forecasts.models, forecasts.refused, forecasts.sampled)
    return screen.title, forecasts, screen


def _forecast_block(
    named: str, grammar: Path, plugin: list[Path] | None, given: dict[str, float], samples: int
) -> tuple[str, Forecasts, ReportDocument]:
    """As `_forecast_space`, of a block at the sizes `given`, with those for display in place of the others."""
    from ablate.report.screens.block import find
    from ablate.report.screens.forecast import block_screen
    from ablate.session.forecasting import AROUND, forecast_block, sizes_alone
    from ablate.theory.initial_state import shortfalls_of

    of = find(named, load_grammar(grammar, plugin), None, given)
    forecasts = forecast_block(named, of.block, of.sizes, of.catalogue, samples=samples)
    sizes = sizes_alone(of.block, of.sizes)
    narrow = shortfalls_of(of.block, of.catalogue)
    screen = block_screen(named, AROUND, sizes, forecasts.models[named], forecasts.sampled[named], narrow)
    return named, forecasts, screen


def _write_figures(title: str, forecasts: Forecasts, folder: Path) -> Figures:
    from ablate.report.figures import write_export
    from ablate.report.figures.forecast_plots import of_forecasts

    return write_export(of_forecasts(title, forecasts.models, forecasts.sampled, tuple(forecasts.refused)), folder)


def _is_block(named: str, grammar: Path, plugin: list[Path] | None) -> bool:
    return named in load_grammar(grammar, plugin).blocks
