"""The plots of forecasts: size, cosine and gradient of each model over its layers, and its token kernels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ablate.output.words import plural
from ablate.report.figures.export import SENTENCES, Export, captions
from ablate.report.figures.files import file_names
from ablate.report.page import panels
from ablate.report.plot import INK, SERIES, Cell, Draw, Plot
from ablate.theory.initial_state import QUANTITIES, InitialModel, InitialStream

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Models: TypeAlias = Mapping[str, InitialModel]
Sampled: TypeAlias = Mapping[str, Sequence[InitialModel]]

METHOD = (
    "Forecasts are means over random weights in the limit of width, from the token kernels of the components; the "
    "gradient is that of a loss whose gradient is independent from token to token."
)
FIRST = 6  # maximum number of models whose token kernels are drawn
PLACES = 48
"""Maximum number of places of a sequence in a token kernel; of a longer sequence, so many evenly spread ones."""
COLUMNS = ("model", "of", "layer", "n", *QUANTITIES, *(f"{quantity}_sd" for quantity in QUANTITIES))
"""The numbers behind curves: of the forecast, n is 0; of sampled initialisations n, means and standard deviations."""
CELLS = ("model", "layer", "i", "j", "cosine")
"""The numbers behind kernels: cells on and below the diagonal, of which those above are the mirror image."""


def of_forecasts(title: str, models: Models, sampled: Sampled, refused: Sequence[str] = ()) -> Export:
    plots = [*_curves(models, sampled), *_kernels(models)]
    named = tuple(zip(file_names(plots), plots, strict=True))
    left = [f"{name}: it is not forecast" for name in refused]
    if others := list(models)[FIRST:]:
        left.append(f"kernels of {', '.join(others)}: too many models to draw; --json has their cosines")
    return Export(plots=named, texts={SENTENCES: captions(title, named, METHOD)} if plots else {}, left_out=tuple(left))


def _curves(models: Models, sampled: Sampled) -> Iterator[Plot]:
    names = list(models)
    for place, start in enumerate(range(0, len(names), SERIES)):
        group = {name: models[name] for name in names[start : start + SERIES]}
        beside = {name: sampled[name] for name in group if sampled.get(name)}
        caption = "Before a single step, by layer: " + "; ".join(f"{name}: {what}" for name, what in QUANTITIES.items())
        if beside:
            n = len(next(iter(beside.values())))
            caption += f". Lines: forecast; points: mean over {plural(n, 'sampled initialisation')}"
            caption += ", ± one standard deviation" if n > 1 else ""
        yield Plot(
            name="forecast" + (f"-{place + 1}" if place else ""),
            id=f"forecast-{place}",
            draw=tuple(_panel(group, beside, quantity) for quantity in QUANTITIES),
            about=f"Size, cosine and gradient over the layers of {', '.join(group)}, before a single step.",
            caption=f"{caption}.",
            height=2.0,
            columns=COLUMNS,
            rows=tuple(row for name in group for row in _numbers(name, group[name], beside.get(name, ()))),
        )


def _panel(models: Models, sampled: Sampled, quantity: str) -> Draw:
    which = list(QUANTITIES).index(quantity)

    def draw(axes: Axes) -> None:
        from matplotlib.ticker import MaxNLocator

        values: list[float] = []
        for place, (name, model) in enumerate(models.items()):
            layers, line = [stream.layer for stream in model.streams], [each.shown()[which] for each in model.streams]
            ink, style = INK[f"line{place}"], panels.STYLES[place % len(panels.STYLES)]
            axes.plot(layers, line, ls=style, color=ink, lw=1.5, label=panels.short(name))
            values += line
            if name in sampled:
                means, spreads = zip(*(_mean_and_sd(at)[which] for at in _by_layer(sampled[name])), strict=True)
                axes.errorbar(layers, means, yerr=[s or 0.0 for s in spreads], fmt="o", ms=2.5, lw=0.7, color=ink)
                values += means
        known = [value for value in values if math.isfinite(value)]
        over = max(known) / min(known) if known and min(known) > 0 else 1.0
        panels.plain_ticks(axes, "y", log=over > panels.POWERS and quantity != "cosine", over=over)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        axes.set_xlabel("behind layer")
        axes.set_ylabel(quantity)

    return draw


def _numbers(name: str, model: InitialModel, sampled: Sequence[InitialModel]) -> Iterator[tuple[Cell, ...]]:
    nothing = (None,) * len(QUANTITIES)
    for stream in model.streams:
        yield (name, "forecast", stream.layer, 0, *map(panels.finite, stream.shown()), *nothing)
    for layer, at in enumerate(_by_layer(sampled)):
        means, spreads = zip(*_mean_and_sd(at), strict=True)
        yield (name, "sampled", layer, len(at), *map(panels.finite, means), *spreads)


def _by_layer(models: Sequence[InitialModel]) -> list[tuple[InitialStream, ...]]:
    return list(zip(*(model.streams for model in models), strict=True))


def _mean_and_sd(streams: Sequence[InitialStream]) -> list[tuple[float, float | None]]:
    columns = zip(*(stream.shown() for stream in streams), strict=True)
    return [(fmean(each), stdev(each) if len(each) > 1 else None) for each in columns]


def _kernels(models: Models) -> Iterator[Plot]:
    for place, (name, model) in enumerate(list(models.items())[:FIRST]):
        last = len(model.streams) - 1
        streams = [model.streams[layer] for layer in dict.fromkeys((0, last // 2, last))]
        length = len(streams[0].kernel)
        places = list(dict.fromkeys(round(k * (length - 1) / max(1, PLACES - 1)) for k in range(PLACES)))
        cells = [_cells(stream, places) for stream in streams]
        some = "" if len(places) == length else f", at {len(places)} evenly spread places of {length:,}"
        yield Plot(
            name=f"forecast-kernels-{name}",
            id=f"forecast-kernel-{place}",
            draw=tuple(
                panels.matrix(at, f"behind layer {stream.layer}" if stream.layer else "embedding")
                for stream, at in zip(streams, cells, strict=True)
            ),
            about=f"Cosines of the tokens of a sequence in {name} before a single step: rows and columns are places.",
            caption=f"{name}: cosine of two tokens of a sequence before a single step, by place{some}; from 0 or less "
            "(light) to 1 (dark); 1 everywhere is rank collapse.",
            height=1.7,
            panels_across=len(streams),
            legend=False,
            key_title=f"cosine of two tokens of {panels.short(name, 24)}, by place",
            key=panels.shades(),
            columns=CELLS,
            rows=tuple(
                (name, stream.layer, places[i], places[j], panels.finite(value))
                for stream, at in zip(streams, cells, strict=True)
                for i, j, value in at
            ),
        )


def _cells(stream: InitialStream, places: Sequence[int]) -> list[tuple[int, int, float]]:
    """Return Σ_ij / √(Σ_ii Σ_jj) for j ≤ i at some places; NaN where a token is of zeros."""
    kernel = stream.kernel[np.ix_(places, places)]
    sizes = np.sqrt(np.diag(kernel))
    both = np.outer(sizes, sizes)
    cosines = np.divide(kernel, both, out=np.full_like(kernel, np.nan), where=both > 0)
    return [(i, j, float(cosines[i, j])) for i in range(len(places)) for j in range(i + 1)]
