"""The verb that forecasts a model before a single step."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ablate.cli.console import note, show
from ablate.cli.naming import complete_space, space_file
from ablate.cli.options import GRAMMAR, RESULTS, GrammarFile, Json, Plugin, Profile, ResultsFolder, Set
from ablate.cli.reporting import figures_in_json, show_figures
from ablate.errors import InputError
from ablate.output.streams import write_text

if TYPE_CHECKING:
    from ablate.report.document import ReportDocument
    from ablate.report.figures import Figures
    from ablate.session.forecasting import Forecasts


def _size(what: str, most: int = 1_000_000) -> Any:
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
    layers: Annotated[int | None, _size("number of layers", 1_000)] = None,
    width: Annotated[int | None, _size("width")] = None,
    heads: Annotated[int | None, _size("number of heads")] = None,
    context: Annotated[int | None, _size("number of tokens in a sequence", 4096)] = None,
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
        title, forecasts, screen = _of_space(named, profile, settings, plugin, results, samples)
    else:
        if profile is not None or settings:
            raise InputError(
                f"{named} is a block: --profile and --set are of spaces\n  = give its sizes: --layers, --width, --heads"
            )
        title, forecasts, screen = _of_block(named, grammar, plugin, given, samples)
    written = None if figures is None else _written(title, forecasts, figures)
    if json:
        there = None if written is None else figures_in_json(written)
        write_text(as_json(forecasts.models, forecasts.refused, forecasts.sampled, there))
    else:
        show(Screen(screen))
        if written is not None:
            show_figures(written)


def _of_space(
    named: str,
    profile: str | None,
    settings: list[str] | None,
    plugin: list[Path] | None,
    results: Path,
    samples: int,
) -> tuple[str, Forecasts, ReportDocument]:
    """Forecast the variants of a space; return its title, the forecasts and their screen."""
    from ablate import api
    from ablate.report.screens.forecast import space_screen
    from ablate.session.forecasting import forecast_space

    space = api.load_space(space_file(Path(named)), profile=profile, settings=settings or (), plugins=plugin or ())
    forecasts = forecast_space(space, results=results, samples=samples)
    screen = space_screen(space.name, space.question, forecasts.models, forecasts.refused, forecasts.sampled)
    return screen.title, forecasts, screen


def _of_block(
    named: str, grammar: Path, plugin: list[Path] | None, given: dict[str, float], samples: int
) -> tuple[str, Forecasts, ReportDocument]:
    """Forecast a block at the sizes `given`, and others for display; return as `_of_space` does."""
    from ablate import api
    from ablate.report.screens.block import find
    from ablate.report.screens.forecast import block_screen
    from ablate.session.forecasting import AROUND, forecast_block, sizes_alone
    from ablate.theory.shortfalls import shortfalls_of

    of = find(named, api.load_grammar(grammar, plugins=plugin or ()), None, given)
    forecasts = forecast_block(named, of.block, of.sizes, of.catalogue, samples=samples)
    sizes = sizes_alone(of.block, of.sizes)
    narrow = shortfalls_of(of.block, of.catalogue)
    screen = block_screen(named, AROUND, sizes, forecasts.models[named], forecasts.sampled[named], narrow)
    return named, forecasts, screen


def _written(title: str, forecasts: Forecasts, folder: Path) -> Figures:
    """Draw forecasts into a folder."""
    from ablate.report.figures import write_export
    from ablate.report.figures.forecast_plots import of_forecasts

    return write_export(of_forecasts(title, forecasts.models, forecasts.sampled, tuple(forecasts.refused)), folder)


def _is_block(named: str, grammar: Path, plugin: list[Path] | None) -> bool:
    """Return whether a grammar has a block of that name."""
    from ablate import api

    return named in api.load_grammar(grammar, plugins=plugin or ()).blocks
